"""The command ``layer``: resolve, install new files alone, see that they hide nothing, prove the whole."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from stackwright.build.derived import prove
from stackwright.build.derived.parent import Parent, find
from stackwright.build.derived.prove import Proof, Subject
from stackwright.build.layer import files, image, overlay, resolve
from stackwright.build.layer.parent_proof import ParentProof
from stackwright.build.layer.resolve import Question
from stackwright.core.errors import UsageError
from stackwright.core.layer import asked, document, taken
from stackwright.core.layer.asked import Resolved
from stackwright.core.layer.document import Added, Below
from stackwright.core.layer.taken import Taken
from stackwright.core.ledger.entry import Kind, Layer, final
from stackwright.core.model.added.distributions import Addition
from stackwright.core.model.row import Stack, World
from stackwright.engines import docker as engine
from stackwright.engines.sif.sign import file_sha256
from stackwright.host.files import replace_file
from stackwright.host.project import Planned
from stackwright.probe.outside.layers import Read
from stackwright.records import files as record

NAME = re.compile(r"[a-z0-9]+([._/-][a-z0-9]+)*:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """``name`` is that of the new image or file, or empty; ``wheels`` is a folder with some."""

    additions: tuple[Addition, ...]
    name: str = ""
    wheels: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """``said`` is what is attested, in the file ``path``; the proof took ``seconds``.

    ``taken`` is what was not read again of the parent.
    """

    made: Made
    parent: Subject
    found: Resolved
    proof: Proof
    said: dict[str, Any]
    path: Path
    seconds: float
    taken: Taken | None = None


def layer(of: Subject, rows: Sequence[Planned], wanted: Wanted, say: Callable[[str], None]) -> Result:
    """Make the layer and prove it. RejectedError where it would change or hide anything of the parent."""
    row = find(of.project, rows, of.image, of.inside)
    stack = row.planned.stack
    if not stack.lock.packages:
        raise UsageError(
            "what it installed is not known", place=of.image.image, hint="have its lock in locks/"
        )
    question = Question(stack=stack, wanted=wanted.additions, wheels=wanted.wheels)
    found = resolve.resolve(question, site=of.site, runner=of.runner)
    packages = ", ".join(f"{package.name} {package.version}" for package in found.new)
    say(f"the layer on {of.image.of}: {packages}")
    of.project.out.mkdir(parents=True, exist_ok=True)
    proof = ParentProof(of, row.planned)
    with (
        tempfile.TemporaryDirectory(
            prefix=".layer-", dir=of.project.out, ignore_cleanup_errors=True
        ) as scratch,
        ThreadPoolExecutor(1) as beside,
    ):
        below = beside.submit(lambda: proof.tree)  # while the index is waited for
        tree = files.install(of, stack.os, found, Path(scratch), wanted.wheels)
        new = files.read(tree, of)
        files.refuse_hidden(new.layer, below.result(), of.image.of)
        made = _ON[of.image.world](of, found, tree, new, wanted.name)
    size = made.added.bytes / 1e6
    say(f"{made.name}: {made.added.files} new files, {size:.1f} MB; no file of the parent is hidden")
    return _proven(of, row, found, made, proof)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """``config`` and ``content`` are an image's configuration and its added layer; empty for an overlay."""

    name: str
    id: str
    below: Below
    added: Added
    new: Read
    config: bytes = b""
    content: bytes = b""


def _on_image(of: Subject, found: Resolved, tree: Path, new: Read, name: str) -> Made:
    assert of.docker is not None, "it is an image of the engine"
    content = files.archive(tree, new.layer.entries)
    described = engine.inspect(of.docker, of.image.id) or {}
    below = Below(
        row=of.image.row, key=of.image.key, world=World.DOCKER, id=of.image.id,
        digest=published(of),
        layers=tuple(described["RootFS"]["Layers"]),
    )  # fmt: skip
    named = tuple(f"{package.name}=={package.version}" for package in found.new)
    label = json.dumps({"parent": of.image.id, "added": list(named)}, sort_keys=True, separators=(",", ":"))
    name = name or f"stackwright/{of.image.row}:{of.image.key[:12]}-{_short(found)}"
    if not NAME.fullmatch(name):
        raise UsageError(f"--tag {name!r} is no name of an image with a tag", hint="--tag team/llm:1")
    made = image.put(of.docker, of.image.id, content, name=name, label=label, named=named)
    return Made(
        name=name, id=made.id, below=below, added=_added(found, new.layer, made.diff, len(content)),
        config=made.config, content=content, new=new,
    )  # fmt: skip


def _added(found: Resolved, new: Layer, digest: str, size: int) -> Added:
    return Added(
        digest=digest, files=sum(entry.kind is not Kind.FOLDER for entry in new.entries), bytes=size,
        wanted=tuple(map(str, found.wanted)), there=found.there, new=found.new, pins=found.pins,
    )  # fmt: skip


def _on_sif(of: Subject, found: Resolved, tree: Path, new: Read, name: str) -> Made:
    target = Path(name or f"{of.path.stem}.{_short(found)}.sqsh").resolve()
    size = overlay.write(tree, target, docker=of.docker, runner=of.runner)
    below = Below(row=of.image.row, key=of.image.key, world=World.SIF, id=of.image.id)
    digest = f"sha256:{file_sha256(target)}"
    return Made(name=str(target), id="", below=below, added=_added(found, new.layer, digest, size), new=new)


_ON: dict[World, Callable[[Subject, Resolved, Path, Read, str], Made]] = {
    World.DOCKER: _on_image, World.SIF: _on_sif,
}  # fmt: skip


def _short(found: Resolved) -> str:
    """Name what is added by its first distribution and the digest of all."""
    return f"layer-{hashlib.sha256(found.pins.encode()).hexdigest()[:8]}"


def published(of: Subject) -> str:
    """Return the digest that a registry knows the image by; "" where none does, and of a SIF."""
    described = (engine.inspect(of.docker, of.image.id) if of.docker else None) or {}
    digests = described.get("RepoDigests") or ()
    repository = re.split(r"@|:(?=[^/]*$)", of.image.image)[0]
    ordered = sorted(digests, key=lambda digest: not digest.startswith(f"{repository}@"))
    return ordered[0].partition("@")[2] if ordered else ""


def _subject(of: Subject, made: Made, proof: ParentProof) -> Subject:
    whole = final((made.new.layer,))
    if of.image.world is World.DOCKER:
        layered = prove.layered(of, made.name)
        if proof.taken is None:
            return layered
        return replace(layered, reading=partial(proof.of_image, layered), added=whole)
    named = tuple(f"{package.name}=={package.version}" for package in made.added.new)
    rooted = tuple(replace(entry, uid=0, gid=0) for entry in made.new.layer.entries)
    new = replace(made.new, layer=replace(made.new.layer, entries=rooted))
    if proof.taken is None:
        return prove.on_sif(of, Path(made.name), (*of.reads, new), named)
    on_it = prove.on_sif(of, Path(made.name), (new,), named)
    return replace(on_it, reading=partial(proof.of_overlay, new), added=whole)


def _proven(of: Subject, row: Parent, found: Resolved, made: Made, parent: ParentProof) -> Result:
    began, started = time.monotonic(), record.utc(datetime.now(UTC))
    stack: Stack = asked.with_layer(row.planned.stack, found)
    whole = replace(row, planned=replace(row.planned, stack=stack))
    subject = _subject(of, made, parent)
    proof = prove.prove(subject, whole, label=row.planned.stack)
    if parent.taken:
        proof = replace(proof, verdict=taken.marked(proof.verdict, of.image.id))
    said = document.document(
        made.below, made.added, proof.verdict, image=made.id, started=started, parent=parent.taken
    )
    path = of.project.out / f"{_short(found)}.json"
    replace_file(path, (json.dumps(said, indent=1, sort_keys=True) + "\n").encode())
    return Result(
        made=made, parent=of, found=found, proof=proof, said=said, path=path, taken=parent.taken,
        seconds=time.monotonic() - began,
    )  # fmt: skip
