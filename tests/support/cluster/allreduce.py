"""A sum over ranks by MPI alone, for an image that has no framework. Argument: how many floats.

Prints one line of JSON per rank: rank, size, the sum's first and last number, and the MPI library.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

MPICH = {"world": 0x44000000, "float": 0x4C00040A, "sum": 0x58000003}
"""Handles of MPICH's ABI are integers; Open MPI's are addresses of objects."""
OPEN_MPI = {"world": "ompi_mpi_comm_world", "float": "ompi_mpi_float", "sum": "ompi_mpi_op_sum"}


def _library() -> ctypes.CDLL:
    for name in ("libmpi.so.40", "libmpich.so.12"):
        try:
            return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    sys.exit("no MPI here")


def main(count: int) -> None:
    mpi = _library()
    handles: dict[str, object]
    if hasattr(mpi, OPEN_MPI["world"]):
        handles = {what: ctypes.byref(ctypes.c_char.in_dll(mpi, name)) for what, name in OPEN_MPI.items()}
    else:
        handles = {what: ctypes.c_int(value) for what, value in MPICH.items()}
    mpi.MPI_Init(None, None)
    rank, size = ctypes.c_int(), ctypes.c_int()
    mpi.MPI_Comm_rank(handles["world"], ctypes.byref(rank))
    mpi.MPI_Comm_size(handles["world"], ctypes.byref(size))
    given, total = (ctypes.c_float * count)(*[rank.value + 1] * count), (ctypes.c_float * count)()
    code = mpi.MPI_Allreduce(given, total, count, handles["float"], handles["sum"], handles["world"])
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    loaded = sorted({line.split()[-1] for line in maps if "/libmpi" in line})
    mpi.MPI_Finalize()
    answer = {"rank": rank.value, "size": size.value, "code": code, "sum": [total[0], total[count - 1]]}
    print(json.dumps({**answer, "loaded": loaded}), flush=True)


main(int(sys.argv[1]))
