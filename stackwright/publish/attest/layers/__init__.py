"""Layers on published images: how one is pushed and attested, and how its chain to the row is verified."""
