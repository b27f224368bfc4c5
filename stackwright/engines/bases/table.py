"""Base providers: where the image's distribution comes from, and the compiler of CUDA for it."""

from stackwright.engines.bases import debian, nvidia
from stackwright.engines.bases.provider import Images, Means, Provider

PROVIDERS: dict[str, Provider] = {"debian": debian.PROVIDER, "nvidia": nvidia.PROVIDER}

__all__ = ["PROVIDERS", "Images", "Means", "Provider"]
