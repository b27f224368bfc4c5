"""Files that several processes use: replaced as a whole, held by one at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from stackwright.core.errors import RecordError


@contextlib.contextmanager
def draft_of(path: Path, *, exclusive: bool = False) -> Iterator[Path]:
    """Yield a hidden path in the same folder; what is written there replaces ``path`` in one step.

    A reader sees the old file or the new one, never a part. Nothing is left where the block fails.
    ``exclusive``: FileExistsError where the name is taken.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        yield draft
        # A rename replaces without asking; a link fails where the name is taken.
        os.link(draft, path) if exclusive else draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def replace_file(path: Path, content: bytes) -> Path:
    """Replace a file as a whole."""
    with draft_of(path) as draft:
        draft.write_bytes(content)
    return path


def replace_durably(path: Path, content: bytes, *, exclusive: bool = False) -> Path:
    """Replace a file as a whole, and flush it to the disk. RecordError where it cannot be written.

    ``exclusive``: FileExistsError where the name is taken.
    """
    try:
        with draft_of(path, exclusive=exclusive) as draft, draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _flush_folder(path.parent)
    except OSError as error:
        if exclusive and isinstance(error, FileExistsError) and path.exists():
            raise
        hint = "check that the folder can be written and that the disk is not full"
        raise RecordError(f"cannot be written: {error.strerror}", place=str(path), hint=hint) from error
    return path


def _flush_folder(folder: Path) -> None:
    """A new name is safe from a power cut only when its folder is on the disk too."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def held(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold a lock on the file. The kernel frees it when the process dies, however it dies."""
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
