"""Faults of collectives, of training and of servers, planted in the real image: one layer each.

See real_image.py for which image it is. No GPU is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import horovod_source as source
import pytest
from real_image import ROOT, judge, judge_sif

from stackwright.build.sif import convert
from stackwright.core.components.horovod import attack
from stackwright.core.facts.patches import load_series
from stackwright.core.model.row import Tier
from stackwright.engines import apptainer as apptainers
from stackwright.engines.docker import Docker
from stackwright.host import project
from stackwright.host.runner import Runner
from stackwright.host.site import settings

SITE = "$(/opt/stack/bin/python -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')"
MODULE = f"{SITE}/horovod/torch"
RELEASED = "/released"
SERVERS = "servers-as-released"
"""horovod/runner of the released source, while a fault is planted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """``command`` is run by root; ``red`` are the checks that go red, and no other of their tier may."""

    name: str
    command: str
    tier: Tier
    red: frozenset[str]


def append(code: str) -> str:
    """The command that adds Python to horovod.torch.

    The image's bytecode does not look at its source again (unchecked-hash), so it has to go too.
    """
    quoted = code.replace("\n", "\\n")
    return f"printf '%b' '{quoted}\\n' >> {MODULE}/__init__.py; rm {MODULE}/__pycache__/__init__.*.pyc"


def python(name: str, code: str, red: str) -> Fault:
    """A fault in what horovod.torch offers."""
    return Fault(name=name, command=append(code), tier=Tier.COLLECTIVE, red=frozenset({f"collective.{red}"}))


TRIVIAL = "def DistributedOptimizer(optimizer, **k): return optimizer"
UPHILL = """_wrap = DistributedOptimizer
def DistributedOptimizer(optimizer, **k):
    for group in optimizer.param_groups: group["maximize"] = True
    return _wrap(optimizer, **k)"""
ALL_ALONE = r"#!/bin/sh\nshift 2\n\"$@\" & \"$@\" & wait\n"
"""mpirun that starts two processes which know nothing of each other, as srun does without PMI."""
OF_ONE_USER = r'#!/bin/sh\n[ $(id -u) = 1000 ] || exit 3\nexec /usr/bin/mpirun.openmpi "$@"\n'
OTHER_NCCL = 'import ctypes\nctypes.CDLL("/usr/local/lib/libnccl.so.2")'

FAULTS = (
    python("wrong-sum", "_sum = allreduce\ndef allreduce(*a, **k): return _sum(*a, **k) + 1", "allreduce"),
    python("no-broadcast", "def broadcast(tensor, root_rank, **k): return tensor", "broadcast"),
    python(
        "other-order", "_all = allgather\ndef allgather(*a, **k): return _all(*a, **k).flip(0)", "allgather"
    ),
    python("gradients-stay-local", TRIVIAL, "training-agrees"),
    python("first-weights-stay-local", "def broadcast_parameters(*a, **k): pass", "training-agrees"),
    python("learning-uphill", UPHILL, "training-learns"),
    Fault(
        name="worlds-of-one",
        tier=Tier.COLLECTIVE,
        command=f"rm /usr/bin/mpirun; printf '{ALL_ALONE}' > /usr/bin/mpirun; chmod +x /usr/bin/mpirun",
        red=frozenset({"collective.world"}),
    ),
    Fault(
        name="mpirun-for-one-user",
        tier=Tier.COLLECTIVE,
        command=f"rm /usr/bin/mpirun; printf '{OF_ONE_USER}' > /usr/bin/mpirun; chmod +x /usr/bin/mpirun",
        red=frozenset({"collective.any-user"}),
    ),
    Fault(
        name="second-nccl",
        tier=Tier.LINK,
        command=f"cp {SITE}/nvidia/nccl/lib/libnccl.so.2 /usr/local/lib/; {append(OTHER_NCCL)}",
        red=frozenset({"link.one-nccl"}),
    ),
    Fault(
        name=SERVERS,
        tier=Tier.BUILT,
        command=f"cd {SITE}/horovod && rm -r runner && cp -r {RELEASED} runner",
        red=frozenset(rule.id for rule in attack.RULES) - {"built.served"},
    ),
)


def asked(tier: Tier) -> set[Tier]:
    """With the imports, where a check compares with what was imported."""
    return {tier, Tier.LINK} if tier is Tier.BUILT else {tier}


@pytest.fixture(scope="module")
def released(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    packed = source.archive(runner, load_series(ROOT / "patches" / "horovod"))
    return source.unpack(packed, tmp_path_factory.mktemp("horovod")) / "horovod" / "runner"


@pytest.fixture
def faulty(fault: Fault, image: str, docker: Docker, runner: Runner, released: Path) -> Iterator[str]:
    name = f"stackwright/faults-real:{fault.name}"
    mount = f"--mount=type=bind,from=released,target={RELEASED}"
    dockerfile = f"FROM {image}\nUSER root\nRUN {mount} {fault.command}\nUSER train\n"
    how = ("--network=none", f"--build-context=released={released}", "--load")
    argv = docker.build(*how, "--tag", name, "-")
    done = runner(argv, stdin=dockerfile, timeout=300)
    assert done.ok, done.stderr
    yield name
    runner(docker.command("image", "rm", "--force", name))


@pytest.mark.parametrize("tier", [Tier.LINK, Tier.BUILT, Tier.COLLECTIVE])
def test_the_image_itself_is_green(
    tier: Tier, image: str, row: project.Planned, docker: Docker, tmp_path: Path
) -> None:
    verdict = judge(docker, row.stack, image, asked(tier), tmp_path / "facts")
    assert [(check.id, check.detail) for check in verdict.failed] == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_fault_is_found_by_its_check(
    fault: Fault, faulty: str, row: project.Planned, docker: Docker, tmp_path: Path
) -> None:
    verdict = judge(docker, row.stack, faulty, asked(fault.tier), tmp_path / "facts")
    failed = {check.id: check.detail for check in verdict.failed}
    assert set(failed) == fault.red, failed


@pytest.mark.nightly
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.name == SERVERS], ids=[SERVERS])
def test_the_released_servers_are_found_in_the_sif(
    fault: Fault, faulty: str, row: project.Planned, docker: Docker, runner: Runner, tmp_path: Path
) -> None:
    """Nightly, since the conversion takes a minute and 4 GB."""
    apptainer = apptainers.find(runner, docker, mirror=settings.apt_mirror(runner))
    sif = tmp_path / "released.sif"
    convert.to_sif(faulty, sif, docker=docker, runner=runner, apptainer=apptainer, image_bytes=7 * 10**9)
    verdict = judge_sif(runner, docker, row.stack, sif, asked(fault.tier), tmp_path / "facts")
    failed = {check.id: check.detail for check in verdict.failed}
    assert set(failed) == fault.red, failed
