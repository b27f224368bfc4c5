"""Programs of another architecture on this host: whether the kernel hands them to an emulator."""

from __future__ import annotations

import platform
import re
from pathlib import Path

from stackwright.core.errors import SiteError
from stackwright.core.model.target import PLATFORMS, Platform
from stackwright.host.runner import Runner

HANDLERS = Path("/proc/sys/fs/binfmt_misc")
"""Which program the kernel starts for files that it cannot run itself (binfmt_misc)."""
SCRIPT = "scripts/emulation.sh"

OLDEST = 8
"""Of QEMU: 7.2 ends with a segmentation fault when PyTorch 2.15 is imported, and 10.0 does not. Those between
were not tried, and are taken."""

VERSION = re.compile(r"qemu-\w+ version ([0-9]{1,4})\.")


def is_native(target: Platform) -> bool:
    """Tell whether this host's own CPU runs programs of the platform."""
    return platform.machine() == target.machine


def emulator(target: Platform, handlers: Path = HANDLERS) -> str:
    """Return the program that the kernel starts for programs of the platform, or nothing.

    It must be open already (flag F), or a container, which does not have its file, cannot start it.
    """
    for path in sorted(handlers.glob("*")) if handlers.is_dir() else ():
        try:
            text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        except OSError:  # the file that takes new handlers can only be written
            continue
        if _starts(text, target):
            named = re.search(r"^interpreter (\S+)$", text, re.MULTILINE)
            return named[1] if named else path.name
    return ""


def _starts(text: str, target: Platform) -> bool:
    """A handler's file says enabled, interpreter, flags, and the head of the files that it is for."""
    flags = re.findall(r"^flags: (\w*)$", text, re.MULTILINE)
    magic = re.findall(r"^magic ([0-9a-f]+)$", text, re.MULTILINE)
    if not text.startswith("enabled\n") or not flags or "F" not in flags[0] or not magic:
        return False
    head = bytes.fromhex(magic[0]) if len(magic[0]) % 2 == 0 else b""
    return head[:4] == b"\x7fELF" and head[18:20] == target.elf.to_bytes(2, "little")


def is_old(program: str) -> bool:
    """Tell whether an emulator says that it is too old; one that says nothing is taken."""
    path = Path(program).resolve()  # by its other name it takes what follows for a program to start
    said = Runner()([path, "--version"], timeout=10).stdout if path.is_file() else ""
    found = VERSION.match(said)
    return found is not None and int(found[1]) < OLDEST


def words(target: Platform) -> tuple[str, ...]:
    """Return the words of a build for another platform than the host's."""
    return () if is_native(target) else ("--platform", target.name)


def how(target: Platform, handlers: Path = HANDLERS) -> str:
    """Return how this host runs programs of the platform: "" where its own CPU does, or by what.

    SiteError where it does not.
    """
    if is_native(target):
        return ""
    found = emulator(target, handlers)
    if found and is_old(found):
        cause = f"the emulator for {target.name} is older than QEMU {OLDEST}, and crashes in some programs"
        raise SiteError(cause, place=found, hint=f"{SCRIPT} installs a later one")
    if found:
        return f"by {Path(found).resolve().name} on {platform.machine()}"
    others = ", ".join(each.name for each in PLATFORMS.values() if is_native(each)) or platform.machine()
    raise SiteError(
        f"this host runs programs for {others}, and has no emulator for {target.name}",
        hint=f"{SCRIPT} installs one, or build the row on a host of {target.title}",
    )
