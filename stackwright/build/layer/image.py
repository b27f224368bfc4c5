"""Puts a layer on an image of the engine: the engine is given the new layer alone."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stackwright.core.checks import origin
from stackwright.core.errors import EngineError
from stackwright.core.model.epoch import EPOCH
from stackwright.core.model.labels import LAYER
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker, Layer

KEPT = ("Architecture", "Os", "Variant")
INSTRUCTION = "COPY layer / # stackwright layer:"
"""How its line in the history begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """``id`` is the digest of ``config``, whose last layer has the digest ``diff`` unpacked."""

    id: str
    diff: str
    config: bytes


def put(docker: Docker, parent: str, layer: bytes, *, name: str, label: str, named: tuple[str, ...]) -> Made:
    """Give the engine an image that is the parent's layers and this one. ``label`` says what was added.

    The engine has the parent's layers, so that their files are not sent: an engine that wants them says so.
    """
    found = engine.inspect(docker, parent)
    if found is None:
        raise EngineError("the engine has no such image", place=parent)
    diff = f"sha256:{hashlib.sha256(layer).hexdigest()}"
    config = json.dumps(_config(docker, found, diff, label, named), sort_keys=True).encode()
    files = {"config.json": config, "layer.tar": layer}
    held = [f"of-the-parent-{number}.tar" for number, _ in enumerate(found["RootFS"]["Layers"])]
    listed = [{"Config": "config.json", "RepoTags": [name], "Layers": [*held, "layer.tar"]}]
    files["manifest.json"] = json.dumps(listed).encode()
    with engine.connected(docker) as client:
        client.images.load(_tar(files))
    made = engine.inspect(docker, name)
    if made is None or made["RootFS"]["Layers"] != [*found["RootFS"]["Layers"], diff]:
        raise EngineError("the engine did not put the layer on its parent", place=name)
    return Made(id=made["Id"], diff=diff, config=config)


def _config(
    docker: Docker, parent: Mapping[str, Any], diff: str, label: str, named: tuple[str, ...]
) -> dict[str, Any]:
    """Return the parent's configuration with one more layer, one line of history and one label."""
    created = datetime.fromtimestamp(EPOCH, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    settings = dict(parent["Config"])
    settings["Labels"] = {**(settings.get("Labels") or {}), LAYER: label}
    lines = _history(engine.layers(docker, str(parent["Id"])), len(parent["RootFS"]["Layers"]), created)
    added = {"created_by": f"{INSTRUCTION} {' '.join(named)}", "created": created}
    return {
        **{name.lower(): parent[name] for name in KEPT if parent.get(name)}, "config": settings,
        "created": created, "history": [*lines, added],
        "rootfs": {"type": "layers", "diff_ids": [*parent["RootFS"]["Layers"], diff]},
    }  # fmt: skip


def _history(lines: Sequence[Layer], layers: int, created: str) -> list[dict[str, Any]]:
    """Return the parent's lines. The engine does not tell which of them made a layer without a byte."""
    made = [
        number for number, line in enumerate(lines) if line.size or origin.most_layers((line.created_by,))
    ]
    empty = [number for number in made if not lines[number].size][: max(len(made) - layers, 0)]
    return [
        {
            "created_by": line.created_by, "created": created,
            **({} if number in made and number not in empty else {"empty_layer": True}),
        }
        for number, line in enumerate(lines)
    ]  # fmt: skip


def _tar(files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()
