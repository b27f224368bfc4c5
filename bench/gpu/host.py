"""What this host has for a test on its GPUs, and what is missing, each in a line. Standard library alone."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stackwright.core.errors import GpuError
from stackwright.core.model.target import AMD64

LIBRARY = "libcuda.so.1"
NO_DEVICE = 100
"""CUDA_ERROR_NO_DEVICE (cuda.h)."""
MAJOR, MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR."""

PROGRAMS = ("bash", "patch", "tar", "gzip", "make", "cmake", "strip", "find")
"""What scripts/build-horovod.sh starts, with the compilers."""
NEEDED = {
    "pip": "pip", "setuptools": "setuptools", "packaging": "packaging", "yaml": "pyyaml",
    "cloudpickle": "cloudpickle", "psutil": "psutil", "wheel": "wheel",
}  # fmt: skip
"""Modules, and the distributions that have them, without which Horovod is neither compiled nor imported."""

ASK = """
import importlib.util, json, os, sys
def there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False
found = {"modules": {name: there(name) for name in sys.argv[1:]}, "torch": None, "nccl": []}
if there("setuptools"):  # since 70.1 it makes wheels itself
    (folder,) = importlib.util.find_spec("setuptools").submodule_search_locations
    found["modules"]["wheel"] |= os.path.exists(os.path.join(folder, "command", "bdist_wheel.py"))
if there("torch"):
    try:
        import torch
        found["torch"] = {"version": torch.__version__, "cuda": torch.version.cuda}
        if torch.version.cuda:
            found["torch"]["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    except Exception as error:
        found["torch"] = {"error": "%s: %s" % (type(error).__name__, error)}
if there("nvidia.nccl"):
    found["nccl"] = list(importlib.util.find_spec("nvidia.nccl").submodule_search_locations or [])
print("\\n" + json.dumps(found))
"""
"""A process of its own: the import of a framework may print, warn and take hold of devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """``capability`` is as in 9.0."""

    name: str
    capability: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """``cuda`` is the CUDA that it offers, as in 13000."""

    version: str
    cuda: int
    devices: tuple[Device, ...]

    @property
    def architectures(self) -> tuple[str, ...]:
        """Return each once, as nvcc numbers them: 90."""
        found = {device.capability.replace(".", "") for device in self.devices}
        return tuple(sorted(found, key=int))


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """``nvidia`` is the folder of NVIDIA's wheels. ``lacks`` are distributions that come from --wheels."""

    driver: Driver
    torch: str
    cuda: str
    nccl: str
    nvidia: Path
    toolkit: Path
    nvcc: str
    cc: str
    cxx: str
    gcc: str
    lacks: tuple[str, ...]


def driver(library: str = LIBRARY) -> Driver:
    """Ask the driver itself for its devices; GpuError where there is none."""
    try:
        cuda = ctypes.CDLL(library)
    except OSError:
        raise GpuError(f"no driver: this host has no {library}") from None
    code = cuda.cuInit(0)
    count = ctypes.c_int(0)
    if code == 0:
        code = cuda.cuDeviceGetCount(ctypes.byref(count))
    if code not in (0, NO_DEVICE):
        raise GpuError(f"the driver cannot be used: it answers with error {code} of cuda.h")
    if not count.value:
        raise GpuError("no device: the driver is there, and finds no GPU")
    offered = ctypes.c_int(0)
    cuda.cuDriverGetVersion(ctypes.byref(offered))
    devices = tuple(_device(cuda, index) for index in range(count.value))
    return Driver(version=_driver_version(), cuda=offered.value, devices=devices)


def for_architecture(capability: str) -> Driver:
    """Return a driver that is not there, for a compile without a device."""
    return Driver(version="", cuda=0, devices=(Device(name="", capability=capability),))


def _device(cuda: ctypes.CDLL, index: int) -> Device:
    name = ctypes.create_string_buffer(256)
    cuda.cuDeviceGetName(name, len(name), index)
    pair = []
    for attribute in (MAJOR, MINOR):
        value = ctypes.c_int(0)
        cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, index)
        pair.append(value.value)
    return Device(name=name.value.decode(errors="replace"), capability=f"{pair[0]}.{pair[1]}")


def _driver_version() -> str:
    """Return NVML's answer; "" where it gives none."""
    text = ctypes.create_string_buffer(96)
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        nvml.nvmlInit_v2()
        nvml.nvmlSystemGetDriverVersion(text, len(text))
    except (OSError, AttributeError):
        return ""
    return text.value.decode(errors="replace")


# -- what a compile needs ------------------------------------------------------------------------


def look(given: Driver, wheels: Path | None) -> Host:
    """Return what the host has; GpuError with a line for each thing that is missing."""
    asked = _asked()
    nvcc, toolkit = _nvcc()
    cc, cxx = os.environ.get("CC") or "gcc", os.environ.get("CXX") or "g++"
    lacks, absent = of_modules(asked["modules"], wheels)
    missing = [
        *_machine(),
        *of_torch(asked["torch"], given),
        *of_nccl(asked["nccl"]),
        *of_cuda(nvcc, toolkit, str((asked["torch"] or {}).get("cuda") or "")),
        *(f"no {name}: install the program" for name in (*PROGRAMS, cc, cxx) if not shutil.which(name)),
        *_headers_of_python(),
        *absent,
        *_own_name(),
    ]
    if missing:
        raise GpuError(missing[0], details=tuple(missing[1:]))
    torch = asked["torch"]
    return Host(
        driver=given, torch=torch["version"], cuda=torch["cuda"], nccl=torch["nccl"],
        nvidia=Path(asked["nccl"][0]).parent, toolkit=toolkit or Path(), nvcc=nvcc, cc=cc, cxx=cxx,
        gcc=_said(cc, "-dumpfullversion").strip(), lacks=lacks,
    )  # fmt: skip


def _said(*argv: str) -> str:
    """Return what a program prints; "" where it cannot be started or fails."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=300, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr if done.returncode == 0 else ""


def _asked() -> dict[str, Any]:
    text = _said(sys.executable, "-c", ASK, *NEEDED)
    answer = next((line for line in reversed(text.splitlines()) if line.startswith("{")), "")
    if not answer:
        raise GpuError(f"{sys.executable} ended while it was asked for PyTorch")
    found: dict[str, Any] = json.loads(answer)
    return found


def _machine() -> list[str]:
    found = platform.machine()
    return [] if found == AMD64.machine else [f"{found} is no {AMD64.machine}, for which this is written"]


def of_torch(found: dict[str, Any] | None, given: Driver) -> list[str]:
    if found is None:
        return [f"no PyTorch: {sys.executable} has none"]
    if "error" in found:
        return [f"PyTorch cannot be imported: {found['error']}"]
    if not found["cuda"]:
        return [f"no PyTorch with CUDA: {found['version']} is for the CPU alone"]
    if given.cuda and given.cuda // 1000 < int(found["cuda"].split(".")[0]):
        return [
            f"the driver is too old: it offers CUDA {given.cuda // 1000}, and PyTorch is of {found['cuda']}"
        ]
    return []


def of_nccl(found: list[str]) -> list[str]:
    """NCCL of PyTorch's wheel, which is the one that a process loads, and its header."""
    parts = ("lib/libnccl.so.2", "include/nccl.h")
    if not found:
        return ["no NCCL: this Python has no nvidia-nccl wheel, which PyTorch's wheel brings"]
    return [
        f"no NCCL: there is no {part} in {found[0]}" for part in parts if not Path(found[0], part).exists()
    ]


def _nvcc() -> tuple[str, Path | None]:
    """Return release and folder of CUDA's compiler. What is on the PATH may be a script that starts it, so
    that nvcc itself is asked where it lies."""
    home = os.environ.get("CUDA_HOME")
    candidates = [Path(home, "bin", "nvcc")] if home else [shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc"]
    for program in filter(None, candidates):
        release = re.search(r"release ([0-9]+\.[0-9]+)", _said(str(program), "--version"))
        top = re.search(
            r"^#\$ TOP=(.+)$", _said(str(program), "--dryrun", "-E", "-x", "cu", os.devnull), re.M
        )
        if release and top:
            return release[1], Path(top[1].strip()).resolve()
    return "", None


def of_cuda(nvcc: str, toolkit: Path | None, wanted: str) -> list[str]:
    if toolkit is None:
        return ["no nvcc: it is not on the PATH, not in CUDA_HOME and not in /usr/local/cuda"]
    if wanted and wanted.split(".")[0] != nvcc.split(".")[0]:
        return [f"no nvcc of CUDA {wanted.split('.')[0]}: {toolkit} has {nvcc}, and PyTorch is of {wanted}"]
    parts = ("bin/nvcc", "include/cuda_runtime.h", "lib64/libcudart.so")
    return [f"no whole CUDA toolkit: there is no {part} in {toolkit}" for part in parts
            if not (toolkit / part).exists()]  # fmt: skip


def _headers_of_python() -> list[str]:
    header = Path(sysconfig.get_path("include"), "Python.h")
    return [] if header.is_file() else [f"no {header}: install the headers of Python (python3-dev)"]


def _own_name() -> list[str]:
    """Horovod 0.28.1 makes a Gloo device of the host's name, and crashes where that has no address."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return [f"the host's own name, {name}, has no address: as root, echo 127.0.0.1 {name} >> /etc/hosts"]
    return []


def of_modules(there: dict[str, bool], wheels: Path | None) -> tuple[tuple[str, ...], list[str]]:
    """Return distributions to install from --wheels, and a line for each that neither place has."""
    wanted = [name for module, name in NEEDED.items() if not there[module]]
    carried = {_distribution(path) for path in wheels.glob("*.whl")} if wheels else set()
    lacks = [name for name in wanted if name in carried and name != "pip"]
    hint = "put its wheel into the folder of --wheels"
    absent = [
        f"no {name} in this Python: {'install it' if name == 'pip' else hint}"
        for name in wanted
        if name not in lacks
    ]
    return tuple(lacks), absent


def _distribution(wheel: Path) -> str:
    return re.sub(r"[-_.]+", "-", wheel.name.partition("-")[0]).lower()
