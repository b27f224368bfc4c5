"""Stand-in for jaxlib.version."""

__version__ = "0.12.0.1"
