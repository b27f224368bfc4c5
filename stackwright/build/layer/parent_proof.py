"""The proof of a layer's parent that is recorded here: what was read of its files need not be read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from stackwright.build.derived.prove import Subject
from stackwright.core.layer import taken
from stackwright.core.layer.taken import Taken
from stackwright.core.ledger.books import Row
from stackwright.core.ledger.entry import Layer, Tree
from stackwright.core.model.row import World
from stackwright.engines import docker as engine
from stackwright.host.project import Planned, Project
from stackwright.probe import site_leaks
from stackwright.probe.digest import checks_digest
from stackwright.probe.outside import layers
from stackwright.probe.outside.documents import Documents, documents
from stackwright.probe.run import gather
from stackwright.records import files as record

ACCOUNTS = frozenset({
    "/etc/passwd", "/etc/group",
    "/usr/share/base-passwd/passwd.master", "/usr/share/base-passwd/group.master",
})  # fmt: skip
"""Files of the parent by which the owners of new files are named."""


class ParentProof:
    """What is recorded of the parent, and the names of its files.

    ``taken`` is None where all of it is to be read.
    """

    def __init__(self, of: Subject, row: Planned) -> None:
        self._of, self._row = of, row

    @cached_property
    def taken(self) -> Taken | None:
        return _recorded(self._of, self._row) if self.names is not None else None

    @cached_property
    def names(self) -> Tree | None:
        """The names of its files; None where an image cannot be looked at without reading all of it."""
        if self._of.image.world is not World.DOCKER or self._of.docker is None:
            return None
        found = engine.inspect(self._of.docker, self._of.image.id)
        return layers.names(self._of.docker, found, ACCOUNTS) if found else None

    @property
    def tree(self) -> Tree:
        """What a layer must not hide. The content of files is in it where all of it is to be read."""
        return self.names if self.taken and self.names else self._of.whole

    def read(self, layered: Subject, row: Row) -> Documents:
        """Return what is read of both: of the layer now, and of its parent when that was proven."""
        assert self.taken is not None and self.names is not None, "there is a proof"
        assert layered.docker is not None, "it is an image of the engine"
        new = site_leaks.read(layered.docker, layered.image.id, layered.site, upper=1)
        with_owners = [replace(one, layer=_owned(one.layer, self.names)) for one in new.reads]
        alone = documents(with_owners, replace(row, files={}))
        both = taken.together(
            self.taken.facts, {"ledger": alone.ledger, "files": alone.files, "layers": new.layers}
        )
        return Documents(ledger=both["ledger"], files=both["files"], layers=both["layers"])


def _owned(layer: Layer, parent: Tree) -> Layer:
    return replace(
        layer, texts={**{path: parent.texts[path] for path in ACCOUNTS & parent.texts.keys()}, **layer.texts}
    )


def _recorded(of: Subject, row: Planned) -> Taken | None:
    """Return the proof of this very image by today's checks, if it is recorded below --out and all passed."""
    project = replace(of.project, out=of.project.out.parent.parent)
    known = record.latest(project.records, row.recipe.id, row.recipe.key)
    verdict = known.verdict(World.DOCKER) if known else None
    if known is None or known.image is None or verdict is None or verdict.failed:
        return None
    by_today = dict(known.tools).get("checks") == checks_digest(project.root)
    facts = _facts(project, row)
    if known.image.id != of.image.id or not by_today:
        return None
    if not taken.usable(facts, of.image.id, site_leaks.searched(of.site)):
        return None
    return Taken(parent=of.image.id, started=known.started, facts=facts)


def _facts(project: Project, row: Planned) -> Mapping[str, Any]:
    folder = project.folder(row.recipe) / "facts" / World.DOCKER
    return gather(folder) if folder.is_dir() else {}
