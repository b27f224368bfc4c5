"""What an engine without root lacks on a host, and the next step for each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stackwright.engines import rootless
from stackwright.engines.rootless import Host, Way, lacking

PROGRAMS = frozenset({
    "podman", "docker", "buildah", "dockerd-rootless.sh", "rootlesskit", "newuidmap", "newgidmap", "pasta",
    "slirp4netns", "fuse-overlayfs",
})  # fmt: skip
WHOLE = Host(user="ada", programs=PROGRAMS, ids=(65536, 65536), kernel=(6, 1))
SYSCTL = {
    "user/max_user_namespaces": "96365\n", "kernel/osrelease": "6.1.0-40-amd64\n",
    "kernel/unprivileged_userns_clone": "1\n", "kernel/apparmor_restrict_unprivileged_userns": "0\n",
}  # fmt: skip
MOUNTS = """\
25 1 253:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
29 25 0:25 / /proc rw,nosuid shared:12 - proc proc rw
310 25 0:52 / /home rw,relatime shared:160 - nfs4 storage:/home rw,vers=4.2
"""


@pytest.mark.parametrize("way", list(Way))
def test_a_whole_host_lacks_nothing(way: Way) -> None:
    assert lacking(WHOLE, way) == ()
    assert rootless.installed(WHOLE, way)


@pytest.mark.parametrize(
    ("change", "what", "todo", "ways"),
    [
        ({"programs": PROGRAMS - {"podman"}}, "no podman", "engine.sh --rootless", {Way.PODMAN}),
        ({"programs": PROGRAMS - {"rootlesskit"}}, "no rootlesskit", "engine.sh", {Way.DOCKER}),
        ({"programs": PROGRAMS - {"buildah"}}, "no buildah", "engine.sh", {Way.BUILDAH}),
        ({"programs": PROGRAMS - {"newuidmap"}}, "no newuidmap", "install uidmap", set(Way)),
        ({"ids": (65536, 0)}, "65536 ids in /etc/subgid", "usermod --add-subuids", set(Way)),
        ({"ids": (1000, 1000)}, "/etc/subuid and /etc/subgid", "ada, then: podman", set(Way)),
        (
            {"namespaces": "user.max_user_namespaces is 0"}, "can make no namespaces",
            "sysctl user.max_user_namespaces=30000", set(Way),
        ),
        (
            {"namespaces": "kernel.apparmor_restrict_unprivileged_userns is 1"}, "apparmor",
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0", set(Way),
        ),
        (
            {"namespaces": "kernel.unprivileged_userns_clone is 0"}, "unprivileged_userns_clone",
            "sysctl kernel.unprivileged_userns_clone=1", set(Way),
        ),
        ({"tun": False}, "/dev/net/tun", "chmod 666 /dev/net/tun", {Way.PODMAN, Way.DOCKER}),
        (
            {"programs": PROGRAMS - {"pasta", "slirp4netns"}}, "no pasta and no slirp4netns", "engine.sh",
            {Way.PODMAN, Way.DOCKER},
        ),
        ({"storage": "nfs4"}, "nfs4", "graphroot", set(Way)),
        (
            {"kernel": (5, 10), "programs": PROGRAMS - {"fuse-overlayfs"}}, "driver vfs",
            "install fuse-overlayfs", set(Way),
        ),
        ({"kernel": (5, 10), "fuse": False}, "", "chmod 666 /dev/fuse", set(Way)),
        ({"fuse": False}, "no SIF can be started", "chmod 666 /dev/fuse", {Way.PODMAN, Way.DOCKER}),
        ({"cgroups": 1}, "cgroups v1", "unified_cgroup_hierarchy", {Way.PODMAN, Way.DOCKER}),
    ],
)  # fmt: skip
def test_what_is_missing_is_told_with_the_next_step(
    change: dict[str, Any], what: str, todo: str, ways: set[Way]
) -> None:
    host = replace(WHOLE, **change)
    for way in Way:
        found = lacking(host, way)
        assert bool(found) == (way in ways), way
        for lack in found:
            assert what in lack.what and todo in lack.todo


def test_what_stops_it_is_told_first() -> None:
    found = lacking(replace(WHOLE, cgroups=1, ids=(0, 0)), Way.PODMAN)
    assert [lack.stops for lack in found] == [True, False]


def test_a_host_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in SYSCTL.items():
        _write(tmp_path / "proc/sys" / name, text)
    _write(tmp_path / "proc/self/mountinfo", MOUNTS)
    _write(tmp_path / "etc/subuid", "grace:100000:65536\nada:165536:65536\n")
    _write(tmp_path / "etc/subgid", "ada:165536:65536\nbroken\nada:x:y\n")
    program = tmp_path / "bin" / "podman"
    _write(program, "")
    program.chmod(0o755)
    monkeypatch.setenv("LOGNAME", "ada")
    host = rootless.look({"PATH": str(tmp_path / "bin"), "HOME": "/home/ada"}, tmp_path)
    assert (host.user, host.ids, host.kernel, host.namespaces) == ("ada", (65536, 65536), (6, 1), "")
    assert (host.storage, host.cgroups, host.tun) == ("nfs4", 1, False)
    assert "podman" in host.programs and "buildah" not in host.programs


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("user.max_user_namespaces", "0"), ("kernel.unprivileged_userns_clone", "0"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1"),
    ],
)  # fmt: skip
def test_a_setting_that_forbids_namespaces_is_named(tmp_path: Path, name: str, value: str) -> None:
    for file, text in SYSCTL.items():
        _write(tmp_path / "proc/sys" / file, text)
    _write(tmp_path / "proc/sys" / name.replace(".", "/"), f"{value}\n")
    assert rootless.look({"HOME": "/"}, tmp_path).namespaces == f"{name} is {value}"


def test_an_empty_host_is_read_as_one_that_has_nothing(tmp_path: Path) -> None:
    host = rootless.look({"PATH": str(tmp_path)}, tmp_path)
    assert (host.ids, host.kernel, host.storage) == ((0, 0), (0, 0), "")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
