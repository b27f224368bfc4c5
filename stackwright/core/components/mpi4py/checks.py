"""Checks of mpi4py: one MPI, which is mpirun's, and messages of both kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stackwright.core.checks.check import Facts, Finding, Rule, finding, same_release, take
from stackwright.core.checks.ranks import close
from stackwright.core.model.row import MpiFlavour, Stack, Tier

NAME = "mpi4py"
RUNS = (f"{NAME}/mpi",)
LIBRARIES = {
    MpiFlavour.OPENMPI: (re.compile(r"Open MPI v(?P<version>\d+(\.\d+)*)"), "libmpi.so"),
    MpiFlavour.MPICH: (re.compile(r"MPICH Version:\s+(?P<version>\d+(\.\d+)*)"), "libmpich.so"),
}
"""The words by which a library names itself, and the name of its file."""
OF_DISTRIBUTION = "/usr/lib/"


def library(stack: Stack, facts: Facts) -> Finding:
    """The library's own answer, and the file: mpirun's package brings both into one folder."""
    said = str(take(facts, "built", NAME, "library"))
    paths = [str(path) for path in take(facts, "built", NAME, "mapped")]
    pattern, name = LIBRARIES[stack.mpi.flavour]
    found = pattern.search(said)
    problems = []
    if found is None:
        problems.append(f"mpi4py loads {said[:60]!r}, the row's MPI is {stack.mpi.flavour}")
    elif not same_release(stack.mpi.version, found["version"]):
        problems.append(f"mpi4py loads {stack.mpi.flavour} {found['version']}, mpirun is {stack.mpi.version}")
    if len(paths) != 1:
        problems.append(f"mpi4py maps {' and '.join(paths) or 'no MPI'}")
    problems += [
        f"mpi4py maps {path}, which is not mpirun's"
        for path in paths
        if not path.startswith(OF_DISTRIBUTION) or not path.rpartition("/")[2].startswith(name)
    ]
    return finding(problems, f"{paths[0] if paths else ''}: {said.splitlines()[0][:60] if said else ''}")


def pickled(stack: Stack, facts: Facts) -> Finding:
    """The collectives of buffers have checks of their own, with those of other layers."""
    problems = []
    for run in RUNS:
        ranks: Sequence[Mapping[str, Any]] = take(facts, "collective", run, "ranks")
        rows = [row for rank in sorted(ranks, key=lambda rank: int(rank["rank"])) for row in rank["rows"]]
        sent = {rank["rank"]: {"of": rank["rank"], "rows": rank["rows"]} for rank in ranks}
        for rank in ranks:
            found = rank["pickled"]
            if not close(found["allgather"], rows):
                problems.append(f"{run}: rank {rank['rank']} gathered {found['allgather']}, not {rows}")
            if found["broadcast"] != sent.get(rank["root"]):
                problems.append(f"{run}: rank {rank['rank']} received {found['broadcast']}")
            if found["sum"] != sum(range(1, len(ranks) + 1)):
                problems.append(f"{run}: rank {rank['rank']} has the sum {found['sum']}")
        if not ranks:
            problems.append(f"{run}: no rank left a result")
    return finding(problems)


IMPORTED = ("link.import", "link.origin")
RULES = (
    Rule(id="mpi4py.library", tier=Tier.BUILT, judge=library, needs=(*IMPORTED, "declared.mpi", "link.mpi"),
         why="mpi4py loads the MPI that mpirun belongs to; with another each rank is 0 of 1."),
    Rule(id="mpi4py.pickled", tier=Tier.COLLECTIVE, judge=pickled, needs=("collective.run",),
         why="Objects of Python arrive as they were sent, also where ranks send different numbers of them."),
)  # fmt: skip
