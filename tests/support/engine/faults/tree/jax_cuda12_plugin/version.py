"""Stand-in for jax_cuda12_plugin.version."""

__version__ = "0.12.0.1"
