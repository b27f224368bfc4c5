"""Facts about the libraries of the fabric, which need no hardware to be loaded and asked.

NCCL, UCX and Open MPI open them by name at run time, and do without one that does not load. Runs inside the
image with the image's own Python and imports nothing of Stackwright.
Usage: fabric.py FACTS.json
"""

import ctypes
import glob
import json
import os
import re
import subprocess
import sys

PLACES = ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib")
VERBS = "libibverbs.so.1"
"""By this name NCCL opens it."""
PMIX = "libpmix.so.2"
PROVIDERS = "libibverbs/*.so"
UCX = "libucp.so.0"
MODULES = ("ucx/libuct_*.so.0", "ucx/libucm_*.so.0")
"""Modules that UCX loads by name; libucx_perftest_* in the same folder are parts of a program."""


def loads(library, *before):
    """Why a library cannot be loaded, or None. In a process of its own: none helps the next.

    ``before`` are those that load it in real life.
    """
    end, start = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for user in before:
                ctypes.CDLL(user, mode=os.RTLD_NOW | os.RTLD_GLOBAL)
            ctypes.CDLL(library, mode=os.RTLD_NOW | os.RTLD_LOCAL)
            answer = b""
        except OSError as error:
            answer = str(error).encode()
        os.write(start, answer)
        os._exit(0)
    os.close(start)
    with os.fdopen(end, "rb") as handle:
        text = handle.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return text or (None if status == 0 else "its start ended with status %d" % status)


def every(patterns, *before):
    """Each file once, by its name, with why it does not load."""
    found = {}
    for place in PLACES:
        for pattern in patterns:
            for path in glob.glob(os.path.join(place, pattern)):
                found.setdefault(os.path.basename(path), path)
    return {name: loads(path, *before) for name, path in sorted(found.items())}


def output(*argv):
    """What a program prints, or None if it is absent or fails."""
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def ucx_version():
    """Of "# Library version: 1.18.1", "# Version 1.13.1" or "# UCT version=1.10.0 revision 7477e81"."""
    match = re.search(r"[Vv]ersion[:= ] ?([0-9]+(?:\.[0-9]+)+)", output("ucx_info", "-v") or "")
    return match.group(1) if match else None


def components(framework):
    """Names that ompi_info has for a framework of Open MPI; None where there is no ompi_info."""
    text = output("ompi_info", "--parsable")
    return text and sorted(set(re.findall(r"^mca:%s:(\w+):version:" % framework, text, re.M)) - {"base"})


def main():
    devices = output("ucx_info", "-d")
    return {
        "verbs": loads(VERBS),
        "providers": every((PROVIDERS,), VERBS),
        "ucx": {
            "modules": every(MODULES, UCX),
            "version": ucx_version(),
            "transports": sorted(set(re.findall(r"Transport: (\w+)", devices or ""))),
        },
        "pmix": loads(PMIX),
        "pml": components("pml"),
        "mpich": re.findall(r"^MPICH Device:\s+(\S+)", output("mpichversion") or "", re.M),
    }


if __name__ == "__main__":
    with open(sys.argv[1], "w") as handle:
        json.dump(main(), handle, indent=1, sort_keys=True)
