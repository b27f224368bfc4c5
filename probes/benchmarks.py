"""Facts about the programs of nccl-tests, which measure nothing without a GPU and still have to load.

Runs inside the image with the image's own Python and imports nothing of Stackwright.
Usage: benchmarks.py FACTS.json PROGRAM… (as in: all_reduce_perf sendrecv_perf)
"""

import json
import mmap
import os
import re
import shutil
import subprocess
import sys

import link

SECONDS, TAIL = 60, 400
LOADED = re.compile(r"^\s*lib(nccl|cudart|mpi|mpich)\.so\S* => (/\S+)", re.M)
USAGE = re.compile(r"USAGE: (\S+)")
RELEASE = re.compile(rb"\0(\d{1,3}\.\d{1,3}\.\d{1,3})\0")
"""Each program says its release when it measures, and has it as a text of its own until then."""


def loaded(path):
    """Return the files that the loader takes, by library: {"libnccl": ["/opt/…/libnccl.so.2"]}."""
    done = subprocess.run(["ldd", path], capture_output=True, timeout=SECONDS, check=False)
    found = {}
    for name, file in LOADED.findall(done.stdout.decode(errors="replace")):
        found.setdefault("lib" + name, set()).add(os.path.realpath(file))
    return {name: sorted(files) for name, files in found.items()}


def usage(path):
    """Return the name by which a program explains itself, and why it does not."""
    try:
        done = subprocess.run([path, "-h"], capture_output=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    said = USAGE.search(done.stdout.decode(errors="replace"))
    if done.returncode or not said:
        text = (done.stderr or done.stdout).decode(errors="replace")[-TAIL:].strip()
        return None, "exit code %d: %s" % (done.returncode, text)
    return said.group(1), None


def program(name):
    path = shutil.which(name)
    if path is None:
        return {"path": None}
    with open(path, "rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
        table = link.sections(data)
        _, runpath = link.dynamic(data, table)
        kernels = link.kernels(data, table)
        releases = sorted({text.decode() for text in RELEASE.findall(data)})
    said, error = usage(path)
    return {
        "path": path, "unresolved": link.unresolved(path), "runpath": runpath, "loads": loaded(path),
        "kernels": kernels, "releases": releases, "usage": said, "error": error,
    }  # fmt: skip


if __name__ == "__main__":
    with open(sys.argv[1], "w") as handle:
        json.dump({name: program(name) for name in sys.argv[2:]}, handle, indent=1, sort_keys=True)
