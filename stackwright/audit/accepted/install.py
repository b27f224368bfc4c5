"""What a lock brings, installed in an environment of its own that is thrown away, and imported there."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from stackwright.core.model.row import Cell
from stackwright.host.runner import Runner
from stackwright.host.shipped import ROOT

PROBES = ROOT / "probes"

PROGRAMS = {
    "torch": "import torch, numpy; assert torch.from_numpy(numpy.ones(2)).sum() == 2; "
    "assert (torch.ones(2).numpy() == 1).all()",
    "tensorflow": "import numpy, tensorflow as tf; assert (tf.constant(numpy.ones(2)).numpy() == 1).all()",
    "mxnet": "import numpy, mxnet; assert (mxnet.nd.array(numpy.ones(2)).asnumpy() == 1).all()",
}
"""By framework: it is imported, and hands an array to numpy and takes one from it."""

LEND = (
    "import os, subprocess, sys; sys.path.insert(0, {probes!r}); import driver; "
    "sys.exit(subprocess.run([sys.executable, '-W', 'error::UserWarning:torch', '-c', {program!r}], "
    "env={{**os.environ, **driver.environment({name!r})}}).returncode)"
)
"""MXNet's build for CUDA does not load without a driver: the probes lend it one. The wheels' libraries are
found as in an image, where ld.so.conf names their folders."""


def failures(
    cell: Cell, pins: str, *, uv: Path, runner: Runner, environment: Mapping[str, str]
) -> tuple[str, ...] | None:
    """What went wrong: nothing, where every framework of the row was imported and works with its numpy.

    None where there is no such Python here.
    """
    with tempfile.TemporaryDirectory(prefix="stackwright-accepted-") as folder:
        python, listed = Path(folder) / "env" / "bin" / "python", Path(folder) / "pins.txt"
        listed.write_text(pins)
        made = runner([uv, "venv", "--quiet", "--no-project", "--python", cell.python, python.parent.parent],
                      env=environment, timeout=600)  # fmt: skip
        if not made.ok:
            return None
        installed = runner(
            [uv, "pip", "install", "--quiet", "--no-config", "--python", python, "--require-hashes",
             "--no-deps", "--only-binary", ":all:", "--requirements", listed],
            env=environment, timeout=3600,
        )  # fmt: skip
        if not installed.ok:
            return (f"not installed: {_last(installed.stderr)}",)
        found = {name: _imported(python, name, runner) for name in PROGRAMS if cell.value(name)}
    return tuple(f"{name}: {why}" for name, why in found.items() if why)


def _imported(python: Path, name: str, runner: Runner) -> str:
    program = LEND.format(probes=str(PROBES), program=PROGRAMS[name], name=name)
    site = python.parent.parent / "lib"
    libraries = ":".join(map(str, sorted(site.glob("python3*/site-packages/nvidia/*/lib"))))
    done = runner([python, "-c", program], env={"LD_LIBRARY_PATH": libraries}, timeout=600)
    warned = "Numpy is not available" in done.stderr or "_ARRAY_API not found" in done.stderr
    return "" if done.ok and not warned else _last(done.stderr)


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return (lines or ["it said nothing"])[-1][:200]
