"""A file that is written as a whole: a reader sees the old one or the new one, never a part."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from stackwright.core.errors import RecordError


def publish(content: bytes, target: Path, *, exclusive: bool = False) -> Path:
    """Write beside the target, flush to the disk, then give it its name in one step.

    RecordError where it cannot be written. ``exclusive``: FileExistsError where the name is taken.
    """
    draft = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with draft.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            # A rename replaces without asking; a link fails where the name is taken.
            os.link(draft, target) if exclusive else draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
        _sync(target.parent)
    except FileExistsError:
        raise
    except OSError as error:
        hint = "check that the folder can be written and that the disk is not full"
        raise RecordError(f"cannot be written: {error.strerror}", place=str(target), hint=hint) from error
    return target


def _sync(folder: Path) -> None:
    """A new name is safe from a power cut only when its folder is on the disk too."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
