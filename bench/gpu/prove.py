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
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parents[1] / "probes")

RUN = importlib.import_module("run")  # probes/run.py: no package, it runs in images
LIMIT = 900
"""Seconds of the benchmark, and of nccl-tests for one size."""


def benchmark(count: int, device: str) -> dict[str, Any]:
    prefix, extra = RUN.gloo(count)
    with tempfile.TemporaryDirectory() as folder:
        argv = [*prefix, sys.executable, "-B", str(HERE / "allreduce.py"), folder, device]
        code, text = RUN.run(argv, LIMIT, extra)
        ranks = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("rank-*.json"))]
    error = text[-RUN.TAIL :] if code or len(ranks) != count else ""
    return {"asked": count, "code": code, "ranks": ranks, "error": error}


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
        "horovod": RUN.ranks("gpu", "gloo", count, "torch", {}),
        "torch_distributed": RUN.ranks("gpu", "srun", count, "torch_distributed", {}),
        "benchmark": benchmark(count, "cuda"),
    }
    ranks = found["benchmark"]["ranks"]
    found["nccl_tests"] = nccl_tests(count, [line["bytes"] for line in ranks[0]["sizes"]] if ranks else [])
    return found


def on_the_cpu(count: int) -> dict[str, Any]:
    """What needs no device: the extension answers, and ranks of it train and add up by Gloo."""
    with tempfile.TemporaryDirectory() as folder:
        RUN.probe("built=torch", folder)
        built = json.loads((Path(folder) / "built-torch.json").read_text())
    collective = RUN.ranks("collective", "gloo", count, "torch", {})
    return {"built": built, "collective": collective, "benchmark": benchmark(count, "cpu")}


def main(answer: Path, count: int, device: str) -> None:
    found = on_gpus(count) if device == "cuda" else on_the_cpu(count)
    draft = answer.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(found, indent=1, sort_keys=True))
    draft.rename(answer)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
