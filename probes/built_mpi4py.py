"""Which MPI mpi4py was compiled with, and which one it loads.

Runs inside the image with the image's own Python and imports nothing of Stackwright.
Usage: built_mpi4py.py FACTS.json mpi4py
"""

import importlib
import json
import os
import re
import sys
from importlib import metadata

LIBRARY = re.compile(r"^lib(mpi|mpich)\.so")


def mapped():
    """Every file of an MPI that this process maps."""
    with open("/proc/self/maps") as handle:
        lines = [line.split(None, 5)[5:] for line in handle]
    paths = {os.path.realpath(line[0].rstrip("\n")) for line in lines if line and line[0][0] == "/"}
    return sorted(path for path in paths if LIBRARY.match(os.path.basename(path)))


def main():
    mpi = importlib.import_module("mpi4py.MPI")
    return {
        "version": metadata.version("mpi4py"),
        "file": mpi.__file__,
        "library": mpi.Get_library_version().strip("\0\n "),
        "standard": list(mpi.Get_version()),
        "threads": mpi.Query_thread() == mpi.THREAD_MULTIPLE,
        "mapped": mapped(),
    }


if __name__ == "__main__":
    facts = main()
    with open(sys.argv[1], "w") as handle:
        json.dump(facts, handle, indent=1, sort_keys=True)
