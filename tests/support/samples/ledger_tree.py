"""A small image as the ledger reads it: two packages, two wheels, an environment, and what scripts make."""

from __future__ import annotations

import base64
import hashlib
import posixpath
from collections.abc import Mapping

from stackwright.core.ledger.account import Account, account
from stackwright.core.ledger.books import Row
from stackwright.core.ledger.entry import ELF, KEPT, Entry, Kind, Tree

SITE = "/opt/stack/lib/python3.13/site-packages"
INFO = "/var/lib/dpkg/info"
ROW = Row(gcc="13", files={"/usr/local/bin/sshd-as-user": hashlib.sha256(b"#!/bin/sh\n").hexdigest()})
PYC = f"{SITE}/torch/__pycache__/version.cpython-313.pyc"

OF_GCC = {"/usr/bin/gcc-13": b"gcc", "/usr/libexec/gcc/13/cc1plus": b"cc1plus", "/usr/bin/g++-13": b"g++"}
MASTERS = "/usr/share/base-passwd"
OF_LIBC = {
    "/usr/lib/libc.so.6": b"libc",
    "/etc/host.conf": b"multi on\n",
    "/usr/share/libc-bin/nsswitch.conf": b"x",
    f"{MASTERS}/passwd.master": b"root:*:0:0:root:/root:/bin/bash\n",
    f"{MASTERS}/group.master": b"root:*:0:\nshadow:*:42:\n",
}
OF_TORCH = {
    "torch/__init__.py": b"import torch.version\n",
    "torch/version.py": b"cuda = 12.4\n",
    "nvidia/__init__.py": b"",
    "torch/_C.py": b"",
    "torch/nn.py": b"",
}
OF_NCCL = {"nvidia/nccl/lib/libnccl.so.2": b"nccl", "nvidia/__init__.py": b""}
STATUS = """\
Package: gcc-13
Status: install ok installed
Architecture: amd64
Depends: libc6 (>= 2.38), other | another

Package: libc6
Status: install ok installed
Architecture: amd64
Conffiles:
 /etc/host.conf {host}

Package: gone
Status: deinstall ok config-files
Architecture: amd64
"""
ALTERNATIVE = "auto\n/usr/bin/awk\n\n/usr/bin/gcc-13\n10\n\n"
PASSWD = (
    "root:x:0:0:root:/root:/bin/bash\ntrain:x:1000:1000::/home/train:/bin/bash\n"
    "sshd:x:100:65534::/run:/usr/sbin/nologin\n"
)


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def file(
    path: str, content: bytes, *, mode: int = 0o644, uid: int = 0, gid: int = 0, layer: str = "one"
) -> Entry:
    return Entry(
        path=path, kind=Kind.FILE, mode=mode, uid=uid, gid=gid, size=len(content), layer=layer,
        sha256=hashlib.sha256(content).hexdigest(), md5=md5(content),
        begin=content[:20] if path.endswith(".pyc") or content.startswith(ELF) else b"",
        source_hash=b"8 bytes!" if path.endswith(".py") else b"",
    )  # fmt: skip


def link(path: str, target: str) -> Entry:
    return Entry(path=path, kind=Kind.LINK, mode=0o777, uid=0, gid=0, target=target, layer="one")


def folder(path: str, *, mode: int = 0o755, uid: int = 0, gid: int = 0) -> Entry:
    return Entry(path=path, kind=Kind.FOLDER, mode=mode, uid=uid, gid=gid, layer="one")


def contents() -> dict[str, bytes]:
    """Path to content of all files."""
    found = {**OF_GCC, **OF_LIBC}
    found |= {f"{SITE}/{name}": content for wheel in (OF_TORCH, OF_NCCL) for name, content in wheel.items()}
    found |= {
        f"{SITE}/torch-2.6.0.dist-info/RECORD": record("torch-2.6.0", OF_TORCH),
        f"{SITE}/nccl-2.21.5.dist-info/RECORD": record("nccl-2.21.5", OF_NCCL),
        f"{INFO}/gcc-13.list": names({**OF_GCC, "/usr/bin/gcc": b""}),
        f"{INFO}/gcc-13.md5sums": sums(OF_GCC),
        f"{INFO}/libc6:amd64.list": names(OF_LIBC).replace(b"/usr/lib/", b"/lib/"),
        f"{INFO}/libc6:amd64.md5sums": sums(OF_LIBC, but="/etc/").replace(b"usr/lib/", b"lib/"),
        "/var/lib/dpkg/status": STATUS.format(host=md5(OF_LIBC["/etc/host.conf"])).encode(),
        "/var/lib/dpkg/alternatives/awk": ALTERNATIVE.encode(),
        "/etc/passwd": PASSWD.encode(),
        "/etc/group": b"root:x:0:\ntrain:x:1000:\nshadow:x:42:\n",
        "/etc/shadow": b"root:*:20000:0:99999:7:::\ntrain:!:20000:0:99999:7:::\n",
        "/etc/nsswitch.conf": b"x",
        "/etc/fstab": b"# UNCONFIGURED\n",
        "/etc/ld.so.conf.d/stackwright.conf": f"{SITE}/nvidia/nccl/lib\n".encode(),
        "/usr/local/bin/sshd-as-user": b"#!/bin/sh\n",
        PYC: b"MAGI\x03\x00\x00\x008 bytes!code",
    }  # fmt: skip
    return found


Changes = Mapping[str, Entry | None]


def tree(changed: Changes | None = None, texts: Mapping[str, bytes] | None = None) -> Tree:
    """``changed``: names to set, or to take away (None). ``texts``: other contents, with their digests."""
    files = {**contents(), **(texts or {})}
    entries = {path: file(path, content) for path, content in files.items()}
    entries["/etc/shadow"] = file("/etc/shadow", files["/etc/shadow"], mode=0o640, gid=42)
    others = (
        link("/lib", "usr/lib"), link("/usr/bin/gcc", "gcc-13"),
        link("/usr/bin/awk", "/etc/alternatives/awk"),
        link("/etc/alternatives/awk", "/usr/bin/gcc-13"), link("/usr/local/bin/cc", "gcc"),
        link("/usr/local/bin/gcc", "/usr/bin/gcc-13"), folder("/tmp", mode=0o1777),
        folder("/home/train", mode=0o1777, uid=1000, gid=1000), folder("/usr/bin"), folder("/opt/stack"),
    )  # fmt: skip
    entries |= {entry.path: entry for entry in others}
    for path, entry in (changed or {}).items():
        entries.pop(path, None)
        if entry is not None:
            entries[path] = entry
    for path in list(entries):
        while (path := posixpath.dirname(path)) != "/":
            entries.setdefault(path, folder(path))
    kept = [path for path in files if KEPT.fullmatch(path) and path in entries]
    return Tree(entries=entries, texts={path: files[path].decode() for path in kept})


def judged(
    changed: Mapping[str, Entry | None] | None = None,
    texts: Mapping[str, bytes] | None = None,
    row: Row = ROW,
) -> Account:
    return account(tree(changed, texts), row)


def record(wheel: str, files: Mapping[str, bytes]) -> bytes:
    lines = [f"{name},sha256={digest(content)},{len(content)}" for name, content in files.items()]
    return "\n".join([*lines, f"{wheel}.dist-info/RECORD,,", ""]).encode()


def digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def names(files: Mapping[str, bytes]) -> bytes:
    return "".join(f"{path}\n" for path in ("/.", "/usr", "/home", "/tmp", *files)).encode()


def sums(files: Mapping[str, bytes], but: str = "none") -> bytes:
    lines = (f"{md5(content)}  {path[1:]}\n" for path, content in files.items() if not path.startswith(but))
    return "".join(lines).encode()
