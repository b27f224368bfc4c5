"""Stand-in for PyTorch: loads its library, as the real one does."""

import ctypes
import subprocess
import tempfile
from pathlib import Path

ctypes.CDLL(str(Path(__file__).parent / "lib" / "libtorch.so"), ctypes.RTLD_GLOBAL)

__version__ = "2.6.0+cu124"

from torch import __config__, cuda, distributed  # noqa: E402, F401
from torch.cuda import nccl  # noqa: E402, F401


def compiled_with_cxx11_abi() -> bool:
    return True


class Tensor(list):
    def __mul__(self, by):
        return Tensor(value * by for value in self)

    def __add__(self, to):
        return Tensor(value + to for value in self)

    def __sub__(self, other):
        return Tensor(one - two for one, two in zip(self, other, strict=True))

    def abs(self):
        return Tensor(abs(value) for value in self)

    def max(self):
        return max(self)


def linspace(start, end, steps):
    return Tensor(start + (end - start) * step / (steps - 1) for step in range(steps))


def relu(values):
    return Tensor(max(0.0, value) for value in values)


def compile(function, **options):
    """Asks the compiler for OpenMP, as the real one does, and goes on with the function as it is."""
    with tempfile.TemporaryDirectory() as folder:
        argv = [
            "g++",
            "-fopenmp",
            "-shared",
            "-fPIC",
            "-x",
            "c++",
            "-",
            "-o",
            Path(folder) / "made.so",
        ]
        code = b"#include <omp.h>\nint n() { return omp_get_max_threads(); }"
        done = subprocess.run(argv, input=code, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            raise RuntimeError(f"C++ compile error\n{done.stderr.decode()}")
    return function
