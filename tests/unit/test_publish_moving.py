"""What becomes of the journal of moving tags, with a registry of a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackwright.core.errors import PublishError
from stackwright.host.files import replace_durably
from stackwright.publish import indexes, moving
from stackwright.publish.moving import JOURNAL, Journal, Move
from stackwright.publish.registry.client import Access, Manifest

OLD, NEW = (Manifest(content=text, media_type="x") for text in (b"old", b"new"))


class Small:
    """``refuses``: tags that it does not take, each with the digest that they would lead to."""

    def __init__(self, **tags: str) -> None:
        self.tags = tags
        self.refuses: set[tuple[str, str]] = set()

    def digest_of(self, repository: str, tag: str) -> str | None:
        return self.tags.get(tag)

    def manifest(self, repository: str, digest: str) -> Manifest | None:
        return next((manifest for manifest in (OLD, NEW) if manifest.digest == digest), None)

    def put_manifest(self, repository: str, tag: str, manifest: Manifest) -> None:
        if (tag, manifest.digest) in self.refuses:
            raise PublishError("the registry's disk is full (507)")
        self.tags[tag] = manifest.digest


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Small:
    """Two tags of yesterday, that a journal is to move."""
    small = Small(one=OLD.digest, two=OLD.digest)
    monkeypatch.setattr(moving, "Registry", lambda access, say: small)
    moves = (Move(repository="hpc", tag=tag, before=OLD.digest, after=NEW.digest) for tag in small.tags)
    journal = Journal(access=Access(host="registry.example"), moves=tuple(moves))
    replace_durably(tmp_path / JOURNAL, moving._ADAPTER.dump_json(journal, exclude=moving.WITHOUT))
    return small


def test_a_tag_that_is_refused_takes_the_others_back_and_the_journal_with_them(
    registry: Small, tmp_path: Path
) -> None:
    registry.refuses = {("two", NEW.digest)}
    with pytest.raises(PublishError, match="disk is full"):
        moving.work(tmp_path, (), print)
    assert registry.tags == {"one": OLD.digest, "two": OLD.digest}
    assert not (tmp_path / JOURNAL).exists()


def test_where_they_cannot_be_taken_back_the_next_one_goes_on(registry: Small, tmp_path: Path) -> None:
    """A full disk takes no tag at all, neither today's nor yesterday's."""
    registry.refuses = {("two", NEW.digest), ("one", OLD.digest)}
    said: list[str] = []
    with pytest.raises(PublishError, match="disk is full"):
        moving.work(tmp_path, (), said.append)
    assert registry.tags == {"one": NEW.digest, "two": OLD.digest}
    assert said == ["hpc:one could not be moved back; the next publish continues with the others"]
    registry.refuses = set()
    moving.work(tmp_path, (), print)
    assert registry.tags == {"one": NEW.digest, "two": NEW.digest}
    assert not (tmp_path / JOURNAL).exists()


def test_a_mover_that_was_killed_is_told_with_what_to_do(
    registry: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "PROGRAM", "import os; os.kill(os.getpid(), 9)")
    with pytest.raises(PublishError, match=r"was ended \(-9\)") as caught:
        moving.finish(tmp_path, (), print)
    assert "publish again" in caught.value.hint
    assert (tmp_path / JOURNAL).exists()


def test_an_error_of_the_mover_keeps_its_place_and_its_hint(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_text("{}")
    with pytest.raises(PublishError, match="not a journal of tags") as caught:
        moving.finish(tmp_path, (), print)
    assert caught.value.place == str(tmp_path / JOURNAL)
    assert caught.value.hint.startswith("look at the moving tags")


def test_the_set_has_no_sif_of_yesterday_beside_an_image_of_today() -> None:
    yesterday = indexes.index(
        indexes.entry(row, name, OLD)
        for row, name in (("a", "a"), ("a", "a.sif"), ("b", "b"), ("b", "b.sif"))
    )
    stay = indexes.kept(yesterday, {"a", "b"}, {"a"})
    today = indexes.index((*stay, indexes.entry("a", "a", NEW)))
    listed = {
        manifest["annotations"][indexes.NAME]: manifest["digest"] for manifest in today.document["manifests"]
    }
    assert listed == {"a": NEW.digest, "b": OLD.digest, "b.sif": OLD.digest}
    assert indexes.kept(yesterday, {"a"}, ()) == tuple(yesterday.document["manifests"][:2])
    assert indexes.kept(None, {"a"}, ()) == ()
