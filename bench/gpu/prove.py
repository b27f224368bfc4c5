"""Starts the project's own probes and the benchmark on this host, and leaves what they found as JSON.

Runs by the Python of the environment that Horovod was compiled into; the probes are those of the images.
Usage: prove.py ANSWER COUNT cuda|cpu
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parents[1] / "probes")

RUN = importlib.import_module("run")  # probes/run.py: no package, it runs in images
LIMIT = 900
"""Seconds of one probe, of the benchmark, and of nccl-tests for one size."""
TAIL = 8000
"""Characters of output that are kept of what failed."""


def ranks(launcher: str, count: int, program: Sequence[str], *words: str) -> dict[str, Any]:
    """Start ranks of a program, each of which leaves a file, and gather what they left.

    As `ranks` of probes/run.py, with more of the output: the launcher's own error comes after that of a rank.
    """
    prefix, extra = RUN.LAUNCHERS[launcher](count)
    with tempfile.TemporaryDirectory() as folder:
        code, text = RUN.run([*prefix, *program, folder, *words], LIMIT, extra)
        found = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("rank-*.json"))]
    failed = code or len(found) != count
    return {"asked": count, "code": code, "ranks": found, "output": text[-TAIL:] if failed else ""}


def probe(launcher: str, count: int, name: str, extension: str) -> dict[str, Any]:
    return ranks(launcher, count, RUN.program(name, extension), extension)


def benchmark(count: int, device: str) -> dict[str, Any]:
    return ranks("gloo", count, [sys.executable, "-B", str(HERE / "allreduce.py")], device)


def nccl_tests(count: int, sizes: Iterable[int]) -> dict[str, str]:
    """Return what all_reduce_perf prints by bytes, where several GPUs and the program are there."""
    program = shutil.which("all_reduce_perf")
    if count < 2 or program is None:
        return {}
    said = {}
    for size in map(str, sizes):
        argv = [program, "-b", size, "-e", size, "-g", str(count)]
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=LIMIT, check=False
        )
        said[size] = done.stdout
    return said


def on_gpus(count: int) -> dict[str, Any]:
    found = {
        "horovod": probe("gloo", count, "gpu", "torch"),
        "torch_distributed": probe("srun", count, "gpu", "torch_distributed"),
        "benchmark": benchmark(count, "cuda"),
    }
    answered = found["benchmark"]["ranks"]
    sizes = [line["bytes"] for line in answered[0]["sizes"]] if answered else []
    found["nccl_tests"] = nccl_tests(count, sizes)
    return found


def on_the_cpu(count: int) -> dict[str, Any]:
    """What needs no device: the extension answers, and ranks of it train and add up by Gloo."""
    with tempfile.TemporaryDirectory() as folder:
        RUN.probe("built=torch", folder)
        built = json.loads((Path(folder) / "built-torch.json").read_text())
    collective = probe("gloo", count, "collective", "torch")
    return {"built": built, "collective": collective, "benchmark": benchmark(count, "cpu")}


def main(answer: Path, count: int, device: str) -> None:
    found = on_gpus(count) if device == "cuda" else on_the_cpu(count)
    draft = answer.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(found, indent=1, sort_keys=True))
    draft.rename(answer)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
