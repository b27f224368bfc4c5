"""Names of compressions: complete, checked before they reach a program, and with the disk that they need."""

from __future__ import annotations

import pytest

from stackwright.build.sif.convert import SMALL, needed
from stackwright.core.errors import UsageError
from stackwright.core.model.compression import DEFAULT, compression
from stackwright.engines.sif.squashfs import Way


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("zstd:3", "zstd:3", "-comp zstd -Xcompression-level 3"),
        ("zstd", "zstd:3", "-comp zstd -Xcompression-level 3"),
        ("zstd:22", "zstd:22", "-comp zstd -Xcompression-level 22"),
        ("gzip", "gzip:9", "-comp gzip -Xcompression-level 9"),
        ("gzip:1", "gzip:1", "-comp gzip -Xcompression-level 1"),
        ("lz4", "lz4", "-comp lz4"),
        ("none", "none", "-no-compression"),
    ],
)
def test_a_choice_becomes_options_of_mksquashfs(text: str, name: str, options: str) -> None:
    found = compression(text)
    assert found.name == name
    assert " ".join(found.options) == options


@pytest.mark.parametrize(
    "text",
    ["", "zstd:", "zstd:0", "zstd:23", "zstd:3 -p x", "zstd:3\n", "gzip:10", "lz4:1", "none:1", "xz", "ZSTD"],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no such compression") as caught:
        compression(text)
    assert "zstd:LEVEL" in caught.value.hint


def test_what_is_claimed_of_the_disk() -> None:
    """The SIF alone, but by an archive; and what the rows' files take of it leaves a margin."""
    image = 6_357_171_683
    largest_measured = 0.5743  # of docs/results, with zstd:1
    assert needed(Way.MOUNTED, image, DEFAULT) == DEFAULT.most(image) + SMALL
    assert DEFAULT.most(image) > 1.1 * largest_measured * image
    assert needed(Way.STREAM, image, DEFAULT) < image
    assert needed(Way.ARCHIVE, image, DEFAULT) > 3 * image
    assert compression("none").most(image) > image
