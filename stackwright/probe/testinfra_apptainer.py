"""A testinfra backend for Apptainer: ``apptainer://image.sif``. It needs nothing of Stackwright.

``register`` is what testinfra itself would have as a line of ``testinfra.backend.BACKENDS``.
"""

from __future__ import annotations

import re
import shutil
import urllib.parse
from typing import Any

import testinfra.backend
from testinfra.backend import base

FAILED = {
    1: re.compile(rb'^(\x1b\[\d+m)?(ERROR  : |Error for command "exec": )', re.MULTILINE),
    255: re.compile(rb"^(\x1b\[\d+m)?FATAL: ", re.MULTILINE),
}
"""Apptainer's own exit codes where it could not start the program, which may be the program's as well, and
what it says on stderr then: its starter, its command line, and all else."""

NO_PROGRAM = (126, 127)
"""Of the shell that starts Apptainer, or of the one in the SIF."""


class ApptainerBackend(base.BaseBackend):  # type: ignore[misc]  # testinfra ships no types
    """Run commands in a SIF by ``apptainer exec``.

    ``apptainer://image.sif``; a path with folders is percent-encoded (``apptainer://%2Fdata%2Fimage.sif``),
    or given as it is: ``get_host(path, connection="apptainer")``. ``apptainer://root@image.sif`` is root by
    ``--fakeroot``; Apptainer can be no other user than the caller. ``exec_options`` are words as on a
    command line ("--containall --bind /data"); without --containall the caller's home, /tmp and environment
    replace those of the image. Apptainer itself reads its APPTAINER_* variables.
    """

    NAME = "apptainer"

    def __init__(
        self, name: str, *args: Any, program: str = "apptainer", exec_options: str = "", **kwargs: Any
    ) -> None:
        user = None
        if "/" not in name.partition("@")[0]:
            name, user = self.parse_containerspec(name)
        if user not in (None, "root"):
            raise ValueError(f"apptainer can run as the caller or as root, not as {user!r}")
        self.name = name if "/" in name else urllib.parse.unquote(name)
        self.program = program
        self.exec_options = f"{'--fakeroot ' if user else ''}{exec_options}".strip()
        super().__init__(self.name, *args, **kwargs)

    def run(self, command: str, *args: str, **kwargs: Any) -> base.CommandResult:
        """Raise RuntimeError where Apptainer failed itself: else a file that is no SIF would have no
        program."""
        cmd = self.get_command(command, *args)
        options = self.exec_options.replace("%", "%%")
        out = self.run_local(f"%s --quiet exec {options} %s /bin/sh -c %s", self.program, self._target(), cmd)
        out.command = self.encode(cmd)
        if self._failed(out):
            raise RuntimeError(out)
        return out

    def _failed(self, out: base.CommandResult) -> bool:
        if out.rc in NO_PROGRAM:
            return shutil.which(self.program) is None
        return out.rc in FAILED and FAILED[out.rc].search(out.stderr_bytes) is not None

    def _target(self) -> str:
        """A leading dash would be an option."""
        return f"./{self.name}" if self.name.startswith("-") else self.name


def register() -> None:
    """Make ``apptainer`` known to testinfra, for this process."""
    testinfra.backend.BACKENDS[ApptainerBackend.NAME] = f"{__name__}.{ApptainerBackend.__name__}"
