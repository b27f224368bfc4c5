"""The default row, from a bundle, where no route is: the layers have the digests of the bundle's build.

`make bundle` runs it, and nothing else does: two whole builds, and their disk.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bundled_row import Cut, cut_off
from own_engine import OwnEngine, own_engine

from stackwright.build.bundle import file
from stackwright.host.project import Planned
from stackwright.host.runner import Runner

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).parents[2]
PLACE = Path(os.environ.get("STACKWRIGHT_BUNDLES", ROOT / "out" / "bundles"))
"""Where the bundle is kept, and where the second engine has its data: on a disk with 30 GB."""


@pytest.fixture(scope="module")
def bundle(row: Planned) -> Path:
    path = PLACE / f"{row.stack.id}.bundle"
    if not path.exists():
        words = [sys.executable, "build.py", "bundle", row.stack.id, "--to", str(path)]
        subprocess.run(words, cwd=ROOT, check=True)
    return path


@pytest.fixture(scope="module")
def apart(runner: Runner) -> Iterator[tuple[Cut, OwnEngine]]:
    folder = PLACE / "engine"
    folder.mkdir(parents=True, exist_ok=True)
    with cut_off(runner) as cut, own_engine(folder, {}, runner, network=cut.words) as own:
        yield cut, own


def test_without_a_route_the_layers_are_the_same(
    bundle: Path, apart: tuple[Cut, OwnEngine], row: Planned
) -> None:
    cut, own = apart
    out = PLACE / "out"
    done = subprocess.run(
        [*cut.words, sys.executable, "build.py", "--out", out, "build", row.stack.id, "--from-bundle", bundle,
         "--json"],
        cwd=ROOT, env=own.environ, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    (record,) = json.loads(done.stdout)["records"]
    (made,) = [made for made in file.read(bundle).manifest.rows if made.row == row.stack.id]
    built = [layer["digest"] for layer in record["layers"] if layer["digest"]]
    differ = [layer["what"] for layer in record["layers"] if layer["digest"] not in made.layers]
    assert differ == []
    assert len(built) >= len(made.layers) - 1
