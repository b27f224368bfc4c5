"""What Horovod 0.28.1 needs to be compiled, and what must be done for it. Data only.

A condition maps a value of the row to a PEP 440 specifier, as in patches/horovod/series.yaml.
"""

from __future__ import annotations

from stackwright.core.components.component import Advice
from stackwright.core.facts.provenance import documented, read

NEEDS = ("cffi", "cloudpickle", "numpy", "packaging", "psutil", "pyyaml")
"""What the environment must hold for Horovod to be compiled and imported."""

INSTALL = documented("horovod 0.28.1, docs/install.rst", "2026-11-20")

RELEASE = "0.28.1"
"""What patches/horovod is for."""

CMAKE = (
    # from which CUDA, the oldest CMake, source
    ("0", "3.13", INSTALL),
    ("12.7", "3.18", documented("CMake, CUDA_STANDARD: 17, which cuda-std17.patch asks for", "2026-11-20")),
)

LOWEST = documented("horovod 0.28.1, docker-compose.test.yml: lowest versions that compile", "2026-11-20")

FLOORS = (
    # since which Horovod, field, lowest release, source
    ("0.20", "python", "3.6", documented("horovod 0.20.3, setup.py: python_requires", "2026-11-20")),
    ("0.22", "gcc", "5", documented("horovod 0.28.1, docs/install.rst: g++-5 or above", "2026-11-20")),
    ("0.28", "tensorflow", "1.15", LOWEST),
    ("0.28", "torch", "1.5", LOWEST),
    ("0.16.2", "mxnet", "1.4.1", documented("horovod 0.28.1, docs/install.rst; horovod #884", "2026-11-20")),
)

GPU_STREAM = "AsGpuStreamValue is gone, and headers of highwayhash and farmhash are needed"

UNPATCHED = (
    # framework, from which release, what Horovod's source trips over, source; a patch for it ends the line
    (
        "tensorflow",
        "2.21",
        GPU_STREAM,
        documented("conda-forge/horovod-feedstock, tf21_gpu_stream.patch", "2026-11-20"),
    ),
)


def _advice(then: str, source: str, **when: str) -> Advice:
    """What was seen in our own builds was read there; everything else is from a document."""
    obtained = read if source.startswith("seen ") else documented
    return Advice(when=tuple(when.items()), then=then, fact=obtained(source, "2026-11-20"))


ADVICE = (
    _advice(
        "start it with mpirun or srun: horovodrun passes -mca pml ob1 -mca btl ^openib, for older ones",
        "horovod 0.28.1, horovod/runner/mpi_run.py",
        openmpi=">=5",
    ),
    _advice(
        "MPICH is recognised by HYDRA in what mpirun --version says",
        "horovod master 8724eff1 (#3984)",
        mpich=">=4",
    ),
    _advice("#include <stdexcept> and <string> are added", "horovod master ff4ca09d (#3957)", gcc=">=13"),
    _advice("compiled as C++17", "horovod master 3a31d933 (#3998)", torch=">=2.1"),
    _advice("xla::StatusOr becomes absl::StatusOr", "horovod PR #4302", tensorflow=">=2.18"),
    _advice(
        "XLA's headers moved: xla/client/xla_builder.h to xla/hlo/builder",
        "horovod PR #4314",
        tensorflow=">=2.19",
    ),
    _advice(
        "two instances of absl's LogMessage that the wheel does not export are instantiated here",
        "seen with the wheel of TensorFlow 2.20.0",
        tensorflow=">=2.20",
    ),
    _advice(
        "horovod.tensorflow.keras is fixed for Keras 3; compile models with jit_compile=False",
        "seen in fit() on Keras 3; no release of Horovod supports it",
        tensorflow=">=2.16",
    ),
    _advice("compiled as C++20", "pytorch #178150; seen with PyTorch 2.15.0", torch=">=2.14"),
    _advice(
        "the CUDA kernels are compiled as C++17",
        "conda-forge/horovod-feedstock, 4313.patch; seen with nvcc 13.2 and gcc 14.2",
        cuda=">=12.7",
    ),
    _advice(
        "an operator that cannot be compiled goes from the flatbuffers that Horovod carries",
        "seen with gcc 14.2",
        gcc=">=14",
    ),
    _advice(
        "horovodrun imports multiprocessing's parts before it starts threads",
        "seen with Python 3.9.2",
        python="<3.10",
    ),
    _advice(
        "give HOROVOD_BUILD_CUDA_CC_LIST, in integers: the default holds architectures that this nvcc lacks",
        "conda-forge/horovod-feedstock (reported)",
        cuda=">=13",
    ),
    _advice(
        "distutils comes from setuptools, which stays in the image",
        "horovod 0.28.1, runner/js_run.py",
        python=">=3.12",
    ),
    _advice("setuptools before 70", "horovod #4051", torch="<2.1"),
    _advice("numpy before 1.24", "apache/mxnet: numpy.bool", mxnet=">=1"),
    _advice("the package with a GPU is tensorflow-gpu", "TensorFlow 2.1.0, release notes", tensorflow="<2.1"),
    _advice("CMake 4: CMAKE_POLICY_VERSION_MINIMUM=3.5", "horovod master 092e5f50 (#4310)"),
    _advice(
        "HOROVOD_WITH_x=1 or HOROVOD_WITHOUT_x=1 for each framework and controller; no build isolation",
        "horovod 0.28.1, docs/install.rst",
    ),
    _advice(
        "flatbuffers 2.0.6 or later stay out of the include path",
        "EasyBuild, Horovod-0.28.1_support_flatbuffers_2.0.6.patch",
    ),
)
