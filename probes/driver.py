"""Lends MXNet a driver's library on a host without a GPU: its CUDA build does not load without libcuda.so.1.

Runs inside the image with the image's own Python and imports nothing of Stackwright. What is lent exists in
a temporary folder, for the process that is given ``environment()`` and its children; each of its functions
answers that there is no device.
"""

import atexit
import ctypes
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile

LIBRARY = "libcuda.so.1"
NO_DEVICE = 100
"""CUDA_ERROR_NO_DEVICE (cuda.h)."""


def environment(module):
    """What to add to the environment of a process that imports the module; {} where nothing is needed."""
    if module.split(".")[-1] != "mxnet" or there():
        return {}
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    make(os.path.join(sysconfig.get_path("purelib"), "mxnet", "libmxnet.so"), os.path.join(folder, LIBRARY))
    others = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": folder + (":" + others if others else "")}


def there():
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


def make(needed_by, target):
    """A library that has every function of the driver that the other one calls by name."""
    listing = subprocess.run(
        ["nm", "-D", "--undefined-only", needed_by], stdout=subprocess.PIPE, check=True
    ).stdout.decode()
    names = re.findall(r"^ +U (cu[A-Z]\w*)$", listing, re.M)
    code = "".join("int %s(void) { return %d; }\n" % (name, NO_DEVICE) for name in names)
    argv = ["gcc", "-shared", "-fPIC", "-Wl,-soname," + LIBRARY, "-x", "c", "-", "-o", target]
    subprocess.run(argv, input=code.encode(), check=True)
