"""What the index answered about a row with additions: which packages are theirs. Pure.

uv is asked twice, without the additions and with them. What is only in the second answer is of the additions;
what both have in different versions was moved by them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from stackwright.core.compiled.source import Source, names
from stackwright.core.components.table import asking, by_pip, compiled
from stackwright.core.config.additions import name
from stackwright.core.config.own import versions
from stackwright.core.model.added.image import Folder
from stackwright.core.model.row import Cell
from stackwright.core.resolve.lockfile import HASH, NAME, PIN, Found

ASKER = re.compile(r"    #(?: via| ) +(?!via$)([^\s]+)", re.ASCII)
"""uv's remark on who requires a package, as one line or as several."""
INDEX = re.compile(r"    # from (\S+)", re.ASCII)
"""uv's remark on which index answered."""
SHOWN = 400
"""Letters of uv's explanation that are kept."""
ONLY_WHEELS = "only wheels are installed, and nothing is compiled but the row's own layers"


def without_remarks(answer: str) -> str:
    """Return uv's answer as a lock has it."""
    return "".join(f"{block}\n" for block in _blocks(answer).values())


def of_folder(answer: str, wheels: Folder) -> str:
    """Return uv's answer with no other files of the distributions in a folder than those in it.

    An index may have the same version of the same name.
    """
    own = {hashlib.sha256(content).hexdigest() for _, content in wheels.files}
    names, which, kept = versions(wheels), "", []
    for line in answer.splitlines():
        if pin := PIN.fullmatch(line):
            which = pin[1]
        if which not in names or not (found := HASH.fullmatch(line)) or found[0].split(":")[1][:64] in own:
            kept.append(line)
    return "".join(f"{line}\n" for line in kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """uv's answers about a row: without its additions, with them, with what its sources are compiled with,
    and about the CUDA compiler. ``extra`` are the addresses of the site's extra indexes."""

    both: str
    alone: str = ""
    building: str = ""
    toolchain: str = ""
    extra: tuple[str, ...] = ()


def apart(answers: Answers, sources: tuple[Source, ...] = ()) -> Found:
    """Return the lists of a lock. What is compiled comes from its source, also where it has a wheel.

    What an extra index answered is noted, and not where that is.
    """
    before, after = _blocks(answers.alone), _blocks(answers.both)
    known = {*before, *(source.name for source in sources)}
    added = {which: block for which, block in after.items() if which not in known}
    building = _blocks(answers.building)
    builders = {which: block for which, block in building.items() if which not in known | added.keys()}
    asked = _asked_by(answers.building or answers.both, sources)
    return Found(
        pins="".join(f"{block}\n" for which, block in after.items() if which in before),
        added="".join(f"{block}\n" for block in added.values()),
        compiled="".join(source.pin for source in sources),
        builders="".join(f"{block}\n" for block in builders.values()),
        toolchain=answers.toolchain,
        asked_by=tuple((which, asked[which]) for which in (*added, *builders) if which in asked),
        moved=tuple(_moved(before, after)),
        extra=tuple(_answered_by(answers.both, {_plain(package) for package in answers.extra})),
        needs=tuple((source.name, names((*source.requires, *source.needs))) for source in sources),
    )


def with_builders(both: str, sources: tuple[Source, ...]) -> tuple[str, ...]:
    """Return the question about what the sources are compiled with: all that the row has stays as it is."""
    have = (f"{which}=={_version(block)}" for which, block in _blocks(both).items())
    return (*have, *dict.fromkeys(line for source in sources for line in source.needs))


def _moved(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for which, block in after.items():
        if which in before and _version(block) != _version(before[which]):
            yield which, _version(before[which]), _version(block)


def _answered_by(answer: str, indexes: Collection[str]) -> Iterator[str]:
    """Yield the packages that one of the indexes answered, by uv's remarks."""
    which = ""
    for line in answer.splitlines():
        if pin := PIN.fullmatch(line):
            which = pin[1]
        elif (index := INDEX.fullmatch(line)) and _plain(index[1]) in indexes:
            yield which


def _plain(address: str) -> str:
    """Return the address of an index without a login, as uv shows it."""
    return re.sub(r"(?<=://)[^/@]*@", "", address).rstrip("/")


def _blocks(answer: str) -> dict[str, str]:
    """Return by package its pin with its hashes, without a remark or the backslash that led to one."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in answer.splitlines():
        if pin := PIN.fullmatch(line):
            lines = found.setdefault(pin[1], [])
        if not line.lstrip().startswith("#") and line.strip():
            lines.append(line.removesuffix("\\").rstrip())
    return {which: " \\\n".join(lines) for which, lines in found.items()}


def _version(block: str) -> str:
    return block.split("==", 1)[1].split(" ", 1)[0]


def _asked_by(answer: str, sources: tuple[Source, ...]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for source in sources:
        for which in names((*source.requires, *source.needs)):
            found.setdefault(which, []).append(source.name)
    which = ""
    for line in answer.splitlines():
        if pin := PIN.fullmatch(line):
            which = pin[1]
        elif (asker := ASKER.fullmatch(line)) and NAME.fullmatch(asker[1]):
            found.setdefault(which, []).append(asker[1])
    return {package: tuple(dict.fromkeys(askers)) for package, askers in found.items()}


def refusal(said: str, cell: Cell) -> str:
    """Return uv's explanation, shortened, after the additions that it is about."""
    text = _explanation(said)
    every = (*by_pip(cell), *compiled(cell))
    named = [
        addition for addition in every if re.search(rf"(?<![\w-]){re.escape(name(addition))}(?![\w-])", text)
    ]
    who = ", ".join(addition.requirement for addition in named or every)
    why = _shortened(text)
    field = " and ".join(asking(cell))
    found = f"the row's {field}: {who} cannot be installed with its other packages, {why}"
    return f"{found}; {ONLY_WHEELS}" if re.search("no (usable )?wheels", why) else found


def no_source(said: str, cell: Cell) -> str:
    """Return uv's explanation of why there is no source of what the row compiles."""
    every = ", ".join(addition.requirement for addition in compiled(cell))
    return f"the row's compile: {every} has no source on the index, {_shortened(_explanation(said))}"


def no_builder(said: str, sources: tuple[Source, ...]) -> str:
    """Return uv's explanation of why the row cannot have what a source is compiled with, and what that is."""
    every = ", ".join(source.name for source in sources)
    needs = ", ".join(dict.fromkeys(line for source in sources for line in source.needs))
    why = _shortened(_explanation(said))
    return f"the row's compile: {every} cannot be compiled with its packages, which needs {needs}: {why}"


def _explanation(said: str) -> str:
    """Return it without what uv says about every refusal, and without the markers of requirements."""
    cause = re.split(r"\n\s*\n\s*hint:|\nhint:", said.partition("cause:")[2] or said)[0]
    text = re.sub(r"\{[^{}]*\}", "", " ".join(cause.split()))
    text = re.sub(r",? we can conclude that your requirements are unsatisfiable\.?$", "", text)
    return re.sub(r"(\.? And because| and) you require \S+$", "", text)


def _shortened(text: str) -> str:
    """Return the last sentences, which say what clashes."""
    kept = ""
    for sentence in reversed(re.split(r" (?=And because )", text)):
        if kept and len(sentence) + len(kept) > SHOWN:
            break
        kept = f"{sentence} {kept}".strip()
    kept = re.sub("^(And b|B)ecause", "because", kept).rstrip(".")
    return kept if len(kept) <= SHOWN else f"{kept[:SHOWN]}…"
