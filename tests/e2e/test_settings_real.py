"""Faults of settings, programs and libraries, planted in the real image: each is one failure.

Faults that do not touch each other share an image. What is compared is what fails beyond the untouched image,
of which another test asks that nothing fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from real_image import judge

from stackwright.core.model.row import Outcome, Tier
from stackwright.engines.docker import Docker
from stackwright.host import project
from stackwright.host.runner import Runner

SITE = "/opt/stack/lib/python3*/site-packages"
MULTIARCH = "/usr/lib/x86_64-linux-gnu"
SECRET = "Vq8tGm2x-hunter2"
S, L, B, C = Tier.STATIC, Tier.LINK, Tier.BUILT, Tier.COLLECTIVE
FOREIGN = "-shared -fPIC -x c /dev/null -o /usr/local/lib"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """``red``: each check that fails, with a part of what it says."""

    name: str
    lines: tuple[str, ...]
    tiers: frozenset[Tier]
    red: Mapping[str, str]


FAULTS = (
    Fault(
        name="settings",
        tiers=frozenset({S}),
        lines=(
            "ENV NCCL_P2P_DISABLE=1 HOROVOD_CYCLE_TIME=99 OMPI_MCA_btl=tcp UCX_TLS=tcp RANK=0 WORLD_SIZE=1",
            "ENV CUDA_VISIBLE_DEVICES=none NVIDIA_VISIBLE_DEVICES=void NVIDIA_REQUIRE_CUDA=cuda>=9.0",
            f"ENV DB_PASSWORD={SECRET}", f"ARG REGISTRY_TOKEN={SECRET}", "RUN true",
            "ONBUILD RUN true", "VOLUME /data", "EXPOSE 22", "STOPSIGNAL SIGKILL", "WORKDIR /tmp",
            'ENTRYPOINT ["/usr/bin/env"]', "ENV NCCL_DEBUG=INFO", "ENV NCCL_DEBUG=WARN",
        ),
        red={
            "static.environment": "the image sets NCCL_P2P_DISABLE", "static.credentials": "Env/DB_PASSWORD",
            "static.settings": "StopSignal is SIGKILL", "static.workdir": "'/tmp'",
            "static.entrypoint": "the entry point is /usr/bin/env", "static.history": "sets NCCL_DEBUG",
        },
    ),
    Fault(
        name="programs",
        tiers=frozenset({S}),
        lines=(
            "USER root",
            "RUN rm /usr/libexec/gcc/*/*/cc1plus /etc/libibverbs.d/mlx5.driver"
            " && echo NoSuchOption yes > /etc/ssh/ssh_config.d/site.conf && truncate --size 0 /usr/bin/tini",
            "USER train",
        ),
        red={
            "static.compiler": "cc1plus", "static.rdma": "libmlx5-rdmav", "static.ssh": "ssh refuses",
            "static.init": "starts no program",
        },
    ),
    Fault(
        name="no-libmpi",
        tiers=frozenset({L, B, C}),
        lines=("USER root", f"RUN rm {MULTIARCH}/libmpi.so.40*", "USER train"),
        red={"link.unresolved": "libmpi.so.40"},
    ),
    Fault(
        name="no-extension",
        tiers=frozenset({L, B, C}),
        lines=("USER root", f"RUN rm {SITE}/horovod/torch/mpi_lib_v2*", "USER train"),
        red={"link.import": "its extension does not load"},
    ),
    Fault(
        name="changed-libraries",
        tiers=frozenset({L, B}),
        lines=(
            "USER root",
            f"RUN cp -L {MULTIARCH}/libmpi.so.40 /usr/local/lib/ && ldconfig"
            f" && echo more >> $(echo {SITE}/nvidia/nccl/lib/libnccl.so.2)"
            f" && cp $(echo {SITE}/nvidia/cuda_runtime/lib/libcudart.so.12) /usr/local/lib/"
            " && echo /usr/local/lib/libcudart.so.12 > /etc/ld.so.preload",
            "USER train",
        ),
        red={
            "link.mpi": "/usr/local/lib/libmpi.so.40, which is not mpirun's",
            "declared.nccl": "is not as nvidia-nccl-cu12",
            "declared.cuda-runtime": "/usr/local/lib/libcudart.so.12, which no wheel brought",
        },
    ),
    Fault(
        name="second-horovod",
        tiers=frozenset({L}),
        lines=(
            "USER root",
            f"RUN mkdir /srv/more && cp -r {SITE}/horovod /srv/more/"
            f" && echo 'import sys; sys.path.insert(0, \"/srv/more\")' > $(echo {SITE})/more.pth",
            "USER train",
        ),
        red={"link.origin": "horovod.torch is imported from /srv/more/horovod"},
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def untouched(
    image: str, row: project.Planned, docker: Docker, tmp_path_factory: pytest.TempPathFactory
) -> frozenset[str]:
    """Return the checks that do not pass in the image as it is: this test does not gather their facts."""
    folder = tmp_path_factory.mktemp("untouched") / "facts"
    verdict = judge(docker, row.stack, image, {S, L, B}, folder)
    asked = (check for check in verdict.checks if check.tier in {S, L, B})
    return frozenset(check.id for check in asked if check.outcome is not Outcome.PASSED)


@pytest.fixture
def planted(fault: Fault, image: str, docker: Docker, runner: Runner) -> Iterator[str]:
    name = f"stackwright/settings-real:{fault.name}"
    dockerfile = "\n".join((f"FROM {image}", *fault.lines, ""))
    done = runner(docker.build("--network=none", "--load", "--tag", name, "-"), stdin=dockerfile, timeout=300)
    assert done.ok, done.stderr
    yield name
    runner(docker.command("image", "rm", "--force", name))


def test_the_image_itself_is_green(untouched: frozenset[str]) -> None:
    assert {check for check in untouched if not check.startswith("ledger.")} == {"static.site-layers"}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_is_one_failure(
    fault: Fault,
    planted: str,
    untouched: frozenset[str],
    row: project.Planned,
    docker: Docker,
    tmp_path: Path,
) -> None:
    verdict = judge(docker, row.stack, planted, fault.tiers, tmp_path / "facts")
    failed = {check.id: check.detail for check in verdict.failed if check.id not in untouched}
    assert set(failed) == set(fault.red), failed
    for name, says in fault.red.items():
        assert says in failed[name]
    asked = [check for check in verdict.checks if check.tier in fault.tiers]
    waiting = {check.id: check.detail for check in asked if check.outcome is Outcome.NOT_RUN}
    assert all(why.startswith("not asked, because") for name, why in waiting.items() if name not in untouched)
    facts = "".join(path.read_text() for path in (tmp_path / "facts").iterdir())
    assert SECRET not in facts + repr(verdict)
