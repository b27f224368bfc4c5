"""Faults for the ledger in the real image: all in one image, which is read once, and in its SIF (-m long).

Which image: see tests/engine/real_image.py. Nothing of it is started.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from stackwright.build.sif import convert
from stackwright.engines import apptainer as apptainers
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host import project
from stackwright.host.runner import Runner
from stackwright.host.site import settings
from stackwright.probe.outside import read
from stackwright.probe.outside.documents import Documents

pytestmark = pytest.mark.engine
SITE = "/opt/stack/lib/python3*/site-packages"
PLANTED = (
    ("wheels", "torch/nn/functional.py", f"echo '# x' >> $(ls -d {SITE})/torch/nn/functional.py"),
    ("wheels", "torch/cuda/__init__.py", f"echo '# x' >> $(ls -d {SITE})/torch/cuda/__init__.py"),
    ("wheels", "torch/version.py", f"echo '# x' >> $(ls -d {SITE})/torch/version.py"),
    ("wheels", "horovod/torch/mpi_ops.py", f"echo '# x' >> $(ls -d {SITE})/horovod/torch/mpi_ops.py"),
    ("wheels", "nccl/lib/libnccl.so.2", f"printf x >> $(ls {SITE}/nvidia/nccl/lib/libnccl.so.2)"),
    ("wheels", "bin/ptxas", f"find {SITE} -name ptxas -delete"),
    ("wheels", "libcudnn_adv", f"rm {SITE}/nvidia/cudnn/lib/libcudnn_adv*"),
    ("byte-code", "serialization", "/opt/stack/bin/python -m compileall -qq -f --invalidation-mode "
     f"unchecked-hash {SITE}/torch/serialization.py"),
    ("packages", "/cc1plus", "rm /usr/lib*/gcc/*/*/cc1plus"),
    ("packages", "openmpi-mca-params.conf", "echo 'btl = self' >> /etc/openmpi/openmpi-mca-params.conf"),
    ("links", "/usr/local/bin/cc", "ln -sf /usr/bin/c99 /usr/local/bin/cc"),
    ("links", "/usr/bin/sh", "ln -sf mawk /usr/bin/sh"),
    ("undeclared", "/usr/bin/gcc", "ln -s /usr/bin/gcc-13 /usr/bin/gcc"),
    ("undeclared", "/home/train/.local", "mkdir -p /home/train/.local/lib && "
     f"cp -r {SITE}/horovod /home/train/.local/lib"),
    ("undeclared", "/sitecustomize.py", f"touch $(ls -d {SITE})/sitecustomize.py"),
    ("undeclared", "/x.pth", f"echo 'import os' > $(ls -d {SITE})/x.pth"),
    ("undeclared", "/etc/ld.so.preload", "echo /usr/lib/x.so > /etc/ld.so.preload"),
    ("undeclared", "/etc/nccl.conf", "echo NCCL_P2P_DISABLE=1 > /etc/nccl.conf"),
    ("undeclared", "/home/train/.openmpi", "mkdir /home/train/.openmpi"),
    ("undeclared", "/home/train/.ssh/authorized_keys", "mkdir -p /home/train/.ssh && "
     "echo x > /home/train/.ssh/authorized_keys"),
    ("undeclared", "/opt/cache/pip", "mkdir -p /opt/cache/pip && echo x > /opt/cache/pip/wheel"),
    ("modes", "/usr/local/bin/own", "cp /usr/bin/find /usr/local/bin/own && chmod 4755 /usr/local/bin/own"),
    ("modes", "/opt/stack", "chmod 777 /opt/stack"),
    ("accounts", "/etc/passwd", "echo 'toor:x:0:0::/root:/bin/bash' >> /etc/passwd"),
    ("declared", "/etc/ssh/sshd_config", "echo 'PermitRootLogin yes' >> /etc/ssh/sshd_config"),
    ("declared", "stackwright.conf", "echo /usr/local/lib > /etc/ld.so.conf.d/stackwright.conf"),
)  # fmt: skip
"""Kind of problem, the end or the begin of the path, and what root does."""

KEYS = ("/var/lib/notes", "/root/notes", "/usr/share/data.tgz")
WITH_A_KEY = (
    "RUN --mount=type=bind,source=key,target=/mnt/key cp /mnt/key /var/lib/notes && "
    "cp /mnt/key /root/notes && tar --create --gzip --file /usr/share/data.tgz /mnt/key\n"
)


@pytest.fixture(scope="module")
def planted(
    docker: Docker, runner: Runner, image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """One layer with all of them."""
    folder, name = tmp_path_factory.mktemp("planted"), "stackwright/faults-real:ledger"
    assert runner(["openssl", "genpkey", "-algorithm", "ed25519", "-out", folder / "key"]).ok
    commands = "".join(f"{command}\n" for _, _, command in PLANTED)
    (folder / "plant").write_text(f"set -e\n{commands}")
    text = f"FROM {image}\nUSER root\n{WITH_A_KEY}"
    text += "RUN --mount=type=bind,source=plant,target=/mnt/plant bash /mnt/plant\nUSER train\n"
    (folder / "Dockerfile").write_text(text)
    done = runner(docker.build("--network=none", "--tag", name, folder), timeout=600)
    assert done.ok, done.stderr
    yield name
    engine.remove(docker, name)


def unnamed(found: Documents) -> list[tuple[str, str]]:
    """What was planted and is no problem of its kind."""
    problems: Mapping[str, list[list[str]]] = found.ledger["problems"]
    return [
        (kind, path) for kind, path, _ in PLANTED
        if not any(path in problem[0] for problem in problems.get(kind, ()))
    ]  # fmt: skip


def test_the_image_itself_has_no_problem(
    docker: Docker, runner: Runner, row: project.Planned, image: str
) -> None:
    found = read.of_image(docker, image, settings.site(runner), read.row_of(row, "docker"))
    assert found.ledger["problems"] == {}
    assert found.ledger["credentials"] == []


def test_each_fault_is_named(docker: Docker, runner: Runner, row: project.Planned, planted: str) -> None:
    found = read.of_image(docker, planted, settings.site(runner), read.row_of(row, "docker"))
    assert unnamed(found) == []
    assert found.files is not None
    assert [key["path"] for key in found.files["private_keys"]] == sorted(KEYS)


@pytest.mark.long
def test_each_fault_is_named_in_its_sif(
    docker: Docker, runner: Runner, row: project.Planned, planted: str, tmp_path: Path
) -> None:
    sif = tmp_path / "planted.sif"
    apptainer = apptainers.find(runner, docker, mirror=settings.apt_mirror(runner))
    convert.to_sif(planted, sif, docker=docker, runner=runner, apptainer=apptainer, image_bytes=7 * 10**9)
    found = read.of_sif(
        sif, settings.site(runner), read.row_of(row, "sif"), docker=docker, runner=runner, image=None
    )
    assert unnamed(found) == []
    assert found.files is not None
    assert [key["path"] for key in found.files["private_keys"]] == sorted(KEYS)
