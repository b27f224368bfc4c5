"""Bring the images that a row starts from into the engine, by the row's provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stackwright.core.model.row import ProviderName, Stack
from stackwright.core.resolve.bases import Images
from stackwright.engines.bases import debian, nvidia
from stackwright.engines.bases.tools import BaseTools

ENSURE: Mapping[str, Callable[[Stack, BaseTools], Images]] = {
    ProviderName.DEBIAN: debian.ensure, ProviderName.NVIDIA: nvidia.ensure,
}  # fmt: skip
"""By provider. It brings the images that the lock means, or the nearest to them, into the engine."""
