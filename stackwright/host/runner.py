"""The one place that starts processes. It is passed in, so that tests see every argv."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from stackwright.core.credentials import redact

ABSENT, HUNG = 127, 124
"""Codes of a program that is not there and of one that did not end in time, as of a shell and `timeout`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        return self.returncode == 0


@dataclass(slots=True, kw_only=True)
class Runner:
    """Runs programs without a shell. With ``show`` each argv is printed before it starts."""

    show: bool = False
    log: TextIO = field(default_factory=lambda: sys.stderr)

    def __call__(
        self,
        argv: Sequence[str | Path],
        *,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float | None = None,
    ) -> Completed:
        """Run to the end and capture. A missing program is code ABSENT, a timeout (seconds) HUNG."""
        words = self._announce(argv)
        try:
            done = subprocess.run(
                words, input=stdin, env=_environment(env), cwd=cwd, timeout=timeout,
                capture_output=True, text=True, errors="replace", check=False,
            )  # fmt: skip
        except FileNotFoundError:
            return Completed(argv=words, returncode=ABSENT, stdout="", stderr=f"{words[0]}: not found")
        except subprocess.TimeoutExpired:
            message = f"no end after {timeout:g} s"
            return Completed(argv=words, returncode=HUNG, stdout="", stderr=message)
        return Completed(argv=words, returncode=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def stream(
        self,
        argv: Sequence[str | Path],
        on_line: Callable[[str], None],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> int:
        """Run and hand each line of stdout and stderr to ``on_line``; the child dies with the caller."""
        words = self._announce(argv)
        with subprocess.Popen(
            words, env=_environment(env), cwd=cwd, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        ) as child:  # fmt: skip
            try:
                assert child.stdout is not None
                for line in child.stdout:
                    on_line(line)
            except BaseException:
                child.terminate()
                raise
        return child.returncode

    def _announce(self, argv: Sequence[str | Path]) -> tuple[str, ...]:
        words = tuple(str(word) for word in argv)
        if self.show:
            print("+ " + redact(shlex.join(words)), file=self.log, flush=True)
        return words


def _environment(extra: Mapping[str, str] | None) -> dict[str, str] | None:
    return {**os.environ, **extra} if extra else None
