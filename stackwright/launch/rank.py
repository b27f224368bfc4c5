"""What each rank runs before the training: it fails where they are not one world of as many as were started.

The batch script carries it, and the image's own Python runs it: it imports ctypes and sys alone.
"""

import ctypes
import sys

LIBRARIES = ("libmpi.so.40", "libmpich.so.12", "libmpi.so.12")
"""Open MPI 4 and 5; Debian's MPICH; the name that MPICH's ABI has elsewhere, as when it is bound in."""
MPICH_COMM_WORLD = 0x44000000
"""https://www.mpich.org/abi/: its handles are integers. Open MPI's are addresses of objects."""


def fault(asked: int, size: int) -> str:
    """What is wrong where ``asked`` ranks were started and one of them is in a world of ``size``."""
    if size == asked:
        return ""
    if size != 1:
        return f"wrong world: {asked} ranks were started, and this one sees {size}"
    return (
        f"singleton trap: {asked} ranks were started, and each is rank 0 of 1: the container's MPI did not "
        "reach srun. Next: srun --mpi=list; Open MPI needs --mpi=pmix, MPICH --mpi=pmi2; the container must "
        "see the host's /tmp and the variables PMIX_* and PMI_* (no --containall, no --cleanenv)"
    )


def world() -> int:
    """The size of MPI_COMM_WORLD, from the library that the training would load."""
    for name in LIBRARIES:
        try:
            mpi = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
            break
        except OSError as error:
            missing = error
    else:
        sys.exit(f"no MPI in the container: {missing}")
    open_mpi = hasattr(mpi, "ompi_mpi_comm_world")
    comm = mpi.ompi_mpi_comm_world if open_mpi else ctypes.c_int(MPICH_COMM_WORLD)
    size = ctypes.c_int()
    if mpi.MPI_Init(None, None) or mpi.MPI_Comm_size(comm, ctypes.byref(size)) or mpi.MPI_Finalize():
        sys.exit("MPI cannot be asked for the size of its world")
    return size.value


if __name__ == "__main__":
    sys.exit(fault(int(sys.argv[1]), world()) or None)
