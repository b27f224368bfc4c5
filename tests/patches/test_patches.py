"""Every series that a row can ask for goes into the released source, each patch to its one place."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import horovod_source as source
import pytest
from patching import OPTIONS, NotApplied, Steps, apply, header, hunks, reachable

from stackwright.core.facts.patches import Patch, Series, load_series
from stackwright.host.project import Planned, Project, cells, plan
from stackwright.host.runner import Runner

ROOT = Path(__file__).resolve().parents[2]
PROJECT = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=ROOT / "out")
SERIES = load_series(ROOT / "patches" / "horovod")
ROWS = plan(PROJECT, cells(PROJECT)).rows
COMBINATIONS = reachable(SERIES)


@pytest.fixture(scope="session")
def runner() -> Runner:
    return Runner()


@pytest.fixture(scope="session")
def released(runner: Runner) -> Path:
    return source.archive(runner, SERIES)


@pytest.fixture(scope="session")
def program(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return source.patch_program(runner, tmp_path_factory.mktemp("patch"))


# -- the series --------------------------------------------------------------------------------------


def named(patches: tuple[Patch, ...]) -> str:
    return "+".join(patch.file.removesuffix(".patch") for patch in patches) or "none"


@pytest.fixture(scope="session")
def whole(released: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return source.unpack(released, tmp_path_factory.mktemp("horovod"))


@pytest.fixture
def tree(whole: Path, tmp_path: Path) -> Path:
    """The files of the source that any patch touches: a copy of all would take most of the time."""
    for path in {hunk.path for patch in SERIES.patches for hunk in hunks(patch.content)}:
        if (whole / path).exists():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(whole / path, tmp_path / path)
    return tmp_path


@pytest.fixture(scope="session")
def steps(whole: Path, runner: Runner, program: Path, tmp_path_factory: pytest.TempPathFactory) -> Steps:
    return Steps(whole, tmp_path_factory.mktemp("steps"), partial(apply, runner, program))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.stack.id)
def test_what_is_in_the_context_of_a_row_goes_into_the_released_source(row: Planned, steps: Steps) -> None:
    patches = [(name, text) for name, text in row.recipe.files if name.startswith("horovod/patches/")]
    assert [name[len("horovod/patches/00-") :] for name, _ in patches] == list(row.stack.patches)
    steps.apply(sorted(patches))


@pytest.mark.parametrize("patches", COMBINATIONS, ids=named)
def test_every_combination_that_values_can_select_goes_in(patches: tuple[Patch, ...], steps: Steps) -> None:
    steps.apply(source.contents(patches))


def test_the_combinations_are_those_of_the_rows_and_more() -> None:
    files = {tuple(patch.file for patch in patches) for patches in COMBINATIONS}
    assert {row.stack.patches for row in ROWS} < files
    assert {file for combination in files for file in combination} == {patch.file for patch in SERIES.patches}
    always = tuple(patch.file for patch in SERIES.patches if not patch.when)
    assert always in files


def test_a_combination_that_nothing_can_select_is_not_among_them() -> None:
    """A later release of a framework asks for all that an earlier one asks for, and not the reverse."""
    chained = Series(release="1", sha256="", patches=tuple(
        Patch(file=file, when=tuple(when.items()), source="", content=b"")
        for file, when in (("a", {"x": ">=1.2"}), ("b", {"x": ">=1.3,<2"}), ("c", {"x": "==2.*", "y": ">1"}))
    ))  # fmt: skip
    found = {"".join(patch.file for patch in patches) for patches in reachable(chained)}
    assert found == {"", "a", "ab", "ac"}


@pytest.mark.parametrize("patch", SERIES.patches, ids=lambda patch: patch.file)
def test_a_patch_says_why_it_is_there_and_where_it_is_from(patch: Patch) -> None:
    said = header(patch.content)
    assert len(said.split()) >= 10, "a reason is a sentence at least"
    assert patch.source
    assert hunks(patch.content)
    for number in re.findall(r"#\d+|\b[0-9a-f]{8}\b", patch.source):
        assert number in said, "the file and the series name the same source"


def test_every_file_of_the_folder_is_in_the_series() -> None:
    there = {path.name for path in (ROOT / "patches" / "horovod").glob("*.patch")}
    assert there == {patch.file for patch in SERIES.patches}


def test_the_options_are_those_of_the_build() -> None:
    script = (ROOT / "scripts" / "build-horovod.sh").read_text()
    (line,) = re.findall(r'^\s*patch -d "\$work/source" (.*) < "\$patch"$', script, re.MULTILINE)
    assert tuple(line.split()) == OPTIONS


# -- that the check itself can fail ----------------------------------------------------------------


def altered(patch: Patch) -> bytes:
    """The first line of context is another one."""
    return re.sub(rb"(?m)^( )(\S.*)$", rb"\1altered \2", patch.content, count=1)


def test_a_patch_with_another_context_is_refused(tree: Path, runner: Runner, program: Path) -> None:
    patch = SERIES.patches[0]
    with pytest.raises(NotApplied, match="0 places"):
        apply(runner, program, tree, [(patch.file, altered(patch))])


def test_a_series_that_was_applied_before_is_applied_to_other_files(
    whole: Path, tree: Path, runner: Runner, program: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """``Steps`` keeps what a patch made of files: another content of one of them is another step."""
    done: list[str] = []

    def counted(tree: Path, patches: Sequence[tuple[str, bytes]]) -> None:
        done.extend(name for name, _ in patches)
        apply(runner, program, tree, patches)

    steps = Steps(whole, tmp_path_factory.mktemp("steps"), counted)
    ((name, content),) = source.contents(SERIES.patches[:1])
    for _ in range(2):
        steps.apply([(name, content)])
    assert done == [name]
    with pytest.raises(NotApplied):
        steps.apply([(name, content), (name, content)])
    with pytest.raises(NotApplied, match="0 places"):
        steps.apply([(name, altered(SERIES.patches[0]))])
    assert done == [name] * 3


def test_a_patch_that_is_in_already_is_refused(tree: Path, runner: Runner, program: Path) -> None:
    patch = source.contents(SERIES.patches[:1])
    apply(runner, program, tree, patch)
    with pytest.raises(NotApplied):
        apply(runner, program, tree, patch)


SAMPLE = b"why\n---\n--- a/file\n+++ b/file\n@@ -1,2 +1,3 @@\n one\n+new\n two\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("zero\none\ntwo\none\ntwo\n", "2 places"),
        ("one\nnew\ntwo\n", "0 places"),
        ("one\n\ntwo\n", "0 places"),
    ],
)
def test_a_hunk_that_fits_at_two_places_or_at_none_is_refused(
    text: str, why: str, tmp_path: Path, runner: Runner, program: Path
) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(NotApplied, match=why):
        apply(runner, program, tmp_path, [("sample", SAMPLE)])


def test_a_hunk_further_down_goes_in_where_there_is_one_place(
    tmp_path: Path, runner: Runner, program: Path
) -> None:
    (tmp_path / "file").write_text("zero\none\ntwo\n")
    apply(runner, program, tmp_path, [("sample", SAMPLE)])
    assert (tmp_path / "file").read_text() == "zero\none\nnew\ntwo\n"


def test_what_applies_again_is_not_in(tmp_path: Path, runner: Runner, program: Path) -> None:
    """A line in the place of itself can be put in for ever."""
    (tmp_path / "file").write_text("one\ntwo\n")
    idle = b"why\n---\n--- a/file\n+++ b/file\n@@ -1,2 +1,2 @@\n one\n-two\n+two\n"
    with pytest.raises(NotApplied, match="second time"):
        apply(runner, program, tmp_path, [("sample", idle)])
