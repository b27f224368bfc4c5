"""Stand-in for JAX: its plugin loads NVIDIA's libraries when it is first asked for devices."""

from jax.version import __version__  # noqa: F401


def devices():
    import torch  # noqa: F401 (it loads the libraries)

    return ["cpu"]
