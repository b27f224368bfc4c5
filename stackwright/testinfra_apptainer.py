"""A testinfra backend for Apptainer: ``apptainer://image.sif``. It needs nothing of Stackwright.

``register`` is what testinfra itself would have as a line of ``testinfra.backend.BACKENDS``.
"""

from __future__ import annotations

import urllib.parse
from typing import Any

import testinfra.backend
from testinfra.backend import base

FAILED = 255
"""Apptainer's own exit code where it could not start the program, as that of ssh."""


class ApptainerBackend(base.BaseBackend):  # type: ignore[misc]  # testinfra ships no types
    """Run commands in a SIF by ``apptainer exec``.

    ``apptainer://image.sif``; a path with folders is percent-encoded (``apptainer://%2Fdata%2Fimage.sif``),
    or given as it is: ``get_host(path, connection="apptainer")``. ``apptainer://root@image.sif`` is root by
    ``--fakeroot``; Apptainer can be no other user than the caller. ``exec_options`` are words as on a
    command line ("--containall --bind /data"). Apptainer itself reads its APPTAINER_* variables.
    """

    NAME = "apptainer"

    def __init__(
        self, name: str, *args: Any, program: str = "apptainer", exec_options: str = "", **kwargs: Any
    ) -> None:
        name, user = self.parse_containerspec(name)
        if user not in (None, "root"):
            raise ValueError(f"apptainer can run as the caller or as root, not as {user!r}")
        self.name = urllib.parse.unquote(name)
        self.program = program
        self.exec_options = f"{'--fakeroot ' if user else ''}{exec_options}".strip()
        super().__init__(self.name, *args, **kwargs)

    def run(self, command: str, *args: str, **kwargs: Any) -> base.CommandResult:
        """RuntimeError where Apptainer failed itself: else a file that is no SIF would have no program."""
        cmd = self.get_command(command, *args)
        options = self.exec_options.replace("%", "%%")
        out = self.run_local(f"%s --quiet exec {options} %s /bin/sh -c %s", self.program, self._target(), cmd)
        out.command = self.encode(cmd)
        if out.rc == FAILED:
            raise RuntimeError(out)
        return out

    def _target(self) -> str:
        """A leading dash would be an option."""
        return f"./{self.name}" if self.name.startswith("-") else self.name


def register() -> None:
    """Make ``apptainer`` known to testinfra, for this process."""
    testinfra.backend.BACKENDS[ApptainerBackend.NAME] = f"{__name__}.{ApptainerBackend.__name__}"
