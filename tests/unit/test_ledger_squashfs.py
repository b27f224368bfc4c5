"""The list that unsquashfs writes of a SIF's files, and what does not fit it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import pytest

from stackwright.core.errors import EngineError
from stackwright.core.ledger.entry import Entry, Kind
from stackwright.probe.outside.layers import Pieces, Read
from stackwright.probe.outside.squashfs import OtherContentError, of_list
from stackwright.probe.site_leaks import Sought

END = b"#\n# START OF DATA - DO NOT MODIFY\n#\n"
LIST = rb"""/ D 1795336886 755 0 0
a\ b R 1795336885 4755 0 0 2 0 0
a\ b x security.capability=0t\001\000\000\002
c\\d R 1795336885 644 1000 1000 3 2 0
dev C 1795336885 644 0 0 1 3
empty R 1795336885 644 0 0 0 5 0
hard L a\ b
link S 1795336885 777 0 0 x y
p I 1795336885 644 0 0 f
"""


def read(
    lists: bytes = LIST, content: bytes = b"a\nsec", size: int = 7, known: Mapping[str, Entry] | None = None
) -> Read:
    text = lists + END + content
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return of_list(Pieces(pieces), "x.sif", Sought((("secret", (b"sec",)),)), known or {})


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_names_kinds_and_contents(size: int) -> None:
    found = read(size=size)
    entries = {entry.path: entry for entry in found.layer.entries}
    assert {path: entry.kind for path, entry in entries.items()} == {
        "/": Kind.FOLDER, "/a b": Kind.FILE, "/c\\d": Kind.FILE, "/dev": Kind.DEVICE, "/empty": Kind.FILE,
        "/hard": Kind.FILE, "/link": Kind.LINK, "/p": Kind.PIPE,
    }  # fmt: skip
    assert (entries["/a b"].mode, entries["/a b"].capability, entries["/link"].target) == (
        0o4755,
        True,
        "x y",
    )
    assert entries["/hard"].sha256 == entries["/a b"].sha256 == hashlib.sha256(b"a\n").hexdigest()
    assert (entries["/hard"].again, entries["/c\\d"].uid, entries["/empty"].size) == (True, 1000, 0)
    assert [(file.path, file.left) for file in found.seen] == [("/c\\d", ("secret",))]


@pytest.mark.parametrize(
    ("lists", "content"),
    [
        (LIST, b"a\n"),  # it ends too early
        (LIST + b"c\\\\d R 1 644 0 0 1 5 0\n", b"a\nsecx"),  # one name twice, as a link's target could feign
        (LIST + b"z R 1 644 0 0 1 9 0\n", b"a\nsecx"),  # a hole in the content
        (LIST + b"z Q 1 644 0 0\n", b"a\nsec"),
        (LIST + b"z R 1 rwx 0 0 1 5 0\n", b"a\nsecx"),
        (LIST + b"z R 1\n", b"a\nsec"),
        (LIST + b"z L nowhere\n", b"a\nsec"),
        (LIST + b"noblank\n", b"a\nsec"),
    ],
)  # fmt: skip
def test_a_list_that_does_not_fit_is_refused(lists: bytes, content: bytes) -> None:
    with pytest.raises(EngineError):
        read(lists, content)


def test_no_list_at_all_is_refused() -> None:
    with pytest.raises(EngineError, match="no list"):
        of_list(Pieces([]), "x.sif", Sought(()))


def clean(content: bytes) -> dict[str, Entry]:
    """What an image had under the name of the file that holds the secret."""
    digest = hashlib.sha256(content).hexdigest()
    entry = Entry(path="/c\\d", kind=Kind.FILE, mode=0, uid=0, gid=0, size=len(content), sha256=digest)
    return {entry.path: entry}


def test_a_file_of_the_same_bytes_is_not_searched_again() -> None:
    found = read(known=clean(b"sec"))
    assert found.seen == ()
    (entry,) = (entry for entry in found.layer.entries if entry.path == "/c\\d")
    assert entry.sha256 == hashlib.sha256(b"sec").hexdigest()


def test_a_file_of_another_size_is_searched() -> None:
    assert [file.path for file in read(known=clean(b"other")).seen] == ["/c\\d"]


def test_other_bytes_of_the_same_size_are_refused_and_so_read_again() -> None:
    with pytest.raises(OtherContentError):
        read(known=clean(b"sea"))
