"""Which steps are the same in several solves, and how often each ran: from what BuildKit really said."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from report_samples import NOON, built
from rich.console import Console

from stackwright.build.display import Display
from stackwright.build.rows import Session, document
from stackwright.core.model.record import Record
from stackwright.core.model.record import Step as Recorded
from stackwright.engines.buildkit.progress import Event, EventKind, Step
from stackwright.engines.buildkit.steps import CONTEXT, own_steps
from stackwright.records.files import write
from stackwright.records.report.page import page
from stackwright.records.report.sharing import executions, of_files, sentence, sharing

START = datetime(2026, 3, 2, 6, 0, tzinfo=UTC)
FILES = {"requirements.txt": b"torch", "row.json": b"{}", "horovod/a.patch": b"a", "horovod/b/c": b"c"}
FRAMEWORKS = (
    "RUN --mount=type=secret,id=ca --mount=type=bind,source=requirements.txt,target=/tmp/r pip install"
)


def vertex(
    digest: str, name: str, *inputs: str, cached: bool = False, at: float = 0, took: float = 2
) -> Step:
    started = START + timedelta(seconds=at)
    took = 0 if cached else took
    return Step(name=name, digest=digest, inputs=inputs, cached=cached, started=started,
                completed=started + timedelta(seconds=took))  # fmt: skip


def solve(*steps: Step) -> dict[str, Step]:
    return {step.digest: step for step in steps}


def alone(context: str = "c1", text: str = FRAMEWORKS) -> dict[str, Step]:
    """A solve with nobody beside it: a base, and a step that reads a file of the context."""
    return solve(
        vertex(f"reads-{context}", f"[frameworks 1/1] {text}", "base", context),
        vertex(context, CONTEXT),
        vertex("base", "[base 2/2] RUN apt-get", "from"),
        vertex("from", "[base 1/2] FROM docker.io/x", cached=True),
        vertex("definition", "[internal] load build definition from Dockerfile"),
        vertex("export", "exporting to image"),
    )


BESIDE = solve(
    vertex("row-2", "[final 2/2] COPY row.json /row.json", "wheel-2", "c2"),
    vertex("wheel-2", "[final 1/2] COPY --from=wheel /w /w", "base", "reads-2", cached=True),
    vertex("reads-2", f"[frameworks 1/1] {FRAMEWORKS}", "base", "c2", cached=True),
    vertex("c2", CONTEXT),
    vertex("base", "[base 2/2] RUN apt-get", "from"),
    vertex("from", "[base 1/2] FROM docker.io/x", cached=True),
    vertex("reads-1", f"[frameworks 1/1] {FRAMEWORKS}", "base", "c1", at=3),
    vertex("wheel-1", "[final 1/2] COPY --from=wheel /w /w", "base", "reads-1", at=6),
)
"""As told by the second of two solves that ran side by side: it has the first one's vertices as well."""


def identities(steps: dict[str, Step], files: dict[str, bytes]) -> dict[str, str]:
    return {step.name.split(" ")[0]: step.identity for step in own_steps(steps, files) if step.identity}


# -- identity ----------------------------------------------------------------------------------------


def test_what_reads_the_context_is_the_same_step_in_another_solve() -> None:
    assert identities(alone("c1"), FILES) == identities(alone("c2"), FILES)


def test_what_does_not_read_the_context_has_buildkit_s_own_digest() -> None:
    assert {step.identity for step in own_steps(alone(), FILES)} > {"base", "from"}


@pytest.mark.parametrize(
    ("text", "changed", "same"),
    [
        (FRAMEWORKS, "requirements.txt", False),
        (FRAMEWORKS, "row.json", True),
        ("RUN --mount=source=horovod,target=/h make", "horovod/b/c", False),
        ("RUN --mount=type=bind,src=./horovod/,target=/h make", "horovod/a.patch", False),
        ("RUN --mount=type=bind,source=horovod,target=/h make", "row.json", True),
        ("RUN --mount=type=bind,source=horovod/a.patch,target=/h make", "horovod/b/c", True),
        ("COPY --link row.json horovod /etc/", "row.json", False),
        ("COPY --link row.json horovod /etc/", "horovod/a.patch", False),
        ("COPY --link row.json horovod /etc/", "requirements.txt", True),
        ("COPY . /all", "row.json", False),
        ("COPY *.json /all", "requirements.txt", False),
        ("RUN --mount=type=bind,target=/all make", "row.json", False),
    ],
)
def test_a_step_is_another_one_if_a_file_that_it_reads_is(text: str, changed: str, same: bool) -> None:
    """Where the text does not say which files, every file counts."""
    other = {**FILES, changed: b"other"}
    assert (identities(alone(text=text), FILES) == identities(alone(text=text), other)) is same


def test_another_text_or_another_input_is_another_step() -> None:
    first = identities(alone(), FILES)["[frameworks"]
    assert identities(alone(text=FRAMEWORKS + " more"), FILES)["[frameworks"] != first
    other = {
        digest: replace(
            step, inputs=tuple("base-2" if source == "base" else source for source in step.inputs)
        )
        for digest, step in alone().items()
    }
    assert identities({**other, "base-2": other["base"]}, FILES)["[frameworks"] != first


def test_a_step_that_ran_for_two_solves_at_once_is_told_as_run_in_both() -> None:
    told = {step.name: step for step in own_steps(BESIDE, FILES)}
    assert len(told) == len(own_steps(BESIDE, FILES)) == 5
    reads = told[f"[frameworks 1/1] {FRAMEWORKS}"]
    assert (reads.cached, reads.digest, reads.seconds) == (False, "reads-1", 2)
    assert told["[final 1/2] COPY --from=wheel /w /w"].digest == "wheel-1"
    assert told["[base 1/2] FROM docker.io/x"].cached


def test_buildkit_s_own_steps_are_not_told_and_the_export_is() -> None:
    names = [step.name for step in own_steps(alone(), FILES)]
    assert "exporting to image" in names
    assert not [name for name in names if name.startswith("[internal]")]


def test_the_registry_of_the_site_s_cache_is_not_told() -> None:
    name = "importing cache manifest from registry.planted.example:5000/hpc/cache:row"
    names = [step.name for step in own_steps(alone() | solve(vertex("import", name)), FILES)]
    assert "importing cache manifest" in names and not any("planted" in name for name in names)


# -- counting ----------------------------------------------------------------------------------------


def ran(
    digest: str, at: float = 0, *, cached: bool = False, took: float = 2, identity: str = "x"
) -> Recorded:
    started = (START + timedelta(seconds=at)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Recorded(name="[base 2/2] RUN apt-get", seconds=0 if cached else took, cached=cached,
                    digest=digest, identity=identity, started=started)  # fmt: skip


def row(name: str, *steps: Recorded) -> Record:
    return built(row=name, steps=steps)


@pytest.mark.parametrize(
    ("steps", "times"),
    [
        ((ran("a"), ran("a", cached=True, at=9)), 1),
        ((ran("a"), ran("a", 0.001), ran("a", 1.5)), 1),
        ((ran("a", took=0), ran("a", 0.001, took=0)), 1),
        ((ran("a"), ran("a", 60)), 2),
        ((ran("a"), ran("b", 0.5)), 2),
        ((ran("a"), ran("b", 60), ran("a", 120)), 3),
        ((ran("a", cached=True), ran("b", cached=True)), 0),
        ((ran("a", took=10), ran("a", 1, took=1), ran("a", 5)), 1),
    ],
)
def test_an_execution_is_one_digest_at_one_time(steps: tuple[Recorded, ...], times: int) -> None:
    assert executions(steps) == executions(reversed(steps)) == times


def test_the_line_adds_up() -> None:
    first = row("one", ran("a"), ran("b", identity="y"), ran("old", cached=True, identity="z"))
    second = row("two", ran("a", 0.001), ran("c", identity="own"))
    found = sharing([first, second])
    assert sentence(found) == "steps: 5 in 2 rows, 4 distinct: 3 executed, 1 from the cache, none twice"
    assert found.executed + found.cached == found.distinct


def test_a_step_that_ran_twice_is_named_with_its_rows() -> None:
    line, named = sentence(sharing([row("one", ran("a")), row("two", ran("b", 60))])).splitlines()
    assert line == "steps: 2 in 2 rows, 1 distinct: 1 executed, 0 from the cache, 1 more than once"
    assert named == "  2 times, in one, two: base packages"


def test_from_and_export_are_no_steps() -> None:
    names = ("[base 1/2] FROM docker.io/x", "exporting to image", "[1/2] WORKDIR /x", "[a  9/12] COPY a b")
    record = row("one", *(replace(ran(name, identity=name), name=name) for name in names))
    assert sharing([record]).steps == 2


def test_of_records_that_do_not_tell_steps_apart_nothing_is_said() -> None:
    old = built()
    assert sentence(sharing([old])) == sentence(sharing([])) == ""
    assert sentence(sharing([old, row("one", ran("a"))])).endswith("none twice; nothing is known of 1 row")


def test_the_page_has_the_line() -> None:
    record = row("one", ran("a"))
    assert sentence(sharing([record])) in page((record,), [], NOON)
    assert "steps: " not in page((built(),), [], NOON)


def test_a_document_of_records_says_it_in_json_types() -> None:
    told = document(Session(records=(row("one", ran("a")), row("two", ran("b", 60)))))["steps"]
    assert json.loads(json.dumps(told))["repeated"] == [
        {"name": "base packages", "times": 2, "rows": ["one", "two"]}
    ]


def test_the_line_is_derived_from_files(tmp_path: Path) -> None:
    paths = [str(write(row(name, ran("a")), tmp_path)) for name in ("one", "two")]
    assert of_files(paths) == "steps: 2 in 2 rows, 1 distinct: 1 executed, 0 from the cache, none twice"


# -- the log -----------------------------------------------------------------------------------------


def test_the_log_tells_a_shared_execution_once_and_a_second_one_again() -> None:
    console = Console(file=io.StringIO(), width=200)
    display = Display(console)
    for at, name in ((0.0, "one"), (0.00004, "two"), (60.0, "two")):
        for kind in (EventKind.STARTED, EventKind.DONE):
            display.event(
                name,
                Event(kind=kind, step="[base 2/2] RUN x", digest="a", started=START + timedelta(seconds=at)),
            )
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert [line.split("]")[0] for line in lines] == ["[one", "[one", "[two", "[two"]
