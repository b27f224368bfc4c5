"""Where an image to be verified is: in a registry, or in a folder that was copied over."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from stackwright.core.errors import AttestError, StackwrightError, UsageError
from stackwright.core.model.site import Site
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
    keep: Path | None = None, plain: bool = False,
) -> Iterator[tuple[Layout, str]]:  # fmt: skip
    """The folder, and the digest of the image in it.

    An image of a registry is copied with all that refers to it: into ``keep``, which is empty or new, or for
    as long as the block lasts. Of a folder nothing is asked for: neither ``site`` nor ``oras``.
    """
    folder, wanted = oci_layout.split(reference)
    if folder is not None:
        if keep:
            raise UsageError("--keep is for images of a registry", hint="copy the folder")
        found = Layout(folder=folder.resolve())
        yield found, oci_layout.image_of(found, wanted)
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
            found = _copied(registry, _pinned(registry, reference), target)
            image = oci_layout.image_of(found, access.COPIED)
            _copy_parents(registry, reference, found, image, say)
        if match["digest"] not in (None, image):
            raise AttestError(f"the registry gives another image, {image}", place=reference)
        yield found, image


def _pinned(registry: Access, reference: str) -> str:
    """By its digest. AttestError where that is of several images, before GBs of all of them are copied."""
    content = registry.manifest(reference)
    if "manifests" in json_object(content, reference):
        hint = f"name one of them, {access.pinned(reference, 'sha256:…')}: oras manifest fetch shows them"
        raise AttestError(oci_layout.SEVERAL, place=reference, hint=hint)
    return access.pinned(reference, f"sha256:{hashlib.sha256(content).hexdigest()}")


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
