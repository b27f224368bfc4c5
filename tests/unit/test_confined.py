"""A container without privileges: how it is known, what it lacks, and the next step for each."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from documents import blocks
from rows import ROOT

from stackwright.core.errors import EngineError
from stackwright.engines import docker as engine
from stackwright.engines.buildah import confined
from stackwright.engines.buildah.confined import Place, lacking
from stackwright.engines.docker import Docker, Job
from stackwright.host.runner import Completed

ROOT_CAN = 1 << 31 | 1 << 7 | 1 << 6
WHOLE = Place(root=True, capabilities=ROOT_CAN)
USER = Place(root=False, capabilities=1 << 7 | 1 << 6)
STATUS = "NoNewPrivs:\t{new}\nCapEff:\t{effective:016x}\nCapBnd:\t{bounding:016x}\n"
MOUNTS = """\
1490 1489 0:104 / /proc rw,nosuid - proc proc rw
1400 1490 0:104 /bus /proc/bus ro,nosuid - proc proc rw
1401 1490 0:105 / /proc/kcore rw - tmpfs tmpfs rw
1402 1490 0:35 / /proc/sys/fs/binfmt_misc rw - binfmt_misc binfmt_misc rw
1403 1490 0:35 / /processes rw - tmpfs tmpfs rw
"""


def answering(code: int) -> Any:
    def run(argv: list[str], **_: object) -> Completed:
        return Completed(argv=tuple(argv), returncode=code, stdout="", stderr="")

    return run


def host(folder: Path, *, effective: int, bounding: int, new: int = 0, mounts: str = "") -> Path:
    (folder / "proc/self").mkdir(parents=True)
    status = STATUS.format(new=new, effective=effective, bounding=bounding)
    (folder / "proc/self/status").write_text(status)
    (folder / "proc/self/mountinfo").write_text(mounts)
    return folder


def test_a_host_is_no_such_place(tmp_path: Path) -> None:
    every = 0x1FFFEFFFFFF
    assert confined.look(answering(0), {}, host(tmp_path, effective=0, bounding=every)) is None
    assert confined.look(answering(0), {}, tmp_path / "no proc") is None


@pytest.mark.parametrize("uid", [0, 1000])
def test_a_container_is_read(uid: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    root = host(tmp_path, effective=ROOT_CAN, bounding=0xA80425FB, new=1, mounts=MOUNTS)
    found = confined.look(answering(1), {"BUILDAH_ISOLATION": "chroot", "PATH": ""}, root)
    assert found == Place(
        root=uid == 0, capabilities=0xA80425FB if uid else ROOT_CAN, namespaces=False, new_privileges=False,
        mappers=False, hidden=("/proc/bus", "/proc/kcore"),
    )  # fmt: skip


def test_nothing_is_lacking_where_containers_start() -> None:
    assert lacking(WHOLE) == lacking(USER) == ()


@pytest.mark.parametrize(
    ("place", "change", "what", "todo"),
    [
        (WHOLE, {"namespaces": False}, "seccomp forbids user namespaces", "type: Unconfined"),
        (WHOLE, {"capabilities": 1 << 6}, "no capability SETUID, SETFCAP", "add: ['SETUID', 'SETFCAP']"),
        (USER, {"capabilities": 0}, "no capability SETUID, SETGID", "add: ['SETUID', 'SETGID']"),
        (USER, {"new_privileges": False}, "newuidmap gets no", "allowPrivilegeEscalation: true"),
        (USER, {"mappers": False}, "no capabilities of its own", "setcap cap_setuid=ep newuidmap"),
        (WHOLE, {"isolation": ""}, "no step of a build starts", "engine.sh --rootless"),
    ],
)
def test_what_stops_a_build_is_told_with_the_next_step(
    place: Place, change: dict[str, Any], what: str, todo: str
) -> None:
    (lack,) = lacking(replace(place, **change))
    assert what in lack.what and todo in lack.todo and lack.stops


def test_root_needs_neither_mappers_nor_new_privileges() -> None:
    assert lacking(replace(WHOLE, mappers=False, new_privileges=False)) == ()


def test_root_of_a_namespace_needs_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(getpass, "getuser", lambda: "root")
    root = host(tmp_path, effective=ROOT_CAN, bounding=ROOT_CAN)
    environ = {"BUILDAH_ISOLATION": "chroot"}
    for text, needed in ((f"0 0 {2**32 - 1}", False), ("0 300000 65536", True)):
        (root / "proc/self/uid_map").write_text(f"         {text}\n")
        found = confined.look(answering(0), environ, root)
        assert found and found.ids != needed
    assert found
    (lack,) = lacking(found)
    assert not lack.stops and "none starts" in lack.what and "root:1:65535" in lack.todo
    (root / "etc").mkdir()
    for name in ("subuid", "subgid"):
        (root / "etc" / name).write_text("root:1:65535\n")
    found = confined.look(answering(0), environ, root)
    assert found and lacking(found) == ()


def test_hidden_folders_stop_no_build() -> None:
    (lack,) = lacking(replace(WHOLE, hidden=("/proc/bus", "/proc/kcore")))
    assert not lack.stops and "no container starts" in lack.what and "procMount: Unmasked" in lack.todo


def test_the_document_asks_for_what_the_test_gives() -> None:
    """`make unprivileged` shows it with Docker's options of the same meaning."""
    (job,) = (
        block for block in blocks("", (ROOT / "docs/rootless.md").read_text()) if "kind: Job" in block.text
    )
    (container,) = yaml.safe_load(job.text)["spec"]["template"]["spec"]["containers"]
    asked = container["securityContext"]
    script = (ROOT / "tests/e2e/unprivileged.sh").read_text()
    (given,) = re.findall(r"local add=\((.*)\)", script)
    assert asked.pop("capabilities") == {"drop": ["ALL"], "add": given.split()}
    assert asked == {
        "runAsUser": 0, "allowPrivilegeEscalation": False, "seccompProfile": {"type": "Unconfined"},
    }  # fmt: skip
    assert all(f"--security-opt={word}" in script for word in ("seccomp=unconfined", "no-new-privileges"))


def test_podman_that_starts_nothing_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def started(docker: Docker, job: Job) -> Iterator[str]:
        raise EngineError("crun: mount `proc` to `proc`: Operation not permitted", place=job.image)
        yield ""

    monkeypatch.setattr(engine, "started", started)
    docker = Docker(
        program="docker", host="unix:///tmp/podman.sock", version="5.4.2", driver="vfs", root="/",
        builder="buildah",
    )  # fmt: skip
    with pytest.raises(EngineError, match=r"no container can be started here.*mount `proc`") as error:
        confined.require_start(docker, "stackwright/row:1")
    assert error.value.place == docker.host and "procMount: Unmasked" in error.value.hint
    assert error.value.exit_code == 6
    confined.require_start(replace(docker, builder=""), "stackwright/row:1")  # Docker is not asked
