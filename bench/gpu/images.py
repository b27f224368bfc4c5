"""The tier `gpu` of every row whose image is there, where an engine gives its containers a GPU.

``prove`` runs by any Python; the rest of the file by that of the project's environment, which has what
build.py needs. Where there is no environment, no engine or no image, the host's own PyTorch is what is left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv" / "bin" / "python"
MATRICES = ("matrix.yaml", "matrix.nvidia.yaml")
FAILED = 8
"""What build.py ends with where a check failed."""


def prove(out: Path, python: Path = PYTHON) -> int | None:
    """Return the exit code of the rows; None where none can be asked, which is said."""
    if not python.exists():
        print("make gpu: no container engine is asked: `make env` was not run here", flush=True)
        return None
    done = subprocess.run([str(python), __file__], cwd=ROOT, capture_output=True, text=True, check=False)
    answer: dict[str, Any] = (
        json.loads(done.stdout) if done.returncode == 0 else {"rows": [], "why": done.stderr.strip()[-300:]}
    )
    if not answer["rows"]:
        print(f"make gpu: no image is tested: {answer['why']}", flush=True)
        return None
    outcomes = {row: _probe(python, matrix, row, image) for matrix, row, image in answer["rows"]}
    out.mkdir(parents=True, exist_ok=True)
    (out / "images.json").write_text(json.dumps(outcomes, indent=1, sort_keys=True) + "\n")
    return max(int(found["code"]) for found in outcomes.values())


def _probe(python: Path, matrix: str, row: str, image: str) -> dict[str, Any]:
    """Every tier of it is run; of those the row's own record may have been made without a GPU."""
    print(f"make gpu: {row}: {image}", flush=True)
    argv = [str(python), "build.py", "--matrix", matrix, "probe", "--image", image, "--json"]
    done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    checks = list(of_gpu(done.stdout))
    for check in checks:
        print(f"make gpu: {row}: {check['id']}: {check['outcome']} {check['detail']}".rstrip(), flush=True)
    if not checks or any(check["outcome"] == "not run" for check in checks):
        return {"image": image, "code": done.returncode or FAILED, "checks": checks}
    failed = any(check["outcome"] != "passed" for check in checks)
    return {"image": image, "code": FAILED if failed else 0, "checks": checks}


def of_gpu(text: str) -> Iterator[dict[str, str]]:
    """Yield the checks of the tier from what `probe --image --json` prints."""
    try:
        checks = json.loads(text)["checks"]
    except (ValueError, KeyError, TypeError):
        return
    yield from ({name: str(check[name]) for name in ("id", "outcome", "detail")}
                for check in checks if check["tier"] == "gpu")  # fmt: skip


# -- by the project's environment ---------------------------------------------------------------------


def there(environ: Mapping[str, str]) -> tuple[list[tuple[str, str, str]], str]:
    """Return matrix, row and image of each row whose image the engine has, or why none is asked."""
    from stackwright.core.errors import EngineError  # noqa: PLC0415 (only the environment has what they import)
    from stackwright.core.render.dockerfile import reference  # noqa: PLC0415
    from stackwright.engines import docker as engine  # noqa: PLC0415
    from stackwright.engines.gpu import NoGpu, look_for_gpu  # noqa: PLC0415
    from stackwright.host.project import Project, cells, plan  # noqa: PLC0415
    from stackwright.host.runner import Runner  # noqa: PLC0415

    try:
        docker = engine.find(Runner(), environ)
        with engine.connected(docker) as client:
            access = look_for_gpu(client)
    except EngineError as error:
        return [], error.first_line
    if isinstance(access, NoGpu):
        return [], access.reason
    found = []
    for name in MATRICES:
        project = Project(root=ROOT, matrix=ROOT / name, out=ROOT / "out")
        for row in plan(project, cells(project)).rows:
            if engine.image_exists(docker, image := reference(row.recipe)):
                found.append((name, row.stack.id, image))
    why = "the engine gives a GPU, and has the image of no row: ./build.py build makes one"
    return found, "" if found else why


if __name__ == "__main__":
    sys.path[0] = str(ROOT)
    rows, why = there(os.environ)
    print(json.dumps({"rows": rows, "why": why}))
