"""The source archive of a component and the patches for it: data next to the patches, read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from packaging.specifiers import SpecifierSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    file: str
    when: tuple[tuple[str, str], ...]
    source: str
    content: bytes

    def applies(self, values: Mapping[str, str]) -> bool:
        """Return whether every condition holds; a value that the row lacks fulfils none."""
        return all(name in values and SpecifierSet(spec).contains(values[name]) for name, spec in self.when)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """``sha256`` is that of the released source archive on the package index."""

    release: str
    sha256: str
    patches: tuple[Patch, ...]

    def select(self, values: Mapping[str, str]) -> tuple[Patch, ...]:
        return tuple(patch for patch in self.patches if patch.applies(values))


def load_series(folder: Path) -> Series:
    """Read the series of the component that the folder is named for."""
    data: dict[str, Any] = yaml.safe_load((folder / "series.yaml").read_text())
    patches = tuple(
        Patch(
            file=entry["file"],
            when=tuple(entry["when"].items()),
            source=entry["source"],
            content=(folder / entry["file"]).read_bytes(),
        )
        for entry in data["patches"]
    )
    return Series(release=data[folder.name], sha256=data["sha256"], patches=patches)
