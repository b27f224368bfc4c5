"""What was read of an image from outside, as the documents that the checks read. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stackwright.core.ledger import debian, files, wheels
from stackwright.core.ledger.account import account
from stackwright.core.ledger.books import Row
from stackwright.core.ledger.entry import Tree, final
from stackwright.probe.outside.layers import FileFacts, Read

KEY = "private key"
"""The kind of credential, as stackwright/core/shapes.py names it."""

MOST = 2000
"""Problems of one kind that are listed; all of them are counted."""


COMPARED = frozenset({"package", "wheel", "byte-code", "alternative"})
"""Owners whose files are the same in an image and in its SIF; Apptainer adds to the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """By the names of the facts. None: not read from outside; ``layers`` are of the engine's images alone."""

    ledger: Mapping[str, Any]
    files: Mapping[str, Any] | None = None
    layers: Mapping[str, Any] | None = None


def not_read(reason: str) -> Documents:
    return Documents(ledger={"not_read": reason})


def documents(reads: Sequence[Read], row: Row, image: Mapping[str, Any] | None = None) -> Documents:
    """``reads``: the layers, the lowest first; a SIF is one. ``image``: the ledger of a SIF's own image."""
    tree = final(read.layer for read in reads)
    told = account(tree, row)
    seen = [file for read in reads for file in read.seen if file.shapes]
    found = _not_public(seen, tree)
    keys = {
        file_facts.path for file_facts in found if KEY in file_facts.shapes and _is_there(file_facts, tree)
    }
    kinds = sorted({problem.kind for problem in told.problems})
    problems = {
        kind: [[problem.path, problem.what] for problem in told.problems if problem.kind == kind]
        for kind in kinds
    }
    ledger = {
        "names": len(tree.entries),
        "owners": dict(told.owners),
        "problems": {kind: every[:MOST] for kind, every in problems.items()},
        "counts": {kind: len(every) for kind, every in problems.items()},
        "parts": sorted(map(list, told.parts.items())),  # {"package passwd": …} would be taken for a password
        "credentials": [
            {"kind": kind, "path": file_facts.path, "layer": file_facts.layer}
            for file_facts in found
            for kind in file_facts.shapes
            if not (kind == KEY and file_facts.path in keys)
        ],
    }
    if image and "parts" in image:
        named = {problem.owner for problem in told.problems}
        differing = _differing(told.parts, dict(image["parts"]))
        ledger["differs"] = [who for who in differing if who not in named]
    return Documents(ledger=ledger, files=files.document(tree, keys))


def _is_there(file_facts: FileFacts, tree: Tree) -> bool:
    entry = tree.entries.get(file_facts.path)
    return entry is not None and entry.sha256 == file_facts.sha256


def _not_public(seen: Iterable[FileFacts], tree: Tree) -> Collection[FileFacts]:
    """Without files that are as a package or a wheel has them: everyone has what is in those."""
    listed, owned = wheels.read(tree.texts), debian.read(tree).owned
    return [
        file_facts for file_facts in seen
        if not (file_facts.path in listed and file_facts.sha256 in listed[file_facts.path].sha256)
        and not (file_facts.path in owned and file_facts.md5 and file_facts.md5 == owned[file_facts.path].md5)
    ]  # fmt: skip


def _differing(mine: Mapping[str, str], others: Mapping[str, str]) -> Sequence[str]:
    """Owners whose files are not the same in both."""
    every = (who for who in mine.keys() | others.keys() if who.partition(" ")[0] in COMPARED)
    return sorted(who for who in every if mine.get(who) != others.get(who))
