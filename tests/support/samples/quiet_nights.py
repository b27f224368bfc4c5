"""Nights over rows that were all proven before: nothing may be started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from report_samples import built
from rich.console import Console
from rows import LOCK, ROOT

from stackwright.core.model.night import Morning
from stackwright.core.model.record import Status
from stackwright.core.model.row import Lock
from stackwright.core.model.site import Site
from stackwright.host.project import Project, cells, plan
from stackwright.host.runner import Completed, Runner
from stackwright.nightly import night
from stackwright.nightly.night import Order
from stackwright.probe.digest import checks_digest
from stackwright.records import files as record

ROWS = 1000
ARCHES = ("7.0", "7.5", "8.0", "8.6", "8.9", "9.0")
HEAD = """\
defaults: {provider: debian, os: debian-13, python: "3.13", gcc: "13", cuda: "12.4", horovod: "0.28.1",
  torch: "2.6.0", mpi: {flavour: openmpi, version: "5.0"}}
include:
"""


class NoProgram(Runner):
    """Starting anything is an error."""

    def __call__(self, argv: Sequence[str | Path], **options: Any) -> Completed:
        raise AssertionError(f"started {argv}")


def proven(project: Project, locks: Mapping[str, Lock] | None = None) -> None:
    """A complete record of every row, as if last night had built it from these locks, or the project's."""
    checks = checks_digest(project.root)
    for row in plan(project, cells(project), locks).rows:
        done = built(
            row=row.stack.id, key=row.recipe.key, lock=row.stack.lock.sha256, status=Status.COMPLETE,
            tools=(("checks", checks),),
        )  # fmt: skip
        record.write(done, project.records)


def no_site() -> Site:
    return Site(mirror=None, ca=None, pip=(), proxies=())


def work(project: Project, **options: Any) -> Morning:
    wanted = cells(project)
    order = Order(
        cells=wanted, whole=True, ask=partial(night.committed_locks, project), site=no_site, locked=True,
        **options,
    )  # fmt: skip
    path = project.out / "history.sqlite"
    return night.work(project, order, history_path=path, runner=NoProgram(), console=Console(stderr=True))


def generated(folder: Path, rows: int) -> Project:
    """A matrix of so many rows and their locks, in ``folder``."""
    arches = [chosen for count in range(1, 7) for chosen in combinations(ARCHES, count)]
    names = [f"row{number:03}" for number in range(rows)]
    lines = (
        f"  - {{id: {name}, gpu_arch: {list(arches[n % len(arches)])}}}\n" for n, name in enumerate(names)
    )
    (folder / "matrix.yaml").write_text(HEAD + "".join(lines).replace("'", '"'))
    (folder / "locks").mkdir()
    for name in names:
        text = LOCK.text.replace(f'"row": "{LOCK.row}"', f'"row": "{name}"')
        (folder / "locks" / f"{name}.txt").write_text(text)
    return Project(root=ROOT, matrix=folder / "matrix.yaml", out=folder / "out")
