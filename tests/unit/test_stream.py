"""The stream of an image is corrected on the way, however it is cut into chunks; a short one is refused."""

from __future__ import annotations

import io
import os
import tarfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackwright.core.errors import ConvertError
from stackwright.engines.sif import tar_stream
from stackwright.engines.sif.tar_stream import Corrections, Member, corrected, listed

LONG = "deep/" * 30 + "ümläut " + "l" * 120
CONTENT = {
    "etc/hosts": b"127.0.0.1 of the engine",
    "etc/passwd": b"root:x:0:0",
    LONG: b"long",
    "big": bytes(range(256)) * 100,
    "empty": b"",
    "etc/mtab": b"",
}


def tar_of(content: dict[str, bytes]) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, text in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    return whole.getvalue()


def member(name: str, content: bytes) -> Member:
    return Member.of(tarfile.TarInfo(name), content)


WANTED = Corrections(
    left_out=frozenset({"etc/hosts", "etc/mtab", "etc/hostname", LONG}),
    instead=(member("etc/hosts", b"the image's own"),),
    added=(member("etc/passwd", b"only where there is none"), member("environment", b"Apptainer's")),
)
RESULT = {
    "etc/passwd": b"root:x:0:0",
    "big": bytes(range(256)) * 100,
    "empty": b"",
    "environment": b"Apptainer's",
    "etc/hosts": b"the image's own",
}


def read(chunks: Iterable[bytes | memoryview]) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
        files = {file.name: tar.extractfile(file) for file in tar}
        return {name: file.read() for name, file in files.items() if file}


def cut(whole: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    at = 0
    for size in sizes:
        yield whole[at : at + size]
        at += size
    yield whole[at:]


@given(st.lists(st.integers(0, 5000), max_size=60))
def test_the_chunks_do_not_matter(sizes: list[int]) -> None:
    assert read(corrected(cut(tar_of(CONTENT), sizes), WANTED)) == RESULT


def test_what_is_not_to_be_corrected_stays_to_the_byte() -> None:
    whole = tar_of(CONTENT)
    nothing = Corrections(left_out=frozenset(), instead=(), added=())
    made = b"".join(corrected([whole], nothing))
    assert whole.startswith(made)
    assert read([made]) == CONTENT


@pytest.mark.parametrize("end", ["in a header", "in a file", "after a file", "after half of the end"])
def test_a_stream_that_ends_too_early_is_an_error(end: str) -> None:
    whole = tar_of({"one": bytes(2000), "two": b"2"})
    at = {"in a header": 100, "in a file": 1000, "after a file": 512 + 2048, "after half of the end": 4100}[
        end
    ]
    if end == "after half of the end":
        at = len(whole.rstrip(b"\0")) // 512 * 512 + 512 + 100
    with pytest.raises(ConvertError, match="ended too early"):
        list(corrected([whole[:at]], WANTED))


def test_a_file_of_more_than_8_gb_is_counted_right() -> None:
    """Its size is in a record of its own, and the header's field says nothing."""
    info = tarfile.TarInfo("huge")
    info.size = 9 * 10**9
    raw = info.tobuf(tarfile.PAX_FORMAT)
    assert b"size=9000000000" in raw
    made = corrected([raw, bytes(10**6)], Corrections(left_out=frozenset(), instead=(), added=()))
    with pytest.raises(ConvertError, match="ended too early"):
        list(made)


def test_apptainers_files_are_read_from_the_listing() -> None:
    text = (
        "/ D 5 755 0 0\n.run S 6 777 0 0 .singularity.d/actions/run\n.singularity.d D 7 755 0 0\n"
        ".singularity.d/a R 8 755 0 0 3 0 0\netc/hosts R 9 644 0 0 0 3 0\n"
        "#\n# START OF DATA - DO NOT MODIFY\n#\nabc"
    )
    found = listed(text.encode())
    with tarfile.open(fileobj=io.BytesIO(b"".join(entry.raw for entry in found) + bytes(1024))) as tar:
        members = {file.name: file for file in tar}
        assert tar.extractfile(".singularity.d/a").read() == b"abc"  # type: ignore[union-attr]
    assert set(members) == {".run", ".singularity.d", ".singularity.d/a", "etc/hosts"}
    assert members[".run"].linkname == ".singularity.d/actions/run"
    assert (members[".singularity.d/a"].mode, members[".singularity.d/a"].mtime) == (0o755, 8)
    with pytest.raises(ValueError, match="no file of Apptainer's"):
        listed(b"x C 0 644 0 0 1 3\n")


def test_feeding_ends_where_nobody_reads(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    tar_stream.feed([b"x"], pipe, ended=lambda: True)

    def short() -> None:
        with pipe.open("rb") as file:
            file.read(10)

    reader = threading.Thread(target=short)
    reader.start()
    tar_stream.feed((bytes(2**20) for _ in range(100)), pipe, ended=lambda: False)
    reader.join(timeout=10)
    assert not reader.is_alive()
