"""The result of a night, from values alone: which input changed, what is told of it, and in which words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_samples import rejected
from rows import CELL, LOCK, SOURCES, cell, stack

from stackwright.core.components.horovod.build import SCRIPT
from stackwright.core.errors import BuildError, PublishError, SiteError, StackwrightError, VerdictError
from stackwright.core.model.night import (
    Change,
    Difference,
    Failure,
    Kind,
    Margins,
    Morning,
    Pushed,
    RowNight,
    Stage,
    State,
    combine,
)
from stackwright.core.model.record import flatten
from stackwright.core.model.row import Cell, Lock, Package, Stack
from stackwright.core.render import dockerfile
from stackwright.core.render.sources import Sources
from stackwright.core.resolve import lockfile
from stackwright.host.project import Planned
from stackwright.nightly import judge
from stackwright.nightly.compare import differences, exit_code, stages, why_to_work
from stackwright.nightly.inputs import changes, declared_only, inputs, of_lock
from stackwright.nightly.words import markdown, text
from stackwright.records.history.builds import Build


def planned(found: Stack | None = None, sources: Sources = SOURCES) -> Planned:
    found = found or stack()
    return Planned(stack=found, recipe=dockerfile.render(found, sources))


def between(new: Planned, *, now: Cell = CELL, sources: Sources = SOURCES) -> list[tuple[Kind, str]]:
    """What changed from the real row to another state of it."""
    assert new.recipe.key != planned().recipe.key, "else nobody would ask"
    found = changes(inputs(CELL, planned(), SOURCES), inputs(now, new, sources))
    return [(change.kind, change.name) for change in found]


def relocked(text: str) -> Planned:
    return planned(stack(lock=lockfile.parse(text, "test")))


def test_a_package_is_told_by_name_and_not_by_its_hashes() -> None:
    new = LOCK.text.replace("cffi==2.1.1", "cffi==2.2.0")
    found = changes(of_lock(LOCK), of_lock(lockfile.parse(new, "test")))
    assert found == (Change(kind=Kind.PACKAGE, name="cffi", old="2.1.1", new="2.2.0"),)
    assert between(relocked(new)) == [(Kind.PACKAGE, "cffi")]


def test_other_files_of_the_same_versions_are_told_as_such() -> None:
    first = LOCK.text.index("--hash=sha256:") + len("--hash=sha256:")
    new = LOCK.text[:first] + "f" * 64 + LOCK.text[first + 64 :]
    assert between(relocked(new)) == [(Kind.FILES, "hashes")]


def test_the_base_and_a_package_of_the_distribution() -> None:
    new = LOCK.text.replace(LOCK.base.date, "20270101T000000Z").replace("2.41-12+deb13u4", "2.41-12+deb13u5")
    assert between(relocked(new)) == [(Kind.BASE, "debian-13"), (Kind.DISTRIBUTION, "libc6")]


def test_a_value_of_the_matrix() -> None:
    other = ("8.0", "9.0")
    new = planned(stack(gpu_arch=other))
    assert between(new, now=cell(gpu_arch=other)) == [(Kind.VALUE, "gpu_arch")]


@pytest.mark.parametrize("name", ["horovod.j2", "steps/horovod.j2", "macros.j2", "base.debian.j2"])
def test_a_template_that_the_row_is_made_of(name: str) -> None:
    texts = dict(SOURCES.templates)
    changed = replace(SOURCES, templates=tuple({**texts, name: texts[name] + "\n# other"}.items()))
    head = replace(changed, templates=tuple({**dict(changed.templates), "Dockerfile.j2": "# x"}.items()))
    assert (Kind.TEMPLATE, name) in between(planned(sources=head), sources=changed)


def test_a_template_of_another_base_is_not_named() -> None:
    texts = dict(SOURCES.templates)
    texts |= {"base.nvidia.j2": "# other", "final.j2": texts["final.j2"] + "\n# other"}
    changed = replace(SOURCES, templates=tuple(texts.items()))
    assert between(planned(sources=changed), sources=changed) == [(Kind.TEMPLATE, "final.j2")]


def test_a_patch_and_the_script_that_compiles() -> None:
    named = stack().patches[0]
    patches = tuple(
        replace(patch, content=patch.content + b"#\n") if patch.file == named else patch
        for patch in SOURCES.series.patches
    )
    other = SOURCES.with_file(SCRIPT, b"#!/bin/sh\n")
    changed = replace(other, series=replace(SOURCES.series, patches=patches))
    assert between(planned(sources=changed), sources=changed) == [
        (Kind.PATCH, named), (Kind.SCRIPT, "horovod/build-horovod.sh")
    ]  # fmt: skip


def test_what_nothing_explains_is_told_by_the_file_that_differs() -> None:
    """As when the code that renders changed: a key never changes without a word."""
    old, new = planned(), planned()
    files = tuple((name, b"x" if name == "Dockerfile" else content) for name, content in new.recipe.files)
    other = Planned(stack=new.stack, recipe=dockerfile.recipe(new.stack, dict(files)))
    found = changes(inputs(CELL, old, SOURCES), inputs(CELL, other, SOURCES))
    assert [(change.kind, change.name) for change in found] == [(Kind.CONTEXT, "Dockerfile")]


def test_of_a_build_before_the_first_night_its_record_still_tells() -> None:
    old = declared_only(flatten(dockerfile.declared(stack(nccl="2.20.0"))))
    found = changes(old, inputs(CELL, planned(), SOURCES))
    assert Change(kind=Kind.DECLARED, name="nccl", old="2.20.0", new="2.21.5") in found


def test_another_nccl_reaches_the_stages_after_it_alone() -> None:
    """In the real templates: what the stages base and toolchain are made of stays as it is, to the letter."""

    def made(nccl: str) -> dict[str, str]:
        text = LOCK.text.replace("nvidia-nccl-cu12==2.21.5", f"nvidia-nccl-cu12=={nccl}")
        of = replace(stack(nccl=nccl), lock=lockfile.parse(text, "test"))
        parts = planned(of).recipe.text("Dockerfile").split("\nFROM ")[1:]
        return {part.partition("\n")[0].rpartition(" AS ")[2]: part for part in parts}

    old, new = made("2.21.5"), made("2.27.7")
    assert {name for name in old if old[name] != new[name]} == {"horovod-wheel", "final"}
    assert "requirements.txt" in old["frameworks"], "which differs, and is read there"
    assert not any("requirements.txt" in old[name] for name in ("base", "toolchain"))


# -- what is to be done, and what came of it -------------------------------------------------------


def build(**values: object) -> Build:
    made = Build(
        id="row/20260101T000000Z-aaaaaaaaaaaa", row="row", key="a" * 64, lock="b" * 64,
        finished="2026", checks="c",
        host=("2", "1", "x86_64"), has_sif=False, proven=("docker",),
        sizes=(("image", "", 6_000_000_000), ("component", "torch", 1_000_000_000)),
        seconds=(("build", 300.0), ("probe docker", 60.0)),
        steps=(("[horovod 1/1] RUN x", 200.0, False), ("[base 2/2] RUN y", 9.0, True)),
    )  # fmt: skip
    return replace(made, **values)  # type: ignore[arg-type]


def why(last: Build | None, **values: object) -> str:
    asked = {"key": "a" * 64, "checks": "c", "worlds": ("docker",), "sif": False, **values}
    return why_to_work(last, str(asked.pop("key")), **asked)  # type: ignore[arg-type]


def test_why_a_row_is_worked_on() -> None:
    assert why(None) == "it was never finished before"
    assert why(build(), key="d" * 64) == "its key changed"
    assert why(build(), checks="other") == "the probes or the checks changed"
    assert why(build(proven=())) == "not done yet: docker"
    assert why(build(), sif=True) == "not done yet: sif"
    assert why(build()) == ""


def words(old: Build, new: Build, **margins: float) -> list[str]:
    return [
        f"{difference.what} {difference.word}" for difference in differences(old, new, Margins(**margins))
    ]


def test_only_what_crosses_the_margin_is_told() -> None:
    larger = build(sizes=(("image", "", 6_400_000_000), ("component", "torch", 1_010_000_000)))
    assert words(build(), larger) == ["image larger"]
    assert words(larger, build()) == ["image smaller"]
    assert words(build(), larger, size=0.5) == ["image larger", "torch larger"]
    assert words(build(), larger, size=50) == []


def test_a_build_is_compared_by_the_steps_that_ran_both_times() -> None:
    slow = build(steps=(("[horovod 1/1] RUN x", 300.0, False), ("[base 2/2] RUN y", 90.0, False)))
    assert words(build(), slow) == ["[horovod 1/1] RUN x slower"], "base came from the cache before"
    assert words(build(), build(seconds=(("build", 3000.0), ("probe docker", 80.0)))) == [
        "probe docker slower"
    ]
    assert words(build(), replace(slow, host=("64", "1", "x86_64"))) == [], "another class of machine"


def test_seconds_and_bytes_that_are_next_to_nothing_cross_no_margin() -> None:
    small = build(seconds=(("probe docker", 1.0),), sizes=(("sif", "", 1000),))
    assert words(small, build(seconds=(("probe docker", 5.0),), sizes=(("sif", "", 9000),))) == []


def test_stages_are_counted_without_from_and_export() -> None:
    steps = (
        ("[base 1/2] FROM x", 0.0, False), ("[base 2/2] RUN y", 1.0, True),
        ("exporting to image", 1.0, False), ("[final 1/1] COPY z", 1.0, False),
    )  # fmt: skip
    assert stages(build(steps=steps)) == (
        Stage(name="base", executed=0, cached=1), Stage(name="final", executed=1, cached=0)
    )  # fmt: skip


# -- the answer ------------------------------------------------------------------------------------

NUMPY = Change(kind=Kind.PACKAGE, name="numpy", old="2.2.3", new="2.2.4")
NCCL = Change(kind=Kind.VALUE, name="nccl", old="2.27.7", new="2.28.3")
FAILED = Failure(
    phase="build", reason="the disk is full (errno 28)", exit_code=7, known="disk-full", hint="free some",
    source="errno 28", log="out/b/build.log",
)  # fmt: skip
ROWS = (
    RowNight(row="a", state=State.REBUILT, why="its key changed", changes=(NUMPY,), seconds=61.0,
             differences=(Difference(what="image", unit="bytes", old=6e9, new=7e9),),
             pushed=Pushed(reference="r.example/a@sha256:1", digest="sha256:1", tags=("a",), sent_bytes=5,
                           present_bytes=7)),
    RowNight(row="b", state=State.FAILED, new=True, changes=(NUMPY,), failure=FAILED),
    RowNight(row="c", state=State.REBUILT, why="its key changed", changes=(NCCL, NUMPY)),
    RowNight(row="d", state=State.IMPOSSIBLE, new=True, rejection=rejected()),
    RowNight(row="e", state=State.UNRESOLVED, failure=Failure(phase="", reason="no answer", exit_code=11)),
    RowNight(row="f", state=State.UNCHANGED),
)  # fmt: skip


def morning(*rows: RowNight, **values: object) -> Morning:
    made = Morning(
        run="1", started="2026-01-01T03:00:00Z", finished="2026-01-01T04:00:00Z", matrix="matrix.yaml",
        locked=False, margins=Margins(), rows=rows or ROWS,
    )  # fmt: skip
    return replace(made, **values)  # type: ignore[arg-type]


def test_the_answer_says_everything_that_the_issue_asks_for() -> None:
    said = text(morning())
    for words in (
        "2 rebuilt, 1 failed, 1 not resolved, 1 impossible, 1 unchanged",
        "package numpy 2.2.3 -> 2.2.4\n      in a, b\n",
        "because matrix value nccl 2.27.7 -> 2.28.3\n      and with it package numpy 2.2.3 -> 2.2.4",
        "b in the phase build: the disk is full",
        "known cause: disk-full (errno 28)",
        "rule: one-cuda (https://github.com/pytorch/pytorch/issues/186591)",
        "image is larger: 6.0 GB -> 7.0 GB (+17 %)",
        "by more than 5 % of the bytes or 25 % of the time",
        "e (as in the night before): no answer",
        "Unchanged\n  f\n",
    ):
        assert words in said, words


def test_what_needs_a_person_comes_first() -> None:
    said = text(morning())
    order = [
        said.index(f"\n{title}\n") for title in ("Failed", "Newly impossible", "Not resolved", "Rebuilt")
    ]
    assert order == sorted(order)


def test_nothing_from_outside_becomes_markup_or_steers_a_terminal() -> None:
    evil = "x</details><img src=x> [a](b) `rm` **\x1b[2J\r\n## head"
    row = RowNight(row="a", state=State.FAILED, failure=Failure(phase="build", reason=evil, exit_code=7))
    said = markdown(morning(row))
    assert "<img" not in said.replace("\\<", "")
    assert "\x1b" not in said + text(morning(row))
    assert "\n## head" not in said
    assert "\\`rm\\`" in said


def test_the_exit_code_is_that_of_what_is_wrong() -> None:
    assert exit_code(morning()) == 7
    assert exit_code(morning(ROWS[3])) == 5
    assert exit_code(morning(replace(ROWS[3], new=False))) == 0, "it was told the night before"
    assert exit_code(morning(ROWS[4])) == 11
    unpublished = replace(ROWS[5], unpublished=Failure(phase="publish", reason="401", exit_code=13))
    assert exit_code(morning(unpublished)) == 13
    assert exit_code(morning(ROWS[0], ROWS[5])) == 0


def test_shards_of_a_night_become_one_morning() -> None:
    one, other = morning(*ROWS[:3]), morning(*ROWS[3:], run="2", started="2026-01-01T03:00:05Z")
    whole = combine([other, one])
    assert whole.rows == ROWS
    assert (whole.run, whole.started) == ("1 2", "2026-01-01T03:00:00Z")
    assert combine([one, one]).rows == ROWS[:3]


def test_a_thousand_unchanged_rows_are_counted() -> None:
    rows = [RowNight(row=f"row{number}", state=State.UNCHANGED) for number in range(1000)]
    assert "Unchanged\n  1000 rows\n" in text(morning(*rows))


def test_a_lock_with_another_compiler_is_told_too() -> None:
    wheels = (Package(name="nvidia-cuda-nvcc", version="13.2.1"),)
    newer: Lock = replace(LOCK, toolchain=wheels)
    (found,) = changes(
        of_lock(replace(newer, toolchain=(replace(wheels[0], version="13.2.0"),))), of_lock(newer)
    )
    assert (found.kind, found.old, found.new) == (Kind.COMPILER, "13.2.0", "13.2.1")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (VerdictError("5 checks failed", details=tuple("abcde")), "5 checks failed: a; b; c; 2 more"),
        (VerdictError("1 checks failed", details=("a",)), "1 checks failed: a"),
        (SiteError("no index", details=("Caused by: no route",)), "no index; Caused by: no route"),
        (BuildError("exit code: 3", details=("its last lines:", "  x")), "exit code: 3"),
        (PublishError("first line\nsecond line"), "first line"),
    ],
)
def test_an_error_is_one_line_of_the_answer(error: StackwrightError, reason: str) -> None:
    row = judge.published(RowNight(row="a", state=State.REBUILT), error)
    assert row.unpublished and row.unpublished.reason == reason
