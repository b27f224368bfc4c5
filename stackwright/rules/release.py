"""Rules about this release: what Horovod could be compiled against if somebody wrote the patch for it."""

from __future__ import annotations

from stackwright.model import FRAMEWORKS, Cell
from stackwright.rules import About, Answer, CellRule, Clash, Said, horovod
from stackwright.rules.tables import as_numbers


def _unpatched(cell: Cell) -> Answer:
    for name, since, why, _ in horovod.UNPATCHED:
        version = getattr(cell, name)
        if version and as_numbers(version) >= as_numbers(since):
            return Clash(
                values=((name, version), ("horovod", cell.horovod)),
                reason=f"Horovod does not compile against {name} {since} or later: {why}, "
                "and patches/horovod has no patch for it",
            )
    return Said.FITS


UNPATCHED = CellRule(
    name="horovod-patch",
    about=About.RELEASE,
    fields=("horovod", *FRAMEWORKS),
    ask=_unpatched,
    source="; ".join(dict.fromkeys(row[3] for row in horovod.UNPATCHED)),
    says="Horovod compiles against a framework as released, or by a patch that is here",
)
