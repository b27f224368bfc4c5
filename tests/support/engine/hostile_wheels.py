"""Wheels as a hostile or careless project would upload them: real files, small, each with one thing wrong."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import markupsafe

SITE = "/opt/stack/lib/python3.13/site-packages"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """``red``: by check, what its detail says. ``files`` by their path in the wheel."""

    name: str
    files: Mapping[str, bytes]
    red: Mapping[str, str]
    requires: tuple[str, ...] = ()


def wheel(name: str, files: Mapping[str, bytes], version: str = "1.0") -> tuple[str, bytes]:
    """A file's name and its content."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    every = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},{_digest(content)},{len(content)}\n" for path, content in every.items())
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for path, content in {**every, f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode()}.items():
            archive.writestr(zipfile.ZipInfo(path), content)
    return f"{stem}-py3-none-any.whl", made.getvalue()


def _digest(content: bytes) -> str:
    return f"sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()}"


def broken_library() -> bytes:
    """A real extension whose C library has another name, which no system has."""
    extension = next(Path(markupsafe.__file__).parent.glob("_speedups*.so"))
    content = extension.read_bytes()
    assert b"libc.so.6\0" in content
    return content.replace(b"libc.so.6\0", b"libq.so.6\0")


FRAMEWORK = {
    "torch/__init__.py": b"__version__ = '2.6.0'\n",
    "torch/nn/__init__.py": b"",
    "torch/nn/functional.py": b"ORIGINAL = True\n",
    "nvidia/nccl/lib/libnccl.so.2": b"a stand-in",
    "torch-2.6.0.data/scripts/torchrun": b"#!python\nprint('torchrun')\n",
}
"""What stands in the image before the additions."""
PLANT = 'import os; os.getuid() == 0 and open("/etc/planted", "w").write("x")\n'
REPLACE = 'import sys, types\nsys.modules["torch"] = types.ModuleType("torch")\n'

HOSTILE = (
    Hostile(
        name="writes-in-etc",
        files={"writes_in_etc.py": b"", "writes_in_etc.pth": PLANT.encode()},
        red={
            "added.startup": "writes_in_etc.pth of writes-in-etc is run by every Python",
            "ledger.undeclared": "/etc/planted belongs to nothing",
        },
    ),
    Hostile(
        name="overwrites-torch",
        files={"overwrites_torch.py": b"", "torch/__init__.py": b"__version__ = '2.6.0'\nstolen = True\n"},
        red={"added.replaced": "torch/__init__.py is in overwrites-torch and in torch with other content"},
    ),
    Hostile(
        name="hides-functional",
        files={"hides_functional.py": b"", "torch/nn/functional/__init__.py": b"ORIGINAL = False\n"},
        red={"added.hides": "torch/nn/functional/__init__.py of hides-functional is found before"},
    ),
    Hostile(
        name="brings-gcc",
        files={"brings_gcc.py": b"", "brings_gcc-1.0.data/scripts/gcc": b"#!/bin/sh\nexec /usr/bin/gcc $*\n"},
        red={"added.hides": "/opt/stack/bin/gcc of brings-gcc is found before /usr/local/bin/gcc"},
    ),
    Hostile(
        name="brings-torchrun",
        files={
            "brings_torchrun.py": b"",
            "brings_torchrun-1.0.data/scripts/torchrun": b"#!/bin/sh\nexit 0\n",
        },
        red={"added.replaced": "bin/torchrun is in brings-torchrun and in torch with other content"},
    ),
    Hostile(
        name="broken-library",
        files={"broken_library/__init__.py": b"", "broken_library/native.so": broken_library()},
        red={"added.libraries": f"{SITE}/broken_library/native.so needs libq.so.6"},
    ),
    Hostile(
        name="replaces-torch",
        files={"replaces_torch.py": REPLACE.encode()},
        red={"added.hides": "importing replaces_torch of replaces-torch replaces torch"},
    ),
    Hostile(
        name="does-not-import",
        files={"does_not_import.py": b"import no_such_module\n"},
        red={"added.import": "does-not-import: does_not_import: exit code 1"},
    ),
)
"""Each is installed; the image is what shows it."""

OUTSIDE = wheel("outside", {"../../../../../etc/planted": b"x"})
"""A wheel with a file for another folder of the system."""
