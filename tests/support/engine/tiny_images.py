"""Images of one file on top of the tiny one, as the engine loads them: to build one takes much longer."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from own_engine import TINY

from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The tiny image as the engine saves it."""

    config: Mapping[str, Any]
    layers: tuple[bytes, ...]


def load(
    docker: Docker, reference: str, *, file: bytes, labels: Mapping[str, str], architecture: str = "amd64"
) -> None:
    """Give the engine an image with ``file`` as /layer in a layer of its own, and with these labels."""
    base = _base(docker)
    layers = (*base.layers, _tar({"layer": file}))
    settings, rootfs = dict(base.config["config"]), dict(base.config["rootfs"])
    settings["Labels"] = dict(labels)
    rootfs["diff_ids"] = [*rootfs["diff_ids"], f"sha256:{hashlib.sha256(layers[-1]).hexdigest()}"]
    history = [
        *base.config["history"],
        {"created": base.config["created"], "created_by": "COPY layer /layer"},
    ]
    config = {**base.config, "config": settings, "rootfs": rootfs, "history": history}
    config["architecture"] = architecture
    files = {f"{number}.tar": layer for number, layer in enumerate(layers)}
    listed = [{"Config": "config.json", "RepoTags": [reference], "Layers": list(files)}]
    for name, document in (("config.json", config), ("manifest.json", listed)):
        files[name] = json.dumps(document).encode()
    with engine.connected(docker) as client:
        client.images.load(_tar(files))


@cache
def _base(docker: Docker) -> Base:
    with engine.connected(docker) as client:
        saved = b"".join(client.images.get(TINY).save(named=True))
    with tarfile.open(fileobj=io.BytesIO(saved)) as archive:

        def read(name: str) -> bytes:
            member = archive.extractfile(name)
            assert member is not None
            return member.read()

        (listed,) = json.loads(read("manifest.json"))
        layers = tuple(read(name) for name in listed["Layers"])
        return Base(config=json.loads(read(listed["Config"])), layers=layers)


def _tar(files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()
