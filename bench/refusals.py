"""How long refusals take: `explain` of a row that is far from anything, and `plan` of many refused rows.

    .venv/bin/python bench/refusals.py [OTHER]

OTHER is the root of another checkout, measured in turn with this one: the last column is the ratio of the
processor times. Prints a table; it is a measurement and no test.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EIGHT = (
    "provider=nvidia", "os=ubuntu-16.04", "python=3.5", "cuda=9.0", "gcc=4.9", "torch=1.3.0",
    "tensorflow=1.12.0", "mxnet=1.4.1",
)  # fmt: skip
AXES = {
    "torch": ["2.6.0", "2.7.1", "2.8.0", "2.9.1"], "python": ["3.8", "3.9", "3.10", "3.12"],
    "gcc": ["9", "10", "11", "12", "13"], "cuda": ["11.8", "12.1", "12.6"],
    "gpu_arch": [["7.0"], ["8.0"], ["9.0"], ["10.0"]], "tensorflow": [None, "2.13.1"],
}  # fmt: skip
TIMES = 1


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="stackwright-") as folder:
        matrix = Path(folder) / "matrix.yaml"
        matrix.write_text(
            "defaults: {provider: debian, os: debian-13, horovod: '0.28.1', "
            "mpi: {flavour: openmpi, version: '5.0'}}\n" + f"axes: {json.dumps(AXES)}\n"
        )
        sets = [word for setting in EIGHT for word in ("--set", setting)]
        for name, words in (
            ("explain oldest", ("--matrix", "matrix.nvidia.yaml", "explain", "oldest")),
            ("explain with eight --set", ("explain", "cuda12-torch", *sets)),
            ("plan of 1,920 refused rows", ("--matrix", str(matrix), "plan")),
        ):
            roots = (ROOT, *(Path(path) for path in sys.argv[1:]))
            seconds = [min(_seconds(root, words) for _ in range(TIMES)) for root in roots]
            ratio = f"{seconds[1] / seconds[0]:6.1f} times" if len(seconds) > 1 else ""
            print(f"{name:28}", *(f"{second:6.2f} s" for second in seconds), ratio, flush=True)


def _seconds(root: Path, words: tuple[str, ...]) -> float:
    """Processor time of one command, which what else runs on the machine changes little."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "build.py", *words]
    subprocess.run(command, cwd=root, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
