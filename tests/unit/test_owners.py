"""Ids of projects, marks on images, and what tells a row's own image from one that was built FROM it."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stackwright.core.checks import origin
from stackwright.host import owners

OWN = (
    "ADD base.tar / # buildkit", "ENV PATH=/opt/stack/bin",
    "LABEL org.opencontainers.image.title=row org.stackwright.row=row org.stackwright.stack={}",
    "USER train", "WORKDIR /workspace", 'ENTRYPOINT ["/usr/bin/tini" "-g" "--"]', 'CMD ["/bin/bash"]',
)  # fmt: skip


def test_a_project_keeps_its_id_when_it_is_moved_and_a_copy_has_another(tmp_path: Path) -> None:
    first = owners.project_id(tmp_path / "one" / "out")
    assert owners.project_id(tmp_path / "one" / "out") == first
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    (tmp_path / "one").rename(tmp_path / "moved")
    assert owners.project_id(tmp_path / "moved" / "out") == first
    copied = owners.project_id(tmp_path / "copy" / "out")
    assert copied != first
    assert owners.project_id(tmp_path / "copy" / "out") == copied


@pytest.mark.parametrize("text", ["", "x\n", "0123456789ab\n", "0123456789AB 1\n", "0123456789ab 1 2\n"])
def test_a_damaged_file_is_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / owners.PROJECT_FILE).write_text(text)
    found = owners.project_id(tmp_path)
    assert len(found) == 12
    assert owners.project_id(tmp_path) == found


def test_processes_that_begin_together_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len({*pool.map(owners.project_id, [tmp_path] * 16)}) == 1


def test_marks_name_their_project_and_no_other_tag_does() -> None:
    one, other = (owners.mark(id * 12, "stackwright/cuda12-torch:0123456789ab") for id in "ab")
    assert one == "stackwright-users/aaaaaaaaaaaa:cuda12-torch-0123456789ab"
    assert owners.marked_by((one, other, "stackwright/a:b", "x/stackwright-users/cccccccccccc:d")) == {
        "a" * 12, "b" * 12
    }  # fmt: skip
    longest = owners.mark("a" * 12, f"stackwright/{'r' * 120}.:0123456789ab").partition(":")[2]
    assert len(longest) <= 128
    assert longest.endswith("-0123456789ab")


def test_an_image_of_a_row_is_told_from_one_that_was_built_from_it() -> None:
    assert origin.added(OWN) == ()
    assert origin.added((*OWN, "RUN pip install x", 'CMD ["/bin/bash"]')) == (
        "RUN pip install x", 'CMD ["/bin/bash"]'
    )  # fmt: skip
    with_ports = (*OWN[:5], "EXPOSE map[8888/tcp:{}]", "EXPOSE map[6006/tcp:{}]", *OWN[5:])
    assert origin.added(with_ports) == ()
    assert origin.added((*with_ports, "EXPOSE map[22/tcp:{}]")) == ("EXPOSE map[22/tcp:{}]",)
    assert origin.is_derived((*OWN, "LABEL org.stackwright.row=row"))
    assert origin.is_derived(
        (*OWN[:-1], '/bin/sh -c #(nop)  CMD ["/bin/sh"]', "/bin/sh -c #(nop)  USER root")
    )
    assert not origin.is_derived(("ADD base.tar /", "CMD x", "RUN y"))
