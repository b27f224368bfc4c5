"""Ctrl-C while a row is converted: it ends at once, leaves nothing behind, and the record says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest
from own_engine import forget
from work_on_row import KEY, ROOT

from stackwright.build.sif import convert
from stackwright.core.model.record import Status
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.records import files as record

pytestmark = pytest.mark.engine

PROGRAM = """
import signal
import sys
from dataclasses import replace
from pathlib import Path
import work_on_row
from rich.console import Console
from stackwright.build import rows as session
from stackwright.build.job import Request
from stackwright.core.model.compression import compression
from stackwright.host.project import Plan
from stackwright.records.files import Phase
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts its background jobs deaf to it
job = work_on_row.job(Path(sys.argv[1]), sys.argv[2])
waiting = replace(job.row, stack=replace(job.row.stack, id="never-begun"))
plan = Plan(rows=(job.row, waiting), rejections=())
session.work_rows(
    job.project, plan,
    Request(phases=(Phase.BASE, Phase.BUILD, Phase.SIF, Phase.PROBE_SIF), compression=compression("zstd:22")),
    site=job.site, runner=job.runner, console=Console(stderr=True),
)
"""


@pytest.mark.long
def test_a_conversion_ends_at_once(tmp_path: Path, docker: Docker, runner: Runner) -> None:
    """With a compression that takes a minute for Debian's base, and a row that waits for its turn."""
    path = f"{ROOT}:{ROOT / 'tests' / 'support' / 'engine'}"
    argv = [sys.executable, "-c", PROGRAM, str(tmp_path), uuid4().hex]
    with subprocess.Popen(argv, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}) as child:
        try:
            while child.poll() is None and not _writes(tmp_path):
                time.sleep(0.02)
            child.send_signal(signal.SIGINT)
            assert child.wait(timeout=120) != 0
        finally:
            child.kill()
            forget(docker, f"stackwright/pipeline-test:{KEY[:12]}")
    ours = f"label={engine.MADE_BY_US}={child.pid}"
    assert runner(docker.command("ps", "--all", "--quiet", "--filter", ours)).stdout == ""
    assert [*tmp_path.rglob("*.sif"), *tmp_path.rglob(f"{convert.SCRATCH}*")] == []
    (newest,) = record.newest(record.load_all(tmp_path / "records").records)
    assert (newest.status, newest.reason) == (Status.INTERRUPTED, "interrupted")


def _writes(folder: Path) -> bool:
    return any(path.stat().st_size > 0 for path in folder.glob(f"**/{convert.SCRATCH}*/image.sif"))
