"""What ``--cluster`` names: a scheduler that runs, Slurm, or hosts reached by SSH. Reads one file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from stackwright.core.errors import UsageError

HINT = "give tcp://HOST:PORT or tls://HOST:PORT of a scheduler, slurm, or ssh:FILE"

_SCHEDULER = re.compile(r"(?P<protocol>tcp|tls)://([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}", re.ASCII)
_HOST = re.compile(
    r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.:-]*)(\s+gpus=(?P<gpus>[0-9]{1,2}))?\s*(#.*)?", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """``name`` is what ssh takes: its configuration says more, such as the user and the port."""

    name: str
    gpus: int = 0


class Kind(StrEnum):
    """A scheduler of Dask that runs, or what starts one: jobs of Slurm, or workers over SSH."""

    SCHEDULER = "scheduler"
    SLURM = "slurm"
    SSH = "ssh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """``scheduler`` is empty and ``hosts`` are none where they do not belong to the ``kind``."""

    kind: Kind
    scheduler: str = ""
    hosts: tuple[Host, ...] = ()


def address(text: str) -> Address:
    """Raise UsageError for what is none of them, and for a file of hosts that is not one."""
    if text == "slurm":
        return Address(kind=Kind.SLURM)
    if text.startswith("ssh:"):
        return Address(kind=Kind.SSH, hosts=_hosts(Path(text.removeprefix("ssh:"))))
    if _SCHEDULER.fullmatch(text):
        return Address(kind=Kind.SCHEDULER, scheduler=text)
    raise UsageError(f"--cluster {text}: not the address of a cluster", hint=HINT)


def _hosts(path: Path) -> tuple[Host, ...]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(f"the hosts cannot be read: {cause}", place=str(path)) from error
    hosts = []
    for number, line in enumerate(lines, start=1):
        if not line.partition("#")[0].strip():
            continue
        match = _HOST.fullmatch(line)
        if not match:
            hint = "one host on a line, as ssh knows it, and gpus=N after it where it has some"
            raise UsageError(f"not a host: {line.strip()!r}", place=f"{path}:{number}", hint=hint)
        hosts.append(Host(name=match["name"], gpus=int(match["gpus"] or 0)))
    if not hosts:
        raise UsageError("no host is named", place=str(path))
    return tuple(hosts)
