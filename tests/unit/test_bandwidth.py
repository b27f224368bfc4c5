"""What is made of the table of a benchmark, and the lines and scripts that measure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bandwidth_table import FOOT, HEAD, ROWS, TABLE
from launch_targets import TARGETS

from stackwright.core.launch import launchers
from stackwright.core.launch.carried import bandwidth
from stackwright.core.launch.carried.bandwidth import SHARE, judged

LAST = "benchmark: 95.93 GB/s on the bus with 1073741824 bytes over 4 ranks"


@pytest.mark.parametrize(
    ("table", "ranks", "gbit", "said", "well"),
    [
        (TABLE, 4, 0, LAST, True),
        (TABLE, 4, 800, f"{LAST}, 0.96 of 800 Gbit/s", True),
        (TABLE, 4, 1600, f"{LAST}, 0.48 of 1600 Gbit/s: less than 0.5 of what the links give", False),
        (TABLE, 8, 0, "wrong world: 8 ranks were started, and 4 measure together", False),
        (HEAD + ROWS, 4, 0, "did not end", False),
        (HEAD + FOOT, 4, 0, "did not end", False),
        (TABLE.replace("values : 0 OK", "values : 7 FAILED"), 4, 0, "7 values are wrong", False),
        ("", 4, 0, "did not end", False),
        (TABLE.replace("       0 ", "     N/A "), 4, 0, LAST, True),
    ],
)
def test_what_is_said_of_a_table(table: str, ranks: int, gbit: float, said: str, *, well: bool) -> None:
    line, found = judged(table.splitlines(keepends=True), ranks, gbit)
    assert said in line and found is well and "\n" not in line


def test_a_share_at_the_limit_is_enough() -> None:
    assert judged(TABLE.splitlines(), 4, 95.93 * 8 / SHARE)[1]


def test_other_lines_are_no_row_of_the_table() -> None:
    for line in (*HEAD.splitlines(), *FOOT.splitlines(), "8 2 " + "x " * 11, " ".join(["1"] * 14), ""):
        assert bandwidth.numbers(line) is None


@pytest.mark.parametrize(("gbit", "code"), [("0", 0), ("1600", 1)])
def test_the_program_hands_on_what_it_reads(gbit: str, code: int, tmp_path: Path) -> None:
    argv = [sys.executable, "-I", bandwidth.__file__, "4", gbit]
    done = subprocess.run(argv, input=TABLE, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith(TABLE + LAST)
    (tmp_path / "table.txt").write_text(TABLE)
    again = subprocess.run([*argv, tmp_path / "table.txt"], capture_output=True, text=True, check=False)
    assert again.returncode == code and again.stdout == done.stdout.removeprefix(TABLE)


# -- lines and scripts -----------------------------------------------------------------------------

STAND_IN = """#!/bin/bash
case " $* " in
*" prove_"*) exit 0 ;;
*" all_reduce_perf -b 8 -e 1G -f 2 -g 1 "*) cat "$TABLE"; exit "${ENDS:-0}" ;;
esac
while [ "$1" != python3 ]; do shift; done
exec "$@"
"""
"""Of mpirun and srun: the ranks measure, and what is no rank's program is started as it is."""


def ran(folder: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "table").write_text(TABLE)
    for name in ("mpirun", "srun"):
        (folder / name).write_text(STAND_IN)
        (folder / name).chmod(0o755)
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False,
        env={"PATH": path, "TABLE": "table", **environment},
    )  # fmt: skip


def made(launcher: str, **fields: Any) -> launchers.Launch:
    site = launchers.site(benchmark=True, **fields)
    return launchers.LAUNCHERS[launcher].make(TARGETS["openmpi 5"], site, launchers.BENCHMARK)


@pytest.mark.parametrize("fabric", ["auto", "infiniband"])
@pytest.mark.parametrize(("speed", "code"), [(None, 0), (800, 0), (1600, 1)])
def test_the_line_of_mpirun_ends_with_the_bandwidth(
    fabric: str, speed: int | None, code: int, tmp_path: Path
) -> None:
    line = made("mpirun", hosts_text="a:2,b:2", fabric=fabric, link_speed=speed)
    script = launchers.script(line).replace('-c "$prove_', "prove_ ")
    done = ran(tmp_path, script)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(LAST)


@pytest.mark.parametrize(
    ("speed", "environment", "code"), [(None, {}, 0), (1600, {}, 1), (None, {"ENDS": "3"}, 3)]
)
def test_the_script_for_sbatch_keeps_the_table_and_ends_with_the_bandwidth(
    speed: int | None, environment: dict[str, str], code: int, tmp_path: Path
) -> None:
    batch = made("slurm", nodes=2, per_node=2, link_speed=speed)
    for name, text in launchers.files("row", batch).items():
        (tmp_path / name).write_text(text)
    job = {"SLURM_NTASKS": "4", "SLURM_JOB_ID": "17", **environment}
    done = ran(tmp_path, (tmp_path / "row.sbatch").read_text(), **job)
    assert done.returncode == code, done.stdout + done.stderr
    assert (tmp_path / "benchmark-17.txt").read_text() == TABLE
    assert code == 3 or done.stdout.splitlines()[-1].startswith(LAST)


def test_who_trains_carries_nothing_of_it() -> None:
    site = launchers.site(nodes=2, per_node=2)
    batch = launchers.LAUNCHERS["slurm"].make(TARGETS["openmpi 5"], site, launchers.TRAIN)
    assert "bandwidth.py" not in launchers.files("row", batch)
