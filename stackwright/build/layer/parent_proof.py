"""The proof of a layer's parent that is recorded here: what was read of its files need not be read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from stackwright.build.derived.prove import Subject
from stackwright.core.layer import taken
from stackwright.core.layer.taken import Taken
from stackwright.core.ledger.books import Row
from stackwright.core.ledger.entry import Layer, Tree
from stackwright.core.model.record import Record
from stackwright.core.model.row import World
from stackwright.engines import docker as engine
from stackwright.host.project import Planned, Project
from stackwright.probe import site_leaks
from stackwright.probe.digest import checks_digest
from stackwright.probe.outside import layers, squashfs
from stackwright.probe.outside.documents import Documents, documents
from stackwright.probe.outside.layers import Read
from stackwright.probe.run import gather
from stackwright.records import files as record

ACCOUNTS = frozenset({
    "/etc/passwd", "/etc/group",
    "/usr/share/base-passwd/passwd.master", "/usr/share/base-passwd/group.master",
})  # fmt: skip
"""Files of the parent by which the owners of new files are named."""
USER, GROUP = "root:x:0:0:root:/root:/bin/bash\n", "root:x:0:\n"
OF_ROOT = {path: GROUP if "group" in path else USER for path in ACCOUNTS}


class ParentProof:
    """What is recorded of the parent, and the names of its files.

    ``taken`` is None where all of it is to be read.
    """

    def __init__(self, of: Subject, row: Planned) -> None:
        self._of, self._row = of, row

    @cached_property
    def taken(self) -> Taken | None:
        found = _recorded(self._of, self._row)
        return found if found and self.names is not None else None

    @cached_property
    def names(self) -> Tree | None:
        """The names of its files; None where an image cannot be looked at without reading all of it."""
        of = self._of
        if of.image.world is World.SIF:
            return squashfs.names(of.path, docker=of.docker, runner=of.runner)
        assert of.docker is not None, "it is an image of the engine"
        found = engine.inspect(of.docker, of.image.id)
        return layers.names(of.docker, found, ACCOUNTS) if found else None

    @property
    def tree(self) -> Tree:
        """What a layer must not hide. The content of files is in it where all of it is to be read."""
        return self.names if self.taken and self.names else self._of.whole

    def of_image(self, layered: Subject, row: Row) -> Documents:
        """Return what is in an image: in its layer as it is read now, and below it by the parent's proof."""
        assert layered.docker is not None, "it is an image of the engine"
        new = site_leaks.read(layered.docker, layered.image.id, layered.site, upper=1)
        return self._both(new.reads, row, {"layers": new.layers})

    def of_overlay(self, new: Read, row: Row) -> Documents:
        """Return what is in a SIF and an overlay, which has what was read of its folder."""
        return self._both((new,), row, {})

    def _both(self, reads: Sequence[Read], row: Row, more: Mapping[str, Any]) -> Documents:
        assert self.taken is not None and self.names is not None, "there is a proof"
        owned = [replace(read, layer=_owned(read.layer, self.names)) for read in reads]
        alone = documents(owned, replace(row, files={}))
        found = {"ledger": alone.ledger, "files": alone.files, **more}
        both = taken.together(self.taken.facts, found)
        return Documents(ledger=both["ledger"], files=both["files"], layers=both.get("layers"))


def _owned(layer: Layer, parent: Tree) -> Layer:
    """Return the layer with the names of its owners. An overlay is all of root, whom each SIF has."""
    known = {path: text for path, text in parent.texts.items() if path in ACCOUNTS}
    return replace(layer, texts={**(known or OF_ROOT), **layer.texts})


def _recorded(of: Subject, row: Planned) -> Taken | None:
    """Return the proof of this very image by today's checks, if it is recorded below --out and all passed."""
    project = replace(of.project, out=of.project.out.parent.parent)
    world = of.image.world
    known = record.latest(project.records, row.recipe.id, row.recipe.key)
    verdict = known.verdict(world) if known else None
    if known is None or verdict is None or verdict.failed or _id(known, world) != of.image.id:
        return None
    facts = _facts(project, row, world)
    if dict(known.tools).get("checks") != checks_digest(project.root) or not taken.usable(facts, world):
        return None
    searched = site_leaks.searched(of.site)
    if world is World.DOCKER and not taken.of_image(facts, of.image.id, searched):
        return None
    return Taken(parent=of.image.id, started=known.started, facts=facts)


def _id(known: Record, world: World) -> str:
    """Return what the record was proven of: the engine's id, or the SHA-256 of the file."""
    if world is World.DOCKER:
        return known.image.id if known.image else ""
    return known.sif.sha256 if known.sif else ""


def _facts(project: Project, row: Planned, world: World) -> Mapping[str, Any]:
    folder = project.folder(row.recipe) / "facts" / world
    return gather(folder) if folder.is_dir() else {}
