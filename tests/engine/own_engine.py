"""What conftest.py hands to a test that needs an engine of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from stackwright.engines.docker import Docker

TINY = "stackwright-test/tiny:1"
"""The image that is in every engine of the tests: busybox, 2 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnEngine:
    """``folder`` holds all of it; ``environ`` has the DOCKER_HOST that leads to it."""

    docker: Docker
    folder: Path
    environ: Mapping[str, str]


class StartEngine(Protocol):
    """``config`` goes into daemon.json; ``programs`` is a folder put first on the daemon's PATH."""

    def __call__(
        self, config: Mapping[str, Any] | None = None, programs: Path | None = None
    ) -> OwnEngine: ...
