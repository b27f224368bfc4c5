"""Reserve disk space for a conversion, so that two conversions cannot use the same bytes.

A claim is a file in a folder that all conversions know, locked by its process as long as that lives: the
kernel frees the lock however a process dies. A claim without a lock is stale: the next process removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from stackwright.core.errors import DiskError
from stackwright.host.site import settings

AGAIN = 0.5
"""Seconds after which a conversion that waits looks again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """``bytes`` reserved for ``folder``, of which ``used`` are written already."""

    folder: Path
    bytes: int
    used: int = 0

    @property
    def rest(self) -> int:
        return max(0, self.bytes - self.used)


@contextlib.contextmanager
def claimed(
    folder: Path, need: int, *, what: str, ledger: Path | None, say: Callable[[str], None]
) -> Iterator[None]:
    """Keep ``need`` bytes for what will be written below ``folder``. Waits for others that may leave enough.

    DiskError where they are not free, and would not be if the others left nothing behind. ``ledger`` is where
    the claims lie; None where there are no others.
    """
    if ledger is None:
        _decide(folder.parent, need, (), what)
        say(_stated(what, need, folder))
        yield
        return
    (ledger / "claims").mkdir(parents=True, exist_ok=True)
    told = False
    with contextlib.ExitStack() as stack:
        while True:
            with _locked(ledger):
                if _decide(folder.parent, need, _others(ledger, folder), what):
                    stack.enter_context(_written(ledger, Claim(folder=folder, bytes=need)))
                    break
            if not told:
                say(f"{what} waits for the disk that others need: {_stated(what, need, folder)}")
            told = True
            time.sleep(AGAIN)
        say(_stated(what, need, folder))
        yield


def enough(free: int, need: int, others: tuple[Claim, ...]) -> bool | None:
    """Return whether to begin (True), to wait (False) or, as the others have too little as well, to fail
    (None)."""
    if free - sum(other.rest for other in others) >= need:
        return True
    return False if others and free + sum(other.used for other in others) >= need else None


def require(folder: Path, need: int, what: str) -> None:
    """Raise DiskError where fewer than ``need`` bytes are free."""
    _decide(folder, need, (), what)


def _decide(folder: Path, need: int, others: tuple[Claim, ...], what: str) -> bool:
    free = settings.free_disk(folder)
    answer = enough(free, need, others)
    if answer is None:
        raise DiskError(
            f"{what} needs {need / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free",
            place=str(folder),
            hint="./build.py clean shows what can go",
        )
    return answer


def _stated(what: str, need: int, folder: Path) -> str:
    return f"{what} needs up to {need / 1e9:.1f} GB; {settings.free_disk(folder) / 1e9:.1f} GB are free"


@contextlib.contextmanager
def _locked(ledger: Path) -> Iterator[None]:
    with (ledger / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _written(ledger: Path, claim: Claim) -> Iterator[None]:
    path = ledger / "claims" / f"{uuid4().hex}.json"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump({"folder": str(claim.folder), "bytes": claim.bytes}, file)
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _others(ledger: Path, folder: Path) -> tuple[Claim, ...]:
    """Return the claims of living processes on the same disk. Those of dead ones are removed."""
    found = []
    for path in (ledger / "claims").glob("*.json"):
        with contextlib.suppress(FileNotFoundError), path.open() as file:
            if _is_free(file.fileno()):
                path.unlink(missing_ok=True)
                continue
            said = json.load(file)
            of = Path(said["folder"])
            if settings.same_disk(of, folder):
                found.append(Claim(folder=of, bytes=int(said["bytes"]), used=settings.used_disk(of)))
    return tuple(found)


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
