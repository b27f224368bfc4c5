"""Who reads which tables again. A reader gives an answer for each entry, also where it cannot ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from stackwright.audit.facts import frameworks, mirror, nvcc, plugin
from stackwright.audit.facts.sources import Answer, Sources
from stackwright.core.facts import entries
from stackwright.core.facts.entries import Entry
from stackwright.core.model.site import Site
from stackwright.host.files import replace_file
from stackwright.host.runner import Runner
from stackwright.host.site.settings import index_address

Reader = Callable[[Sources], Iterator[Answer]]

READERS: Mapping[str, tuple[Reader, tuple[str, ...]]] = {
    "compilers": (nvcc.read, ("cuda-arch", "cuda-gcc", "nvcc-wheels")),
    "frameworks": (frameworks.read, ("torch", "tensorflow", "mxnet", "releases", "requirements")),
    "plugins": (frameworks.plugins, ("jax",)),
    "arm": (frameworks.on_arm, ("torch-arm64", "tensorflow-arm64", "jax-arm64")),
    "distributions": (mirror.read, ("distributions",)),
    "fabrics": (plugin.read, ("ofi-plugins",)),
    "benchmarks": (plugin.tests, ("nccl-tests",)),
}
"""By name, a reader and the tables that it reads."""


def sources(site: Site, runner: Runner, kept: Path) -> Sources:
    """Return the index and the mirrors that this host is configured for."""
    return Sources(
        index=index_address(runner, site), mirror=site.mirror_of, kept=kept, runner=runner,
        archives=site.sources,
    )  # fmt: skip


def _tables(groups: Sequence[str]) -> tuple[str, ...]:
    return tuple(table for name in groups or READERS for table in READERS[name][1])


def known(groups: Sequence[str] = ()) -> dict[str, tuple[Entry, ...]]:
    """Return the committed tables of some groups, or of all."""
    return {table: entries.load(table) for table in _tables(groups)}


def ask(sources: Sources, groups: Sequence[str], say: Callable[[str], None]) -> tuple[Answer, ...]:
    found: list[Answer] = []
    for name in groups or READERS:
        say(f"reading: {name}")
        found += READERS[name][0](sources)
    return tuple(found)


def write(tables: Mapping[str, Iterable[Entry]]) -> Iterator[Path]:
    """Yield the files that changed."""
    for table, found in tables.items():
        path, text = entries.DATA / f"{table}.json", entries.written(found)
        if path.read_bytes() != text:
            yield replace_file(path, text)
