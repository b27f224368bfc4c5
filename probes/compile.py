"""Whether torch.compile makes C++ of a function, compiles it with the image's gcc and runs it, on the CPU.

Runs inside the image with the image's own Python and imports nothing of Stackwright.
Usage: compile.py FACTS.json [own-caches], to leave the choice of the caches to PyTorch.
"""

import importlib
import json
import os
import sys
import tempfile
import time

FIRST_PYTHON = {(3, 11): (2, 1), (3, 12): (2, 4), (3, 13): (2, 6), (3, 14): (2, 9)}
"""The first PyTorch whose torch.compile works on a Python (its release notes); on others 2.0."""


def absent(version):
    """Why this PyTorch has no torch.compile; None where it has."""
    release = tuple(int(part) for part in version.split(".")[:2])
    first = FIRST_PYTHON.get(sys.version_info[:2], (2, 0))
    if release >= first:
        return None
    return "PyTorch %s has no torch.compile for Python %d.%d" % (version, *sys.version_info[:2])


def difference():
    """What a compiled function gives beyond what the same one gives uncompiled."""
    import torch

    def plain(value):
        return torch.relu(value * 3.0 + 1.0)

    # What the CPU can do is asked by compiling: four times as much of it, and it is not what is in question.
    config = importlib.import_module("torch._inductor.config").cpp
    for name, quick in (("simdlen", 1), ("vec_isa_ok", False)):
        if hasattr(config, name):
            setattr(config, name, quick)
    value = torch.linspace(-1.0, 1.0, 64)
    made = torch.compile(plain, dynamic=False)(value)
    return float((made - plain(value)).abs().max())


def main():
    import torch

    lacks = absent(torch.__version__)
    if lacks:
        return {"absent": lacks, "error": None}
    start = time.time()
    try:
        apart = difference()
        error = None if apart < 1e-5 else "the compiled function differs by %g" % apart
    except Exception as raised:
        text = str(raised).strip().splitlines() or [""]
        telling = [line for line in text if "error:" in line.lower()] or text
        error = "%s: %s" % (type(raised).__name__, telling[0].strip()[:300])
    return {"absent": None, "error": error, "seconds": round(time.time() - start, 1)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(CUDA_VISIBLE_DEVICES="", TORCHINDUCTOR_COMPILE_THREADS="1")
        if sys.argv[2:] != ["own-caches"]:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        facts = main()
    with open(sys.argv[1], "w") as handle:
        json.dump(facts, handle, indent=1, sort_keys=True)
