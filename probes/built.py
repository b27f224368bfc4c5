"""What one Horovod extension was compiled with, and the versions of the libraries that it loads.

Runs inside the image with the image's own Python and imports nothing of Stackwright. It must run once
per extension: ``horovodrun --check-build`` and ``horovod.common.util.nccl_built`` answer for whichever
extension loads first (horovod/common/util.py).
Usage: built.py FACTS.json EXTENSION (torch, tensorflow or mxnet)
"""

import base64
import ctypes
import hashlib
import importlib
import json
import os
import re
import sys
from importlib import metadata

QUESTIONS = ("mpi_built", "gloo_built", "nccl_built", "cuda_built", "rocm_built", "ddl_built", "ccl_built")


def mapped(pattern):
    """The first mapped file whose name matches; None if the process maps none."""
    with open("/proc/self/maps") as handle:
        paths = {line.split(None, 5)[5].strip() for line in handle if "/" in line}
    return next((path for path in sorted(paths) if re.search(pattern, os.path.basename(path))), None)


def owner(path):
    """The wheel that brought a file, as "name version", and whether the file is still what it brought.

    None and False for a file of the distribution.
    """
    for package in metadata.distributions():
        for file in package.files or ():
            if file.name == os.path.basename(path) and os.path.realpath(str(file.locate())) == path:
                intact = file.hash is not None and file.hash.value == digest(path)
                return "%s %s" % (package.metadata["Name"], package.version), intact
    return None, False


def digest(path):
    """As RECORD has it: sha256 in URL-safe base64 without padding."""
    with open(path, "rb") as handle:
        found = hashlib.sha256(handle.read()).digest()
    return base64.urlsafe_b64encode(found).decode().rstrip("=")


def by_pointer(library, function):
    """None where the library does not say: the CUDA runtime before 12 asks the driver first."""
    value = ctypes.c_int(0)
    failed = getattr(library, function)(ctypes.byref(value))
    return None if failed else value.value or None


def by_return(library, function):
    getattr(library, function).restype = ctypes.c_size_t
    return getattr(library, function)()


LIBRARIES = {
    "nccl": (r"^libnccl\.so", "ncclGetVersion", by_pointer),
    "cudart": (r"^libcudart(-[0-9a-f]+)?\.so", "cudaRuntimeGetVersion", by_pointer),
    "cudnn": (r"^libcudnn\.so", "cudnnGetVersion", by_return),
}


def libraries():
    facts = {}
    for name, (pattern, function, ask) in LIBRARIES.items():
        path = mapped(pattern)
        if path is None:
            facts[name] = None
            continue
        path = os.path.realpath(path)
        wheel, intact = owner(path)
        version = ask(ctypes.CDLL(path), function)
        facts[name] = {"path": path, "version": version, "owner": wheel, "intact": intact}
    return facts


def document(path):
    """A JSON file of the package; None if it is not there."""
    if not os.path.exists(path):
        return None
    with open(path) as handle:
        return json.load(handle)


def main(extension):
    module = importlib.import_module("horovod." + extension)
    root = os.path.dirname(os.path.dirname(module.__file__))
    answers = {}
    for question in QUESTIONS:
        ask = getattr(module, question, None)
        answers[question] = int(ask()) if ask else None
    return dict(
        answers,
        horovod=metadata.version("horovod"),
        metadata=document(os.path.join(root, "metadata.json")),
        compiled_by=document(os.path.join(root, "build_info.json")),
        libraries=libraries(),
    )


if __name__ == "__main__":
    facts = main(sys.argv[2])
    with open(sys.argv[1], "w") as handle:
        json.dump(facts, handle, indent=1, sort_keys=True)
