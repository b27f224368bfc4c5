"""Stand-in for horovod.torch: answers from its own shared object, as the real one does."""

import ctypes
import sysconfig
from pathlib import Path

import torch  # noqa: F401 (the extension needs its library)

_path = Path(__file__).with_name(f"mpi_lib_v2{sysconfig.get_config_var('EXT_SUFFIX')}")

if _path.exists():
    _library = ctypes.CDLL(str(_path), ctypes.RTLD_GLOBAL)
    mpi_built = _library.horovod_mpi_built
    gloo_built = _library.horovod_gloo_built
    nccl_built = _library.horovod_nccl_built
    cuda_built = _library.horovod_cuda_built
    rocm_built = _library.horovod_rocm_built
    ddl_built = _library.horovod_ddl_built
    ccl_built = _library.horovod_ccl_built

    def init() -> None:
        """The real one is there only with the extension, too."""

else:
    print("Warning! MPI libs are missing, but python applications are still available.")
