"""Stand-in for what JAX's plugin says of each library: what it was built with, and what it loads."""

SAID = {"cuda_runtime": (12010, 12040), "cudnn": (90100, 90100)}
OTHERS = ("cufft", "cupti", "cublas", "cusparse")


def __getattr__(name):
    library, _, which = name.removesuffix("_version").rpartition("_")
    if library not in (*SAID, *OTHERS):
        raise AttributeError(name)
    return lambda: SAID.get(library, (1, 1))[which == "get"]
