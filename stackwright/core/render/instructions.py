"""The instructions of a rendered Dockerfile, each with an identity that other rows share. Pure.

BuildKit executes an instruction once for all rows that have it, its predecessors and the files that it reads.
Which rows these are is known here before anything is built.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from string import Template

from stackwright.core.model.row import Recipe

VERTICES = ("RUN", "COPY", "ADD", "WORKDIR")
"""What BuildKit makes a vertex of and counts; other instructions change only the image's configuration."""

_ARG = re.compile(r"ARG\s+(\w+)=(\S+)")
_FROM = re.compile(r"FROM\s+(?:--platform=\S+\s+)?(?P<base>\S+)\s+AS\s+(?P<stage>\S+)")
_OTHER_STAGE = re.compile(r"\bfrom=([\w.-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """``stage`` and ``number`` are what BuildKit shows, as in "[toolchain 1/2]".

    ``after`` are the identities of those that it builds on directly, its own stage's first; ``end`` is how
    many ``logical_lines`` of the file there are up to its own.
    """

    identity: str
    stage: str
    number: int
    after: tuple[str, ...] = ()
    end: int = 0


def instructions(recipe: Recipe) -> Iterator[Instruction]:
    """Those that take time, in the order of the file."""
    files, arguments, ends = dict(recipe.files), dict[str, str](), dict[str, str]()
    last: dict[str, tuple[str, ...]] = {}
    stage, number = "", 0
    for end, text in enumerate(logical_lines(recipe.text("Dockerfile")), start=1):
        if match := _FROM.fullmatch(text):
            base, stage = Template(match["base"]).safe_substitute(arguments), match["stage"]
            number = 0 if base in ends else 1
            ends[stage], last[stage] = ends.get(base, base), last.get(base, ())
        elif stage:
            parts = (ends[stage], text, *_read(text, files, ends))
            ends[stage] = hashlib.sha256("\0".join(parts).encode()).hexdigest()
            if text.startswith(VERTICES):
                number += 1
                after = (
                    *last[stage],
                    *(digest for name in _stages_named(text, ends) for digest in last[name]),
                )
                last[stage] = (ends[stage],)
                yield Instruction(identity=ends[stage], stage=stage, number=number, after=after, end=end)
        elif match := _ARG.fullmatch(text):
            arguments[match[1]] = match[2]


def logical_lines(dockerfile: str) -> list[str]:
    """Instructions, each with the lines that continue it; remarks are left out."""
    lines = "\n".join(line for line in dockerfile.splitlines() if line and not line.startswith("#"))
    return re.split(r"(?<!\\)\n", lines)


def _read(text: str, files: dict[str, bytes], ends: dict[str, str]) -> Iterator[str]:
    """Yield what else an instruction builds on: other stages, and files of the context."""
    others = [ends[name] for name in _stages_named(text, ends)]
    yield from others
    if any(sources_named(text)) and not (others and text.startswith(("COPY", "ADD"))):
        yield files_read(text, files)


def _stages_named(text: str, ends: dict[str, str]) -> list[str]:
    return [name for name in _OTHER_STAGE.findall(text) if name in ends]


def files_read(text: str, files: Mapping[str, bytes]) -> str:
    """Return a digest of the files that an instruction takes from the context; of all, if it does not say."""
    wanted = [source.removeprefix("./").strip("/") for source in sources_named(text)]
    chosen = [[name for name in files if f"{name}/".startswith(f"{source}/")] for source in wanted]
    names = set().union(*chosen) if chosen and all(chosen) else set(files)
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    return digest.hexdigest()


def sources_named(text: str) -> Iterator[str]:
    """Yield the paths that an instruction names, of the context where it names no stage."""
    words = text.split()
    if words[0] in ("COPY", "ADD"):
        yield from [word for word in words[1:] if not word.startswith("--")][:-1]
    for mount in (word.removeprefix("--mount=") for word in words if word.startswith("--mount=")):
        options = dict(option.partition("=")[::2] for option in mount.split(","))
        if options.get("type", "bind") == "bind" and "from" not in options:
            yield options.get("source", options.get("src", ""))
