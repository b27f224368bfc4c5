"""Stand-in for PyTorch: loads its library, as the real one does."""

import ctypes
from pathlib import Path

ctypes.CDLL(str(Path(__file__).parent / "lib" / "libtorch.so"), ctypes.RTLD_GLOBAL)

__version__ = "2.6.0+cu124"


def compiled_with_cxx11_abi() -> bool:
    return True
