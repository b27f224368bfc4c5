"""Options of the whole test suite, and where its folders are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long one example takes says more of the machine than of the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

MEMORY = Path("/dev/shm")  # no file of a fixed name is made there
ROOM = 10**10
"""Bytes that have to be free in memory: the tests of the engine need half of it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")


def pytest_configure() -> None:
    """Keep the tests' folders in memory where there is room: records are synced to the disk one by one."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM and _available() > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def _available() -> int:
    """Return how many bytes of memory processes can still get."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("MemAvailable:"))
    return int(line.split()[1]) * 1024
