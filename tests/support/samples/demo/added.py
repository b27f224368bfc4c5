"""Stackwright with the trial component in its table, in a process of its own.

Usage: added.py FOLDER prints, as JSON, all that follows from a row with it; added.py FOLDER build.py WORDS…
is the command line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[4]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support" / "samples")]
sys.path.remove(str(Path(__file__).parent))

from demo.demo_layer import DEMO  # noqa: E402

from stackwright.core.components.more import extend  # noqa: E402

extend(DEMO)

import report_samples  # noqa: E402
import rows  # noqa: E402

from stackwright.core.checks import judge, observed, probes  # noqa: E402
from stackwright.core.config import schema  # noqa: E402
from stackwright.core.model.record import flatten  # noqa: E402
from stackwright.core.model.row import Cell, Stack  # noqa: E402
from stackwright.core.render import definition, dockerfile  # noqa: E402
from stackwright.core.resolve import lockfile, requirements, resolve  # noqa: E402
from stackwright.core.rules import document  # noqa: E402
from stackwright.publish.attest.statements import sbom  # noqa: E402

ROW = "demo-torch"
MATRIX = f"""
include:
  - {{id: {ROW}, provider: debian, os: debian-13, python: "3.13", gcc: "13", cuda: "12.4", demo: "1.0",
     mpi: {{flavour: openmpi, version: "5.0"}}, torch: "2.6.0", gpu_arch: ["8.0"]}}
"""
SOFTWARE = {"torch": "2.6.0", "demo": "1.0"}


def cell(**values: str) -> Cell:
    return rows.CELL.changed({"id": ROW, "horovod": None, "demo": "1.0", "gpu_arch": ("8.0",), **values})


def stack() -> Stack:
    pins = rows.LOCK.text.split("\n", 2)[2]
    lock = lockfile.parse(
        lockfile.write(ROW, requirements.request(cell()), rows.LOCK.base, pins=pins), "the lock"
    )
    made = resolve.resolve(cell(), lock, rows.SERIES)
    assert isinstance(made, Stack), made
    return made


def facts(folder: Path, module: bytes) -> dict[str, Any]:
    """Run the probe as in an image; what the other probes would leave is written here."""
    site, at = folder / "site", folder / "probes"
    for path in (site, at, folder / "facts"):
        path.mkdir(parents=True, exist_ok=True)
    (site / "demo.py").write_bytes(module)
    for path in (*(ROOT / "probes").glob("*.py"), Path(__file__).parent / "demo.py"):
        (at / path.name).write_bytes(path.read_bytes())
    subprocess.run(
        [sys.executable, "-B", str(at / "run.py"), str(folder / "facts"), "demo"],
        check=True, env={**os.environ, "PYTHONPATH": str(site)},
    )  # fmt: skip
    loaded = {
        "modules": {name: {"error": None} for name in SOFTWARE},
        "libraries": {"/x": {"unresolved": []}},
    }
    system = {"python_packages": SOFTWARE, "distribution_packages": {"bash": "5"}}
    return {
        "demo": json.loads((folder / "facts" / "demo.json").read_text()),
        "link": loaded,
        "system": system,
    }


def report(folder: Path) -> dict[str, Any]:
    row = stack()
    recipe = dockerfile.render(row, rows.SOURCES)
    module = dict(recipe.files)["demo/demo.py"]
    seen = facts(folder / "right", module)
    broken = facts(folder / "broken", module.replace(b"one + two", b"one"))
    record = replace(
        report_samples.built(row=ROW),
        key=recipe.key,
        found=observed.found(row, seen),
        declared=flatten(dockerfile.declared(row)),
    )
    bill = sbom.bom(record, seen, image=f"sha256:{'1' * 64}", patches={})
    refusal = resolve.check(cell(demo="2.0"))
    return {
        "request": [requirements.requirements(cell()), requirements.requirements(rows.CELL)],
        "dockerfile": recipe.text("Dockerfile"),
        "files": [name for name, _ in recipe.files],
        "definition": definition.render_definition(row, rows.SOURCES).text(f"{ROW}.def"),
        "words": probes.words(row, 2, {}),
        "of_horovod": probes.words(rows.stack(), 2, {}),
        "checks": outcomes(row, seen),
        "broken": outcomes(row, broken),
        "sbom": [component["bom-ref"] for component in bill["components"]],
        "disagreement": sbom.disagreement(bill, record),
        "refusal": refusal and [refusal.rule, refusal.nearest],
        "docs": [judge.document(), document.markdown(), json.dumps(schema.json_schema())],
        "patches": row.patches,
    }


def outcomes(row: Stack, seen: dict[str, Any]) -> dict[str, str]:
    return {check.id: check.outcome for check in judge.verify(row, seen, "docker", {}).checks}


def command(folder: Path, words: list[str]) -> None:
    from stackwright.cli.main import main

    (folder / "matrix.yaml").write_text(MATRIX)
    (folder / "locks").mkdir()
    (folder / "locks" / f"{ROW}.txt").write_text(stack().lock.text)
    sys.argv = [words[0], "--matrix", str(folder / "matrix.yaml"), *words[1:]]
    main()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        command(Path(sys.argv[1]), sys.argv[2:])
    else:
        print(json.dumps(report(Path(sys.argv[1]))))
