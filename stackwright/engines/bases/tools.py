"""What a provider gets its images with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stackwright.core.model.site import Site
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseTools:
    """What a provider gets its images with. ``bring`` is asked for an image that another node may have made;
    whether it did shows in the engine."""

    docker: Docker
    runner: Runner
    site: Site
    say: Callable[[str], None]
    bring: Callable[[str], None] = lambda name: None
