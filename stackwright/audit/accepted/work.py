"""Asks each question once and keeps the answer: a lock for a day, an import and a compile for good."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from stackwright.audit.accepted import headers, install
from stackwright.audit.accepted.combinations import Compile, Question
from stackwright.core.errors import StackwrightError
from stackwright.core.model.row import Cell
from stackwright.core.model.site import Site
from stackwright.core.resolve.requirements import requirements
from stackwright.host.files import replace_file
from stackwright.host.runner import Runner
from stackwright.host.site import settings
from stackwright.host.upstream.locks import compile_pins

ROOM = 30_000_000_000
"""Free bytes; where there are fewer, the packages that uv kept are removed before more are installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """``out`` keeps the answers. ``environment`` is uv's."""

    out: Path
    runner: Runner
    site: Site
    environment: Mapping[str, str]
    compilers: headers.Compilers
    kept: headers.Kept

    def lock(self, cell: Cell, wanted: tuple[str, ...]) -> dict[str, str]:
        """Today's answer of the index: the pins, or why there are none."""
        return dict(self._once("locks", self.key(cell, wanted), lambda: self._lock(cell, wanted)))

    @staticmethod
    def key(cell: Cell, wanted: tuple[str, ...]) -> str:
        """Return what a lock is kept by: the index changes from day to day."""
        digest = Question(cell=cell, wanted=wanted, rows=1).digest
        return f"{datetime.now(UTC):%Y%m%d}-{digest}"

    def imported(self, cell: Cell) -> tuple[str, ...] | None:
        """Return what fails when the row's packages are installed and imported; None without the row's
        Python."""
        made = self.lock(cell, requirements(cell))
        if made["refused"]:
            return (f"not locked: {made['refused'][:300]}",)
        key = sha256(f"{cell.python}\n{made['pins']}".encode()).hexdigest()[:16]
        answer = self._once("imports", key, lambda: self._imported(cell, made["pins"]))
        return None if answer is None else tuple(answer)

    def was_imported(self, cell: Cell) -> bool:
        made = self.lock(cell, requirements(cell))
        key = sha256(f"{cell.python}\n{made['pins']}".encode()).hexdigest()[:16]
        return (self.out / "imports" / f"{key}.json").is_file()

    def compiled(self, asked: Compile) -> str | None:
        """Return the first error of the framework's headers, empty for none; None without that gcc."""
        key = f"{asked.name}-{asked.version}-gcc{asked.gcc}"
        answer = self._once("compiles", key, lambda: self._compiled(asked))
        return None if answer is None else str(answer)

    def _lock(self, cell: Cell, wanted: tuple[str, ...]) -> dict[str, str]:
        answer = compile_pins(cell, wanted, uv=settings.UV, runner=self.runner, environment=self.environment)
        if answer.ok:
            return {"pins": answer.stdout, "refused": ""}
        return {"pins": "", "refused": " ".join(answer.stderr.split())}

    def _imported(self, cell: Cell, pins: str) -> tuple[str, ...] | None:
        if shutil.disk_usage(self.out).free < ROOM:
            self.runner([settings.UV, "cache", "clean", "--quiet"], env=self.environment, timeout=600)
        return install.failures(cell, pins, uv=settings.UV, runner=self.runner, environment=self.environment)

    def _compiled(self, asked: Compile) -> str | None:
        try:
            return headers.failure(asked, self.compilers, self.kept, self.runner)
        except StackwrightError as error:
            return f"no headers: {error.cause}"

    def _once(self, step: str, key: str, ask: Callable[[], Any]) -> Any:
        """Return what was answered before, or now. None is no answer, and is asked again."""
        path = self.out / step / f"{key}.json"
        if path.is_file():
            return json.loads(path.read_bytes())
        answer = ask()
        if answer is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, json.dumps(answer, indent=1).encode())
        return answer
