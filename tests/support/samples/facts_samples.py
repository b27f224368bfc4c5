"""What compilers and wheels said of themselves, as recorded on 2026-11-22."""

from __future__ import annotations

PTXAS_11_7 = """\
Usage  : ptxas [options] <ptx file>,...
--fmad <true|false>                                 (-fmad)
        Default value:  'sm_99'.
--gpu-name <gpu name>                               (-arch)
        Specify name of NVIDIA GPU to generate code for. This option also takes virtual
        compute architectures, in which case code generation is suppressed. This
        can be used for parsing only.
        Allowed values for this option:  'compute_35','compute_37','compute_50',
        'compute_52','compute_53','compute_60','compute_61','compute_62','compute_70',
        'compute_72','compute_75','compute_80','compute_86','compute_87','lto_35',
        'lto_37','lto_50','lto_52','lto_53','lto_60','lto_61','lto_62','lto_70',
        'lto_72','lto_75','lto_80','lto_86','lto_87','sm_35','sm_37','sm_50','sm_52',
        'sm_53','sm_60','sm_61','sm_62','sm_70','sm_72','sm_75','sm_80','sm_86',
        'sm_87'.
        Default value:  'sm_52'.

--help                                              (-h)
        Print this help information on this tool.
"""
"""Of nvidia-cuda-nvcc-cu11 11.7.99; the option before and the one after are shortened."""

PTXAS_13_5 = """\
--gpu-name <gpu name>                               (-arch)
        Specify name of NVIDIA GPU to generate code for. This option also takes virtual
        compute architectures, in which case code generation is suppressed. This
        can be used for parsing only. PTX for .target sm_XY can be compiled to all
        GPU targets sm_MN, sm_MNa, SM_MNf where MN >= XY. PTX for .target sm_XYf
        can be compiled to GPU targets sm_XZ, sm_XZf, sm_XZa where Z >= Y and sm_XY
        and sm_XZ belong in same family. PTX with .target sm_XYa can only be compiled
        to GPU target sm_XYa.
        Allowed values for this option:  'compute_100','compute_100a','compute_100f',
        'compute_103','compute_103a','compute_103f','compute_107','compute_107a',
        'compute_107f','compute_110','compute_110a','compute_110f','compute_120',
        'compute_120a','compute_120f','compute_121','compute_121a','compute_121f',
        'compute_75','compute_80','compute_86','compute_87','compute_88','compute_89',
        'compute_90','compute_90a','lto_100','lto_100a','lto_100f','lto_103','lto_103a',
        'lto_103f','lto_107','lto_107a','lto_107f','lto_110','lto_110a','lto_110f',
        'lto_120','lto_120a','lto_120f','lto_121','lto_121a','lto_121f','lto_75',
        'lto_80','lto_86','lto_87','lto_88','lto_89','lto_90','lto_90a','sm_100',
        'sm_100a','sm_100f','sm_103','sm_103a','sm_103f','sm_107','sm_107a','sm_107f',
        'sm_110','sm_110a','sm_110f','sm_120','sm_120a','sm_120f','sm_121','sm_121a',
        'sm_121f','sm_75','sm_80','sm_86','sm_87','sm_88','sm_89','sm_90','sm_90a'.
        Default value:  'sm_75'.
"""
"""Of nvidia-cuda-nvcc 13.5.37."""

HOST_CONFIG_11_7 = """\
#if defined(__GNUC__)

#if __GNUC__ > 11

#error -- unsupported GNU version! gcc versions later than 11 are not supported!

#endif /* __GNUC__ > 11 */
"""

BUILD_INFO_2_12 = """\
import collections

build_info = collections.OrderedDict([('cpu_compiler', '/dt9/usr/bin/gcc'), \
('cuda_compute_capabilities', ['sm_35', 'sm_50', 'sm_60', 'sm_70', 'sm_75', 'compute_80']), \
('cuda_version', '11.8'), ('cudnn_version', '8'), \
('is_cuda_build', True), ('is_tensorrt_build', True)])
"""

BUILD_INFO_1_14 = """\
from __future__ import absolute_import

is_cuda_build = True

cuda_version_number = '10.0'
cudnn_version_number = '7'
"""
