"""A row that builds in a minute: few packages, and a wheel that stands for Horovod and PyTorch.

The stand-ins have no servers to attack and nothing that compiles: those two probes answer nothing here.
"""

from __future__ import annotations

import re
from dataclasses import replace

from rows import LOCK, SOURCES, stack

from stackwright.core.components.horovod.build import SCRIPT
from stackwright.core.model.row import Stack

WHEELS = ("nvidia-cuda-runtime-cu12", "setuptools")
PACKAGES = {
    "base": ("ca-certificates", "python3", "python3-venv"),
    "toolchain": ("patch",),
    "runtime": ("libibverbs1", "openssh-client", "openssh-server", "tini"),
}
BUILD_SCRIPT = """\
#!/usr/bin/env bash
set -euo pipefail
[ -e "$SOURCE" ] && [ -d /opt/stack/lib ] && command -v patch > /dev/null
"$PYTHON" - "$OUT" <<'WHEEL'
import _ctypes, os, pathlib, sys, zipfile
os.makedirs(sys.argv[1])
info = "horovod-0.28.1.dist-info"
answers = ("mpi", "gloo", "nccl", "cuda")
files = {
    "horovod/__init__.py": "",
    "horovod/torch/__init__.py": "".join("def %s_built(): return True\\n" % name for name in answers)
    + "def init(): pass\\n",
    "horovod/torch/mpi_lib_v2.so": pathlib.Path(_ctypes.__file__).read_bytes(),
    info + "/METADATA": "Metadata-Version: 2.1\\nName: horovod\\nVersion: 0.28.1\\n",
    info + "/WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    "torch/__init__.py": "__version__ = '2.6.0'\\ndef compiled_with_cxx11_abi(): return True\\n",
    "torch/lib/empty": "",
    "torch-2.6.0.egg-info/PKG-INFO": "Metadata-Version: 2.1\\nName: torch\\nVersion: 2.6.0\\n",
}
with zipfile.ZipFile(sys.argv[1] + "/horovod-0.28.1-py3-none-any.whl", "w") as wheel:
    for name, text in files.items():
        wheel.writestr(zipfile.ZipInfo(name), text)  # of 1980, as bdist_wheel does with SOURCE_DATE_EPOCH
    record = info + "/RECORD"
    wheel.writestr(zipfile.ZipInfo(record), "".join(name + ",,\\n" for name in [*files, record]))
WHEEL
"""
NO_ANSWER = b"import pathlib, sys\npathlib.Path(sys.argv[1]).write_text('{}')\n"
STANDS_IN = {"probes/attack.py": NO_ANSWER, "probes/compile.py": NO_ANSWER}
BESIDE = tuple((name, STANDS_IN.get(name, content)) for name, content in SOURCES.companions)
TEMPLATES = tuple(
    (name, text.replace("gcc -shared -fPIC -Os -s -o", "tee").replace("-x c - <", "<"))
    for name, text in SOURCES.templates
)
"""There is no gcc, so that the source of the name service is in the place of the module."""
SMALL = replace(SOURCES.with_file(SCRIPT, BUILD_SCRIPT.encode()), companions=BESIDE, templates=TEMPLATES)
WITHOUT_NCCL = SMALL.with_file(SCRIPT, BUILD_SCRIPT.replace('"nccl", ', "").encode())


def row() -> Stack:
    head = "".join(LOCK.text.splitlines(keepends=True)[:2])
    pins = (re.search(rf"^{name}==(?:.*\\\n)+.*\n", LOCK.text, re.MULTILINE) for name in WHEELS)
    text = head + "".join(pin[0] for pin in pins if pin)
    assert text.count("==") == len(WHEELS)
    packages = tuple(package for package in LOCK.packages if package.name in WHEELS)
    return stack(id="cut-down", patches=(), lock=replace(LOCK, text=text, packages=packages))
