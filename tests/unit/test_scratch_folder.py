"""What goes wrong in the folder that a SIF is made in is said of the place that a person knows."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest

from stackwright.build.sif.convert import SCRATCH, scratch_folder
from stackwright.core.errors import ConvertError, DiskError
from stackwright.host.runner import Runner


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_and_a_full_quota_are_the_same(code: int, tmp_path: Path) -> None:
    """Users of a cluster have a quota long before they have a full disk."""
    with (
        pytest.raises(DiskError, match="full before the test ended") as caught,
        scratch_folder(tmp_path / "x.sif", "the test", None, Runner()),
    ):
        raise OSError(code, os.strerror(code))
    assert caught.value.place == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_for_the_folder_itself_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    target = tmp_path / "x.sif"
    with pytest.raises(DiskError, match="full"), scratch_folder(target, "the test", None, Runner()):
        pass


def test_an_error_names_the_file_that_was_wanted(tmp_path: Path) -> None:
    target = tmp_path / "x.sif"
    with pytest.raises(ConvertError) as caught, scratch_folder(target, "the test", None, Runner()) as folder:
        raise ConvertError("is cut short", place=str(folder / "image.sif"))
    assert caught.value.place == str(target)


def test_the_folder_of_a_name_that_is_a_link_is_where_the_name_is(tmp_path: Path) -> None:
    """Elsewhere may be another disk, from which no file gets its name in one step."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "x.sif").symlink_to(tmp_path / "elsewhere" / "x.sif")
    left = tmp_path / f"{SCRATCH}killed"
    left.mkdir()
    with scratch_folder(tmp_path / "x.sif", "the test", None, Runner()) as folder:
        assert folder.parent == tmp_path.resolve()
        assert not left.exists()
