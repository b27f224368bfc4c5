"""Who may log in: the content of the files that name users and groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stackwright.core.ledger.entry import Tree

MASTERS = "/usr/share/base-passwd/{}.master"
"""The users and groups that each system has, as the package base-passwd has them."""

SYSTEM = frozenset({
    "_apt", "sshd", "messagebus", "systemd-network", "systemd-resolve", "systemd-timesync", "systemd-journal",
    "systemd-coredump", "systemd-oom", "_ssh", "ssh", "rdma", "netdev", "render", "kvm", "input", "sgx",
})  # fmt: skip
"""Users and groups that packages of a row add: none of them can log in."""

USER = "train"
SHELLS = frozenset({"/usr/sbin/nologin", "/sbin/nologin", "/bin/false", "/usr/bin/false", "/bin/sync"})
LOCKED = frozenset({"*", "!", "!*", "!!", "x", ""})
FIELDS = {"passwd": 7, "group": 4, "shadow": 9, "gshadow": 4}


def problems(tree: Tree) -> Iterator[tuple[str, str]]:
    """Path and what is wrong."""
    for name, width in FIELDS.items():
        for path in (f"/etc/{name}", f"/etc/{name}-"):
            for line in tree.texts.get(path, "").splitlines():
                fields = line.split(":")
                if len(fields) != width:
                    yield path, f"has a line of {len(fields)} fields"
                else:
                    yield from ((path, what) for what in _JUDGES[name](fields, _master(tree, name)))


def _master(tree: Tree, name: str) -> Mapping[str, list[str]]:
    text = tree.texts.get(MASTERS.format("group" if "g" in name else "passwd"), "")
    return {line.partition(":")[0]: line.split(":") for line in text.splitlines()}


def _known(name: str, master: Mapping[str, list[str]]) -> Iterator[str]:
    if name not in master and name not in SYSTEM and name != USER:
        yield f"has {name!r}, whom no package and no step of Stackwright adds"


def _user(fields: list[str], master: Mapping[str, list[str]]) -> Iterator[str]:
    name, password, uid, gid, _, home, shell = fields
    yield from _known(name, master)
    if password not in ("x", "*"):
        yield f"has a password of {name!r}" if password else f"lets {name!r} in without a password"
    if (uid == "0") != (name == "root"):
        yield f"has {name!r} with the user id {uid}"
    wanted = (master.get(name) or [""] * 7)[2]
    if wanted and wanted != uid:
        yield f"has {name!r} with the user id {uid}, which the distribution gives {wanted}"
    if name == USER and (uid, gid, home, shell) != ("1000", "1000", f"/home/{USER}", "/bin/bash"):
        yield f"has {USER!r} as {uid}:{gid} with {home} and {shell}"
    if name not in ("root", USER) and shell not in SHELLS:
        yield f"lets {name!r} log in with {shell}"


def _group(fields: list[str], master: Mapping[str, list[str]]) -> Iterator[str]:
    name, password, gid, members = fields
    yield from _known(name, master)
    if password not in LOCKED:
        yield f"has a password of the group {name!r}"
    if members:
        yield f"has {members} in the group {name!r}"
    if (gid == "0") != (name == "root"):
        yield f"has the group {name!r} with the id {gid}"


def _secret(fields: list[str], master: Mapping[str, list[str]]) -> Iterator[str]:
    name, password = fields[:2]
    if password == "":
        yield f"lets {name!r} in without a password"
    elif password not in LOCKED:
        yield f"has a password of {name!r}"


def _group_secret(fields: list[str], master: Mapping[str, list[str]]) -> Iterator[str]:
    name, password, administrators, members = fields
    if password not in LOCKED:
        yield f"has a password of the group {name!r}"
    if administrators or members:
        yield f"has members of the group {name!r}"


_JUDGES = {"passwd": _user, "group": _group, "shadow": _secret, "gshadow": _group_secret}
