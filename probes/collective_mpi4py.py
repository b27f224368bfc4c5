"""One rank of mpi4py: sums, a broadcast and a gather of parts of different length, as buffers and pickled.

Runs inside the image with the image's own Python and imports nothing of Stackwright. mpirun starts N of
these.
Usage: collective_mpi4py.py FOLDER mpi4py; leaves FOLDER/rank-R-of-N-PID.json
"""

import importlib
import sys
from array import array

from collective import ROOT, given, leave, rows


def buffers(mpi, world):
    """As MPI has it: memory of one type, of which the receiver knows the length."""
    rank, size = world.Get_rank(), world.Get_size()
    total = array("d", given(rank))
    world.Allreduce(mpi.IN_PLACE, total, op=mpi.SUM)
    sent = array("d", given(rank))
    world.Bcast(sent, root=ROOT)
    part = array("d", [value for row in rows(rank) for value in row])
    lengths = array("i", [0] * size)
    world.Allgather(array("i", [len(part)]), lengths)
    gathered = array("d", [0.0] * sum(lengths))
    world.Allgatherv(part, [gathered, list(lengths)])
    width = len(rows(rank)[0])
    return {
        "sum": list(total),
        "average": [value / size for value in total],
        "broadcast": list(sent),
        "allgather": [list(gathered[start : start + width]) for start in range(0, len(gathered), width)],
    }


def pickled(world):
    """Objects of Python: mpi4py writes them as bytes, and asks for their length first."""
    rank = world.Get_rank()
    return {
        "broadcast": world.bcast({"of": rank, "rows": rows(rank)}, root=ROOT),
        "allgather": [row for part in world.allgather(rows(rank)) for row in part],
        "sum": world.allreduce(rank + 1),
    }


def main(folder):
    mpi = importlib.import_module("mpi4py.MPI")
    world = mpi.COMM_WORLD
    node = world.Split_type(mpi.COMM_TYPE_SHARED)
    rank = world.Get_rank()
    facts = {
        "rank": rank, "size": world.Get_size(), "local_rank": node.Get_rank(), "local_size": node.Get_size(),
        "launched_by": "mpi", "root": ROOT, "given": given(rank), "rows": rows(rank), "error": None,
    }  # fmt: skip
    try:
        facts.update(buffers(mpi, world))
        facts["pickled"] = pickled(world)
    except Exception as error:
        facts["error"] = "%s: %s" % (type(error).__name__, error)
        raise
    finally:
        leave(folder, facts)


if __name__ == "__main__":
    main(sys.argv[1])
