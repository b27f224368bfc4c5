"""The devices of a host, as its driver names them: by a library that stands in for the driver's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rows import ROOT

from bench.gpu import host
from stackwright.core.errors import GpuError

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc to make the library with")

STAND_IN = """
#include <string.h>
int cuInit(unsigned flags) { return INIT; }
int cuDeviceGetCount(int *count) { *count = COUNT; return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetName(char *name, int length, int device) { strncpy(name, "Stand-in", length); return 0; }
int cuDeviceGetAttribute(int *value, int which, int device) { *value = which == 75 ? 9 : 0; return 0; }
"""


def _library(folder: Path, initialised: int, devices: int) -> str:
    source, target = folder / "driver.c", folder / host.LIBRARY
    source.write_text(STAND_IN.replace("INIT", str(initialised)).replace("COUNT", str(devices)))
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", target], check=True)
    return str(target)


def test_devices_are_those_that_the_driver_names(tmp_path: Path) -> None:
    found = host.driver(_library(tmp_path, 0, 2))
    assert (found.cuda, found.architectures, len(found.devices)) == (13000, ("90",), 2)
    assert found.devices[0].name == "Stand-in"


@pytest.mark.parametrize(
    ("initialised", "devices", "said"),
    [
        (host.NO_DEVICE, 0, "no device: "),
        (0, 0, "no device: "),
        (803, 0, "the driver cannot be used: it answers with error 803"),
    ],
)
def test_a_driver_without_a_device_is_told_from_one_that_fails(
    tmp_path: Path, initialised: int, devices: int, said: str
) -> None:
    library = _library(tmp_path, initialised, devices)
    with pytest.raises(GpuError) as missing:
        host.driver(library)
    assert missing.value.cause.startswith(said)


def test_the_program_asks_that_driver(tmp_path: Path) -> None:
    """By this Python, which has no PyTorch: a device is not enough."""
    _library(tmp_path, 0, 1)
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "gpu" / "start.py", "--without-engine", "--out", tmp_path / "out"],
        capture_output=True, text=True, check=False, env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == GpuError.exit_code
    assert "not run: no PyTorch: " in done.stderr
