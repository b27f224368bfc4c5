"""What is sent for one image or SIF: a manifest, and a file for each of its blobs.

An image goes as Docker's own schema 2: its configuration stays as it is to the byte, so the digest of that
configuration is the id that the engine knows the image by, and what was probed is what is published. skopeo
packs the layers; the same layer gives the same bytes again, as long as skopeo is the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stackwright.core.errors import DiskError, EngineError, PublishError
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.engines.oci_tools import Tool
from stackwright.engines.tool_image import last_line
from stackwright.host.runner import Runner
from stackwright.host.site import settings as host
from stackwright.publish.registry.client import Manifest

SIF_LAYER = "application/vnd.sylabs.sif.layer.v1.sif"
SIF_CONFIG = "application/vnd.sylabs.sif.config.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
"""The media types that `apptainer push` writes and `apptainer pull oras://` reads."""

TIMEOUT = 7200
"""Seconds for skopeo to pack an image of several GB."""

PEAK = 1.7
"""Disk that is taken for a while, by byte of the image: all of it as it is, and packed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """``files``: where the blob of each digest lies."""

    manifest: Manifest
    files: tuple[tuple[str, Path], ...]


def of_image(
    image_id: str, size: int, folder: Path, *, docker: Docker, runner: Runner, skopeo: Tool
) -> Layout:
    """Written into ``folder``, which is empty; ``size`` is the image's, in bytes."""
    free, needed = host.free_disk(folder), int(size * PEAK)
    if free < needed:
        cause = f"{needed / 1e9:.1f} GB are needed to pack the image, and {free / 1e9:.1f} GB are free"
        raise DiskError(cause, place=str(folder), hint="./build.py clean shows what can go")
    archive, packed = folder / "image.tar", folder / "packed"
    engine.save(docker, runner, image_id, archive)
    source, target = f"docker-archive:{archive}", f"dir:{packed}"
    done = skopeo(
        "copy", "--quiet", "--format", "v2s2", "--dest-compress", source, target,
        folders=(folder,), timeout=TIMEOUT,
    )  # fmt: skip
    archive.unlink()
    if not done.ok:
        raise EngineError(
            f"skopeo: {last_line(done)}", place=image_id, hint="./build.py -v shows the command"
        )
    content = (packed / "manifest.json").read_bytes()
    manifest = Manifest(content=content, media_type=json.loads(content)["mediaType"])
    _require_same(manifest.document["config"]["digest"], packed, engine.inspect(docker, image_id) or {})
    files = ((digest, packed / digest.removeprefix("sha256:")) for digest in manifest.blobs)
    return Layout(manifest=manifest, files=tuple(files))


def _require_same(config: str, packed: Path, found: Mapping[str, Any]) -> None:
    """An engine on containerd's store calls an image by another digest: there the contents are compared."""
    if config == found.get("Id"):
        return
    document = json.loads((packed / config.removeprefix("sha256:")).read_bytes())
    inside = (document["rootfs"]["diff_ids"], document["config"].get("Labels"), document["config"].get("Env"))
    settings = found.get("Config") or {}
    if inside != (found.get("RootFS", {}).get("Layers"), settings.get("Labels"), settings.get("Env")):
        cause = f"what was packed is not the image that was probed: {config}"
        raise PublishError(cause, place=str(found.get("Id")), hint="this is a defect: please report it")


def of_sif(sif: Path, sha256: str, folder: Path) -> Layout:
    """As `apptainer push` sends it. ``folder`` receives its configuration, which is an empty object."""
    empty = folder / "config.json"
    empty.write_bytes(b"{}")
    config = {
        "mediaType": SIF_CONFIG, "size": 2, "digest": f"sha256:{hashlib.sha256(b'{}').hexdigest()}",
    }  # fmt: skip
    layer = {
        "mediaType": SIF_LAYER, "size": sif.stat().st_size, "digest": f"sha256:{sha256}",
        "annotations": {"org.opencontainers.image.title": sif.name},
    }  # fmt: skip
    document = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": [layer]}
    manifest = Manifest(content=json.dumps(document, indent=1).encode(), media_type=OCI_MANIFEST)
    return Layout(manifest=manifest, files=((str(config["digest"]), empty), (f"sha256:{sha256}", sif)))
