"""Engines without root: what each needs of a host, and what this one lacks. ``doctor`` prints it.

``look`` reads the host, changes nothing and starts nothing; ``lacking`` judges what was read.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from stackwright.engines.kinds import ROOTLESS

START = f'eval "$({ROOTLESS})"'
"""Brings one up, and lets programs of this shell find it."""

IDS = 65536
"""Subordinate ids of a user: fewer, and files of the image's higher users cannot be written."""

OVERLAY_SINCE = (5, 13)
"""The first kernel that lets a user mount an overlay on the usual file systems, SELinux included."""

REMOTE = frozenset({"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "afs", "panfs"})
"""File systems on which a user cannot own files of subordinate ids, or that have no attributes of users."""

DEBIAN_SCRIPTS = "/usr/share/docker.io/contrib"
"""Where Debian has dockerd-rootless.sh."""


class Way(StrEnum):
    """An engine without root, or none: ``buildah`` builds by itself."""

    PODMAN = "Podman"
    DOCKER = "Docker"
    BUILDAH = "buildah alone"


PROGRAMS: Mapping[Way, tuple[str, ...]] = {
    Way.PODMAN: ("podman", "docker"),
    Way.DOCKER: ("dockerd-rootless.sh", "rootlesskit"),
    Way.BUILDAH: ("buildah",),
}
"""What has to be installed for each."""

NETWORKS = ("pasta", "slirp4netns")
OTHERS = ("newuidmap", "newgidmap", "fuse-overlayfs", *NETWORKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What was read. ``ids``: of the user in /etc/subuid and in /etc/subgid. ``kernel``: 5.13 is (5, 13).

    ``namespaces`` is "" or why a user can make none; ``storage`` the file system of the user's images.
    """

    user: str
    programs: frozenset[str]
    ids: tuple[int, int]
    kernel: tuple[int, int]
    namespaces: str = ""
    tun: bool = True
    fuse: bool = True
    cgroups: int = 2
    storage: str = "ext4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """``stops``: nothing works without it. ``todo`` is the next step."""

    what: str
    todo: str
    stops: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """``ways`` need it; ``lack`` is None where the host has it."""

    ways: frozenset[Way]
    lack: Callable[[Host], Lack | None]


EVERY = frozenset(Way)
WITH_NETWORK = frozenset({Way.PODMAN, Way.DOCKER})


def lacking(host: Host, way: Way) -> tuple[Lack, ...]:
    """Return what is missing for this way, the worst first."""
    found = [_programs(host, way), *(need.lack(host) for need in NEEDS if way in need.ways)]
    return tuple(sorted(filter(None, found), key=lambda lack: not lack.stops))


def installed(host: Host, way: Way) -> bool:
    return not _absent(host, way)


def _absent(host: Host, way: Way) -> tuple[str, ...]:
    return tuple(name for name in PROGRAMS[way] if name not in host.programs)


def _programs(host: Host, way: Way) -> Lack | None:
    absent = _absent(host, way)
    return Lack(what=f"no {' and no '.join(absent)}", todo=ROOTLESS) if absent else None


def _maps(host: Host) -> Lack | None:
    absent = [name for name in ("newuidmap", "newgidmap") if name not in host.programs]
    return Lack(what=f"no {' and no '.join(absent)}", todo="install uidmap") if absent else None


def _ids(host: Host) -> Lack | None:
    names = ("/etc/subuid", "/etc/subgid")
    few = [name for name, count in zip(names, host.ids, strict=True) if count < IDS]
    if not few:
        return None
    ranges = "--add-subuids 100000-165535 --add-subgids 100000-165535"
    todo = f"as root: usermod {ranges} {host.user}, then: podman system migrate"
    return Lack(what=f"{host.user} has no {IDS} ids in {' and '.join(few)}", todo=todo)


def _namespaces(host: Host) -> Lack | None:
    if not host.namespaces:
        return None
    return Lack(what=f"users can make no namespaces: {host.namespaces}", todo=f"as root: {_allow(host)}")


def _allow(host: Host) -> str:
    name, _, value = host.namespaces.partition(" is ")
    return f"sysctl {name}={'0' if value == '1' else '1' if name.endswith('clone') else '30000'}"


def _network(host: Host) -> Lack | None:
    if not host.programs & {*NETWORKS}:
        return Lack(what=f"no {' and no '.join(NETWORKS)}: containers have no network", todo=ROOTLESS)
    if not host.tun:
        todo = "as root: modprobe tun; chmod 666 /dev/net/tun"
        return Lack(what="/dev/net/tun cannot be opened: containers have no network", todo=todo)
    return None


def _fuse(host: Host) -> Lack | None:
    if host.fuse:
        return None
    todo = "as root: modprobe fuse; chmod 666 /dev/fuse"
    return Lack(what="/dev/fuse cannot be opened: no SIF can be started", todo=todo, stops=False)


def _storage(host: Host) -> Lack | None:
    if host.storage in REMOTE:
        todo = "name a folder on a disk of this machine: graphroot in ~/.config/containers/storage.conf"
        return Lack(what=f"the images would be on {host.storage}, which has no ids of others", todo=todo)
    if host.kernel >= OVERLAY_SINCE or ("fuse-overlayfs" in host.programs and host.fuse):
        return None
    kernel = ".".join(map(str, host.kernel))
    what = f"kernel {kernel} has no overlay for users: every layer is a whole copy (driver vfs)"
    todo = (
        "install fuse-overlayfs" if "fuse-overlayfs" not in host.programs else "as root: chmod 666 /dev/fuse"
    )
    return Lack(what=what, todo=todo, stops=False)


def _cgroups(host: Host) -> Lack | None:
    if host.cgroups == 2:
        return None
    what = "cgroups v1: no limits of memory and processors can be set"
    return Lack(what=what, todo="boot with systemd.unified_cgroup_hierarchy=1, or go without", stops=False)


NEEDS = (
    _Need(ways=EVERY, lack=_maps),
    _Need(ways=EVERY, lack=_ids),
    _Need(ways=EVERY, lack=_namespaces),
    _Need(ways=WITH_NETWORK, lack=_network),
    _Need(ways=EVERY, lack=_storage),
    _Need(ways=WITH_NETWORK, lack=_fuse),
    _Need(ways=WITH_NETWORK, lack=_cgroups),
)


# -- the host --------------------------------------------------------------------------------------


def look(environ: Mapping[str, str], root: Path = Path("/")) -> Host:
    """Read the host whose files are below ``root``."""
    wanted = {name for names in PROGRAMS.values() for name in names} | {*OTHERS}
    path = os.pathsep.join((environ.get("PATH", os.defpath), DEBIAN_SCRIPTS))
    user = getpass.getuser()
    return Host(
        user=user,
        programs=frozenset(name for name in wanted if shutil.which(name, path=path)),
        ids=(_given(root / "etc/subuid", user), _given(root / "etc/subgid", user)),
        kernel=_kernel(_text(root / "proc/sys/kernel/osrelease")),
        namespaces=_forbidden(root / "proc/sys"),
        tun=os.access(root / "dev/net/tun", os.R_OK | os.W_OK),
        fuse=os.access(root / "dev/fuse", os.R_OK | os.W_OK),
        cgroups=2 if (root / "sys/fs/cgroup/cgroup.controllers").exists() else 1,
        storage=_file_system(_text(root / "proc/self/mountinfo"), Path(environ.get("HOME", "/"))),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _given(path: Path, user: str) -> int:
    """How many ids a file gives to a user, by name or by number: lines NAME:FIRST:COUNT."""
    names = (user, str(os.getuid()))
    lines = (line.strip().split(":") for line in _text(path).splitlines())
    return sum(int(line[2]) for line in lines if len(line) == 3 and line[0] in names and line[2].isdecimal())


def _kernel(release: str) -> tuple[int, int]:
    match = re.match(r"(\d{1,4})\.(\d{1,4})", release)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _forbidden(sysctl: Path) -> str:
    """Return the setting that forbids users to make namespaces, and its value."""
    wrong = {"user.max_user_namespaces": "0", "kernel.unprivileged_userns_clone": "0",
             "kernel.apparmor_restrict_unprivileged_userns": "1"}  # fmt: skip
    found = ((name, _text(sysctl / name.replace(".", "/")).strip(), value) for name, value in wrong.items())
    return next((f"{name} is {value}" for name, value, bad in found if value == bad), "")


def _file_system(mountinfo: str, folder: Path) -> str:
    """Return the type of the file system that a folder is on: the mount whose path is the longest."""
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        head, _, tail = line.partition(" - ")
        words, types = head.split(), tail.split()
        if len(words) > 4 and types and folder.is_relative_to(words[4]) and len(words[4]) >= best:
            best, kind = len(words[4]), types[0]
    return kind
