"""Stand-in for jax.version."""

__version__ = "0.12.0.1"
