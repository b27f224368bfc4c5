"""Podman and its builder: words, progress, names."""
