"""Files that several processes use: replaced as a whole, held by one at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path


def replace_file(path: Path, content: bytes) -> Path:
    """Write beside the target and give it its name in one step: a reader sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        draft.write_bytes(content)
        return draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextlib.contextmanager
def held(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Whoever holds the file is alone. The kernel frees it when its holder dies, however it dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def row_lock(folder: Path, say: Callable[[str], None]) -> contextlib.AbstractContextManager[None]:
    """One run at a time on a row."""
    return held(
        folder / ".lock", lambda: say(f"{folder.name}: another run works on this row; waiting for it")
    )  # fmt: skip
