"""The parts of doctor and clean that ask nobody. The rest is proven in tests/engine."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from stackwright.build import clean, doctor
from stackwright.build.clean import Item, Kind, Known
from stackwright.build.doctor import Finding
from stackwright.host import owners

KEY = "0123456789ab" + "0" * 52
OLD = "ba9876543210"


def test_json_has_every_field() -> None:
    finding = Finding(name="disk", state=doctor.State.WARNING, seen="1.0 GB free", todo="build.py clean")
    assert doctor.as_json((finding,)) == {
        "version": 1,
        "findings": [
            {"name": "disk", "state": "warning", "seen": "1.0 GB free", "todo": "build.py clean"},
        ],
    }


def test_pins_that_differ_are_named() -> None:
    click = metadata.version("click")
    text = (
        f"click=={click} \\\n    --hash=sha256:00\n"
        "rich==0.0.1 \\\n    --hash=sha256:00\n"
        "no-such-package==1.0\n"
        'colorama==0.4.6 ; sys_platform == "win32"\n'
        "# a comment==1\n"
    )
    assert doctor.differing_pins(text) == (
        f"rich 0.0.1 is {metadata.version('rich')}",
        "no-such-package 1.0 is absent",
    )


def _folder(out: Path, name: str, size: int = 0) -> Path:
    folder = out / name
    (folder / "context").mkdir(parents=True)
    (folder / "context" / "file").write_bytes(b"x" * size)
    return folder


def known(out: Path, matrix: str = "matrix.yaml") -> Known:
    path = out.parent / matrix
    return Known(out=out, matrix=path, project="0" * 12, current={"row": KEY})


def test_folders_of_older_keys_and_of_rows_that_are_gone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _folder(out, f"row/{KEY[:12]}")
    _folder(out, f"row/{OLD}", size=100_000)
    owners.note_matrix(_folder(out, f"gone/{OLD}"), out.parent / "matrix.yaml", out)
    owners.note_matrix(_folder(out, "row/" + "a" * 12), out.parent / "other.yaml", out)
    _folder(out, "unknown/" + "b" * 12)
    _folder(out, "row/notes")
    _folder(out, f"records/{OLD}")
    (out / "row" / ("f" * 12)).symlink_to(tmp_path)
    every = clean.survey(None, known(out))
    found = {item.name: item for item in every if item.whose == clean.OURS}
    assert set(found) == {f"row/{OLD}", f"gone/{OLD}"}
    others = [item.name for item in every if item.whose == clean.OTHERS]
    assert others == ["row/" + "a" * 12, "unknown/" + "b" * 12]
    of_other = {
        item.name for item in clean.survey(None, known(out, "other.yaml")) if item.whose == clean.OURS
    }
    assert of_other == {f"row/{OLD}", "row/" + "a" * 12}
    assert found[f"row/{OLD}"].bytes >= 100_000
    assert found[f"row/{OLD}"].why == "the row is now 0123456789ab"
    assert found[f"gone/{OLD}"].why == "the matrix has no such row"


def test_no_out_is_nothing_to_free(tmp_path: Path) -> None:
    assert clean.survey(None, known(tmp_path / "out")) == ()


def test_only_what_was_surveyed_is_freed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    kept, old = _folder(out, f"row/{KEY[:12]}"), _folder(out, f"row/{OLD}")
    items = clean.survey(None, known(out))
    assert clean.free(None, out, items) == items
    assert kept.is_dir()
    assert not old.exists()


@pytest.mark.parametrize(
    "name",
    ["../../victim", f"../victim/{OLD}", f"link/{OLD}", "records/0123456789ab", "row", "row/", f"/{OLD}"],
)
def test_a_name_that_leads_out_of_out_frees_nothing(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    _folder(out, f"row/{OLD}")
    _folder(out, "records/0123456789ab")
    _folder(tmp_path, f"victim/{OLD}")
    (out / "link").symlink_to(tmp_path / "victim")
    before = sorted(tmp_path.rglob("file"))
    assert clean.free(None, out, (Item(kind=Kind.FOLDER, name=name, bytes=0, why=""),)) == ()
    assert sorted(tmp_path.rglob("file")) == before


def test_a_row_that_is_worked_on_is_left_alone(tmp_path: Path) -> None:
    import fcntl

    out = tmp_path / "out"
    folder = _folder(out, f"row/{OLD}")
    items = clean.survey(None, known(out))
    with (out / "row" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert clean.free(None, out, items) == ()
        assert [bool(item.todo) for item in clean.survey(None, known(out))] == [True]
    assert folder.is_dir()
    assert clean.free(None, out, items) == items


def test_what_others_use_too_is_shown_and_not_freed(tmp_path: Path) -> None:
    item = Item(kind=Kind.CACHE, name="build cache", bytes=1, why="", todo="docker buildx prune")
    assert clean.free(None, tmp_path, (item,)) == ()


def test_json_of_what_could_be_freed() -> None:
    item = Item(kind=Kind.FOLDER, name=f"row/{OLD}", bytes=5, why="old")
    assert clean.as_json((item,)) == {
        "version": 1,
        "items": [
            {
                "kind": "folder", "name": f"row/{OLD}", "bytes": 5, "why": "old", "todo": "",
                "whose": "this project",
            }
        ],
    }  # fmt: skip
