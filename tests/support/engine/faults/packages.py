"""The Python packages of the good image: version, and the files that a wheel brought."""

from __future__ import annotations

PYTHON_PACKAGES = {
    "filelock": ("3.16.1", ()),
    "nvidia-cuda-nvcc-cu12": ("12.4.131", ("nvidia/cuda_nvcc/bin/ptxas",)),
    "nvidia-cuda-runtime-cu12": ("12.4.127", ("nvidia/cuda_runtime/lib/libcudart.so.12",)),
    "nvidia-cudnn-cu12": ("9.1.0.70", ("nvidia/cudnn/lib/libcudnn.so.9",)),
    "nvidia-nccl-cu12": ("2.21.5", ("nvidia/nccl/lib/libnccl.so.2",)),
    "deepspeed": ("0.19.8", ("deepspeed/__init__.py",)),
    "jax": ("0.12.0.1", ("jax/__init__.py",)),
    "jax-cuda12-pjrt": ("0.12.0.1", ()),
    "jax-cuda12-plugin": ("0.12.0.1", ("jax_cuda12_plugin/_versions.py",)),
    "jaxlib": ("0.12.0.1", ("jaxlib/xla_client.py",)),
    "mpi4py": ("4.1.2", ("mpi4py/MPI.py",)),
    "torch": ("2.6.0", ("torch/__init__.py",)),
    "tensorboard": ("2.21.0", ("tensorboard/__init__.py", "tensorboard/program.py")),
    "addition": ("1.0", ("addition/__init__.py", "addition/native.so")),
    "native": ("1.0", ("native/__init__.py", "native/_C.so", "native-1.0.dist-info/stackwright.json")),
}
ENTRY_POINTS = {"jax-cuda12-pjrt": "[jax_plugins]\nxla_cuda12 = jax_plugins.xla_cuda12\n"}
"""By which a package says what it is a plugin of."""
