"""A container without privileges, such as a job of Kubernetes: what Podman and its builder can do there.

``look`` asks the kernel and changes nothing; ``lacking`` judges what it said. docs/rootless.md has the
settings that were tried.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stackwright.core.errors import EngineError
from stackwright.engines import docker as engine
from stackwright.engines import rootless
from stackwright.engines.docker import Docker, Job
from stackwright.engines.rootless import START, Lack
from stackwright.host.runner import Runner

SETGID, SETUID, SYS_ADMIN, SETFCAP = 6, 7, 21, 31
"""Numbers of linux/capability.h."""

OF_ROOT = {"SETUID": SETUID, "SETGID": SETGID, "SETFCAP": SETFCAP}
"""What root needs to give a user namespace all ids."""

OF_USERS = {"SETUID": SETUID, "SETGID": SETGID}
"""What newuidmap and newgidmap need for the same."""

ISOLATION = "BUILDAH_ISOLATION"
MAPPERS = ("newuidmap", "newgidmap")
OWN = "in the image: chmod u-s and setcap cap_setuid=ep newuidmap, and so newgidmap with cap_setgid"
UNCONFINED = "seccompProfile: {type: Unconfined} (docker run --security-opt seccomp=unconfined)"
UNMASKED = "procMount: Unmasked (docker run --security-opt systempaths=unconfined)"
ELSEWHERE = "prove the image where an engine starts containers"
IN_NAMESPACE = "in the image: a line root:1:65535 in /etc/subuid and in /etc/subgid"
EVERY_ID = 2**32 - 1
EMPTY = "/proc/sys/fs/binfmt_misc"
"""A mount on a folder of its own hides nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """``capabilities`` are those that a process here can have at most, or, of root, has.

    ``mappers``: newuidmap and newgidmap have capabilities of their own. One that becomes root instead is of
    another user than the namespace, and may not change it. ``ids``: root has some to give to Podman's
    namespace, which takes all by itself only where this is none already.
    ``hidden`` are the covered folders of /proc. ``isolation`` is the builder's, from the environment.
    """

    root: bool
    capabilities: int
    namespaces: bool = True
    new_privileges: bool = True
    mappers: bool = True
    ids: bool = True
    hidden: tuple[str, ...] = ()
    isolation: str = "chroot"


def look(runner: Runner, environ: Mapping[str, str], root: Path = Path("/")) -> Place | None:
    """Return None where this is no such container: some process can have CAP_SYS_ADMIN."""
    status = _text(root / "proc/self/status")
    most = _number(status, "CapBnd")
    if most is None or most >> SYS_ADMIN & 1:
        return None
    as_root = os.geteuid() == 0
    return Place(
        root=as_root, capabilities=(_number(status, "CapEff") or 0) if as_root else most,
        namespaces=runner(["unshare", "--user", "true"], timeout=20).ok,
        new_privileges=_number(status, "NoNewPrivs") != 1,
        ids=_whole(root) or min(rootless.look(environ, root).ids) >= rootless.IDS - 1,
        mappers=all(_has_capabilities(shutil.which(name, path=environ.get("PATH"))) for name in MAPPERS),
        hidden=_hidden(_text(root / "proc/self/mountinfo")), isolation=environ.get(ISOLATION, ""),
    )  # fmt: skip


def lacking(place: Place) -> tuple[Lack, ...]:
    """Return what is missing here, the worst first."""
    wanted = OF_ROOT if place.root else OF_USERS
    absent = [name for name, number in wanted.items() if not place.capabilities >> number & 1]
    found: list[Lack] = []
    if not place.namespaces:
        found.append(Lack(what="seccomp forbids user namespaces", todo=UNCONFINED))
    if absent:
        found.append(Lack(what=f"no capability {', '.join(absent)}", todo=f"capabilities: {{add: {absent}}}"))
    if not place.root and not place.new_privileges:
        what = "newuidmap gets no privileges"
        found.append(Lack(what=what, todo="allowPrivilegeEscalation: true, or be root"))
    if not place.root and not place.mappers:
        found.append(Lack(what="newuidmap has no capabilities of its own", todo=OWN))
    if place.isolation != "chroot":
        found.append(Lack(what=f"{ISOLATION} is not chroot: no step of a build starts", todo=START))
    if place.root and not place.ids:
        what = "root has no ids for users of containers: none starts, rows are built and not proven"
        found.append(Lack(what=what, todo=IN_NAMESPACE, stops=False))
    if place.hidden:
        what = f"{', '.join(place.hidden[:2])} … hidden: no container starts, rows are built and not proven"
        found.append(Lack(what=what, todo=f"{UNMASKED}, or {ELSEWHERE}", stops=False))
    return tuple(found)


def require_start(docker: Docker, image: str) -> None:
    """Raise EngineError where Podman starts no container of the image: not each check is to say so."""
    if not docker.builder:
        return
    try:
        with engine.started(
            docker, Job(image=image, entrypoint=("sleep",), argv=("infinity",), network=False)
        ):
            pass
    except EngineError as error:
        cause = f"no container can be started here, so that nothing is proven: {error.cause}"
        raise EngineError(cause, place=docker.host, hint=f"{UNMASKED}, or {ELSEWHERE}") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _whole(root: Path) -> bool:
    """Whether this is the namespace of users that the host's processes are in."""
    words = _text(root / "proc/self/uid_map").split()
    return not words or words == ["0", "0", str(EVERY_ID)]


def _has_capabilities(program: str | None) -> bool:
    try:
        return bool(program and os.getxattr(program, "security.capability"))
    except OSError:
        return False


def _number(status: str, name: str) -> int | None:
    match = re.search(rf"^{name}:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return int(match[1], 16) if match else None


def _hidden(mountinfo: str) -> tuple[str, ...]:
    points = (words[4] for line in mountinfo.splitlines() if len(words := line.split()) > 4)
    return tuple(sorted(point for point in points if point.startswith("/proc/") and point != EMPTY))
