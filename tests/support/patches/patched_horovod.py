"""Horovod's released source with the patches that every row has, imported without compiling it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import horovod_source as source
import pytest
from patching import apply

from stackwright.core.facts.patches import load_series
from stackwright.host.runner import Runner

SERIES = load_series(source.ROOT / "patches" / "horovod")


@pytest.fixture(scope="session")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runner = Runner()
    tree = source.unpack(source.archive(runner, SERIES), tmp_path_factory.mktemp("patched"))
    program = source.patch_program(runner, tmp_path_factory.mktemp("program"))
    apply(runner, program, tree, [(patch.file, patch.content) for patch in SERIES.select({})])
    return tree


@pytest.fixture(scope="session")
def horovod(patched: Path) -> Iterator[source.Imported]:
    """A module of Horovod by its name below `horovod.`."""
    sys.path.insert(0, str(patched))
    yield lambda name: importlib.import_module(f"horovod.{name}")
    sys.path.remove(str(patched))
    for name in [name for name in sys.modules if name.partition(".")[0] == "horovod"]:
        del sys.modules[name]
