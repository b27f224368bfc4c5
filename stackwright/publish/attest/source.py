"""Where an image to be verified is: in a registry, or in a folder that was copied over."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from stackwright.core.checks.observed import dig
from stackwright.core.errors import AttestError, StackwrightError, UsageError
from stackwright.core.layer.document import DIGEST
from stackwright.core.model.site import Site
from stackwright.core.model.target import PLATFORMS, Platform
from stackwright.engines.oci_tools import Tool
from stackwright.publish.attest import oci_layout
from stackwright.publish.attest import oras as access
from stackwright.publish.attest.jsons import json_object
from stackwright.publish.attest.layers.chain import MOST_LAYERS, parents
from stackwright.publish.attest.oci_layout import Layout
from stackwright.publish.attest.oras import Access


@contextmanager
def opened(
    reference: str, *, site: Callable[[], Site], oras: Callable[[], Tool], say: Callable[[str], None],
    keep: Path | None = None, plain: bool = False, platform: Platform | None = None,
) -> Iterator[tuple[Layout, str]]:  # fmt: skip
    """The folder, and the digest of the image in it, which is for ``platform`` where one is asked for.

    An image of a registry is copied with all that refers to it: into ``keep``, which is empty or new, or for
    as long as the block lasts. Of a folder nothing is asked for: neither ``site`` nor ``oras``.
    """
    folder, wanted = oci_layout.split(reference)
    if folder is not None:
        if keep:
            raise UsageError("--keep is for images of a registry", hint="copy the folder")
        found = Layout(folder=folder.resolve())
        image = oci_layout.image_of(found, wanted)
        _require_platform(found, image, platform)
        yield found, image
        return
    match = access.parsed(reference)
    with TemporaryDirectory(prefix="stackwright-verify-") as scratch:
        target = (keep or Path(scratch)).resolve()
        if target.exists() and not (target.is_dir() and not any(target.iterdir())):
            raise UsageError(f"--keep {keep}: it is there, and no empty folder", hint="name a new one")
        here = site()
        own = here.registry if here.registry and here.registry.host == match["host"] else None
        ca, plain = (own.ca, own.plain or plain) if own else (None, plain)
        with access.to_registry(reference, here, oras(), say=say, ca=ca, plain=plain) as registry:
            wanted, of_index = _digest(registry, reference, platform)
            found = _copied(registry, access.pinned(reference, wanted), target)
            image = oci_layout.image_of(found, access.COPIED)
            _copy_parents(registry, reference, found, image, say)
        if not of_index and match["digest"] not in (None, image):
            raise AttestError(f"the registry gives another image, {image}", place=reference)
        _require_platform(found, image, platform)
        yield found, image


def _digest(registry: Access, reference: str, platform: Platform | None) -> tuple[str, bool]:
    """Return the digest of one image, and whether an index leads to it.

    AttestError where there are several, before GBs of all of them are copied.
    """
    content = registry.manifest(reference)
    found = json_object(content, reference)
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    if "manifests" not in found:
        return digest, False
    asked = access.parsed(reference)["digest"]
    if asked not in (None, digest):
        raise AttestError(f"the registry gives another index, {digest}", place=reference)
    return _of_platform(found, reference, platform), True


def _of_platform(index: Mapping[str, Any], reference: str, platform: Platform | None) -> str:
    """Return the digest of the one image that an index has for a platform."""
    listed = index["manifests"] if isinstance(index["manifests"], list) else []
    found = [(_platform(entry), str(dig(entry, "digest"))) for entry in listed]
    mine = [digest for name, digest in found if platform and name == platform.name]
    if len(mine) == 1 and DIGEST.fullmatch(mine[0]):
        return mine[0]
    names = sorted({name for name, _ in found if name in PLATFORMS})
    if platform and names:
        cause = f"an index with {len(mine)} images for {platform.name}"
        raise AttestError(cause, place=reference, hint=f"it has images for {', '.join(names)}")
    hint = f"name one of them, {access.pinned(reference, 'sha256:…')}: oras manifest fetch shows them"
    if names:
        hint = f"name the platform of one of them: {' or '.join(f'--platform {name}' for name in names)}"
    raise AttestError(oci_layout.SEVERAL, place=reference, hint=hint)


def _platform(described: Any) -> str:
    """Return the platform of an index's entry, in the words of a matrix; or "/" where it has none."""
    return f"{dig(described, 'platform', 'os') or ''}/{dig(described, 'platform', 'architecture') or ''}"


def _require_platform(layout: Layout, image: str, platform: Platform | None) -> None:
    """What an index says proves nothing: ask the image's own configuration, which is what its digest says."""
    if platform is None:
        return
    described = dig(layout.manifest(image).document, "config", "digest")
    what = "the image's configuration"
    config = json_object(layout.blob(str(described), what), what)
    own = f"{config.get('os')}/{config.get('architecture')}"
    if own != platform.name:
        cause = f"the image is for {own[:40]}, and {platform.name} was asked for"
        raise AttestError(cause, place=image, hint="do not use the image; ask who signed it")


def _copied(registry: Access, reference: str, target: Path) -> Layout:
    """Remove an incomplete copy, so that a retry can start clean."""
    try:
        return registry.copy(reference, target)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _copy_parents(
    registry: Access, reference: str, found: Layout, image: str, say: Callable[[str], None]
) -> None:
    """Copy the images below a layer, of the same repository: its statement names them by their digests.

    Where one is says an annotation, which proves nothing: what is verified is in the statement.
    """
    for number in range(MOST_LAYERS):
        parent = next(parents(found, image), None)
        if parent is None:
            return
        try:
            registry.copy(access.pinned(reference, parent), found.folder, f"{oci_layout.PARENT}{number}")
        except StackwrightError as error:
            say(f"the parent {parent[:19]}… could not be copied: {error.first_line}")
            return
        image = parent
