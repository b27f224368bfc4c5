"""Stages in a registry, so that what one machine built is found by another. Works with any Docker engine.

The engine's own BuildKit exports a cache only inside of an image (``type=inline``: docs.docker.com, "Cache
storage backends"), so what is to be found is pushed as an image of its own. It is read from there layer by
layer, as they are needed. All of it is tags of one repository, which the site may empty at any time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from docker.errors import APIError, NotFound

from stackwright.core.errors import EngineError, SiteError
from stackwright.core.resolve.bases import Images
from stackwright.engines.docker import Docker, connected, tag
from stackwright.host.retry import TRANSIENT_MESSAGE, Again, Patience, retried

PATIENCE = Patience(seconds=120.0)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """``repository`` is HOST[:PORT]/PATH. The engine pushes and pulls, with the caller's Docker login."""

    repository: str

    def stage(self, identity: str, images: Images) -> str:
        """Return the reference of a stage: of its instructions, and of the images that the build starts
        from."""
        text = "\0".join((identity, *(word for image in images for word in image)))
        return f"{self.repository}:stage-{hashlib.sha256(text.encode()).hexdigest()[:40]}"

    def base(self, image: str) -> str:
        """Return the reference of a base that was made here: its name has its date."""
        return f"{self.repository}:{re.sub('[^A-Za-z0-9_.-]', '-', image.rpartition('/')[2])}"


def options(stages: Iterable[str]) -> tuple[str, ...]:
    """Words of `docker buildx build` that let it find these."""
    return tuple(word for stage in stages for word in ("--cache-from", f"type=registry,ref={stage}"))


def has(docker: Docker, reference: str) -> bool:
    """Return whether the registry has it; the engine asks. SiteError where the registry does not answer."""

    def ask() -> bool:
        with connected(docker) as client:
            try:
                client.images.get_registry_data(reference)
            except NotFound:
                return False
            except APIError as error:
                if "manifest unknown" in str(error) or "not found" in str(error):
                    return False
                raise _unusable(reference, str(error.explanation or error)) from error
        return True

    return _patiently(ask)


def fetch(docker: Docker, reference: str, name: str) -> None:
    """Take an image from the cache and give it its own name."""

    def pull() -> None:
        with connected(docker) as client:
            try:
                client.images.pull(reference)
            except APIError as error:
                raise _unusable(reference, str(error.explanation or error)) from error

    _patiently(pull)
    tag(docker, reference, name)
    forget(docker, reference)


def send(docker: Docker, name: str, reference: str) -> None:
    """Push an image of the engine under a name of the cache, which the engine does not keep."""

    def push() -> None:
        with connected(docker) as client:
            for told in client.images.push(reference, stream=True, decode=True):
                if "error" in told:
                    raise _unusable(reference, str(told["error"]))

    tag(docker, name, reference)
    try:
        _patiently(push)
    finally:
        forget(docker, reference)


def forget(docker: Docker, reference: str) -> None:
    """Take the cache's name off an image; what was built stays in the engine's own cache."""
    with connected(docker) as client:
        try:
            client.images.remove(reference)
        except APIError as error:
            if error.status_code not in (404, 409):
                raise EngineError(str(error), place=reference) from error


def _patiently(act: Callable[[], T]) -> T:
    """Retry transient errors of the engine: a failure here would lose hours of building."""
    return retried(act, _transient, PATIENCE)


def _transient(error: Exception) -> Again | None:
    passes = isinstance(error, SiteError) and TRANSIENT_MESSAGE.search(error.cause)
    return Again() if passes else None


def _unusable(reference: str, cause: str) -> SiteError:
    hint = "it is that of STACKWRIGHT_CACHE: look at the registry, and at `docker login` on the node"
    return SiteError(f"the cache of stages could not be used: {cause.strip()}", place=reference, hint=hint)
