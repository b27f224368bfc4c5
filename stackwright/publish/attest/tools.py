"""Programs that judge, and whether it was they who answered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stackwright.core.errors import EngineError
from stackwright.engines.oci_tools import Tool
from stackwright.engines.tool_image import last_line
from stackwright.host.runner import Completed

NEVER_RAN = 124
"""From here on an exit code is of a timeout, `docker run`, a shell or a signal, and not the program's."""


def ran(
    tool: Tool, *argv: str | Path, folders: tuple[Path, ...], timeout: float,
    env: Mapping[str, str] | None = None,
) -> Completed:  # fmt: skip
    """Raise EngineError where the program did not finish: then it judged nothing."""
    done = tool(*argv, folders=folders, env=env, timeout=timeout)
    if 0 <= done.returncode < NEVER_RAN:
        return done
    hint = "build.py doctor: the engine has to run, as it is in an image" if tool.docker else ""
    raise EngineError(f"{tool.name} could not be run: {last_line(done)}", hint=hint or "run it again")
