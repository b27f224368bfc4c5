"""A docker-archive of one layer, as `docker save` writes it: what Apptainer reads without any engine."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from typing import Any


def write_archive(
    to: io.BufferedIOBase, layer: io.BufferedIOBase, settings: Mapping[str, Any], name: str
) -> None:
    """``layer`` is a tar of files; ``settings`` are those of an OCI image's configuration but its layers."""
    layer.seek(0)
    digest = hashlib.file_digest(layer, "sha256").hexdigest()
    configuration = {**settings, "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}}
    text = json.dumps(configuration).encode()
    leaf = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = [{"Config": leaf, "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(fileobj=to, mode="w") as archive:
        _add(archive, leaf, io.BytesIO(text))
        _add(archive, "layer.tar", layer)
        _add(archive, "manifest.json", io.BytesIO(json.dumps(manifest).encode()))


def _add(archive: tarfile.TarFile, name: str, content: io.BufferedIOBase) -> None:
    member = tarfile.TarInfo(name)
    member.size = content.seek(0, io.SEEK_END)
    content.seek(0)
    archive.addfile(member, content)
