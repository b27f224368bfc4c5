"""Facts about what was compiled for the image: each extension's compiler, kernels, MPI and symbols.

Runs inside the image with the image's own Python and imports nothing of Stackwright. Each extension is loaded
in a process of its own, after the packages whose libraries it needs.
Usage: compiled.py FACTS.json NAME…
"""

import json
import mmap
import os
import re
import subprocess
import sys
import tempfile

import additions
import driver
import link

NOTE = "stackwright.json"
GCC = re.compile(rb"GCC: \([^)]*\) ([0-9]+(?:\.[0-9]+)+)")
MPI = re.compile(r"^lib(mpi|mpich|mpi_cxx|mpicxx)\.so")
OF_DRIVER = "libcuda.so.1"
LOAD = """
import ctypes, importlib, json, os, sys
for name in sys.argv[2:]:
    importlib.import_module(name)
ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_LOCAL)
files = set()
for line in open("/proc/self/maps"):
    path = line.split(None, 5)[5:]
    if path and path[0].startswith("/"):
        files.add(os.path.realpath(path[0].rstrip("\\n")))
print("FACTS" + json.dumps(sorted(files)))
"""


def note(folder):
    """What the build wrote into the wheel; None if it is not there."""
    path = os.path.join(folder, NOTE)
    if not os.path.exists(path):
        return None
    with open(path) as handle:
        return json.load(handle)


def owners(there):
    """By name of a library: the distribution that brought it, as additions.installed() knows it."""
    return {
        os.path.basename(path): name
        for name, folder in sorted(there.items())
        for path in additions.files(folder)
        if ".so" in path
    }


def before(needed, name, there, owner):
    """Modules to import first: of other distributions whose libraries the extension needs, but NVIDIA's."""
    found = sorted({owner[one] for one in needed if owner.get(one, name) != name})
    return [
        module
        for one in found
        if not one.startswith("nvidia-")
        for module in additions.modules(additions.files(there[one]))[:1]
    ]


def loaded(path, modules, lent):
    """MPI libraries that a process maps once it has loaded the extension, or why it does not load."""
    code, text, last = additions.ended(["-c", LOAD, path, *modules], lent)
    if code != 0 or "FACTS" not in text:
        return [], "exit code %s: %s" % (code, last)
    mapped = json.loads(text[text.rindex("FACTS") + len("FACTS") :].splitlines()[0])
    return [one for one in mapped if MPI.match(os.path.basename(one))], None


def extension(path, name, there, owner):
    with open(path, "rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
        table = link.sections(data)
        needed, _ = link.dynamic(data, table)
        start, size, _, _ = table.get(".comment", (0, 0, 0, 0))
        gcc = sorted({one.decode() for one in GCC.findall(data[start : start + size])})
        kernels = link.kernels(data, table)
    facts = {"gcc": gcc, "kernels": kernels, "gpu_code": ".nv_fatbin" in table, "needed": needed}
    with tempfile.TemporaryDirectory() as folder:
        lent = {}
        if OF_DRIVER in link.unresolved(path):
            driver.make(path, os.path.join(folder, OF_DRIVER))
            lent = {"LD_LIBRARY_PATH": folder}
        facts["mpi"], facts["error"] = loaded(path, before(needed, name, there, owner), lent)
    return facts


def distribution(name, there, owner):
    site = os.path.dirname(there[name])
    paths = [os.path.normpath(os.path.join(site, file)) for file in additions.files(there[name])]
    found = [path for path in paths if ".so" in os.path.basename(path) and additions.is_elf(path)]
    return {
        "note": note(there[name]),
        "extensions": {path: extension(path, name, there, owner) for path in sorted(found)},
        "error": None,
    }


def main(names):
    there = additions.installed()
    owner = owners(there)
    return {
        name: distribution(name, there, owner) if name in there else {"error": "it is not installed"}
        for name in names
    }


if __name__ == "__main__":
    try:
        found = main(sys.argv[2:])
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        sys.exit("%s: %s" % (type(error).__name__, error))
    with open(sys.argv[1], "w") as target:
        json.dump(found, target, indent=1, sort_keys=True)
