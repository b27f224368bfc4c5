"""Each step of each shipped row has a plain name, which a record of it is shown with as well."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from report_samples import built
from rows import ROOT
from shipped_rows import ROWS

from stackwright.build import solve
from stackwright.core.components.table import installed
from stackwright.core.model.record import Layer, Phase, Record, Step, Timing
from stackwright.core.render.instructions import instructions, logical_lines
from stackwright.core.render.layers import LAYERED, purposes
from stackwright.core.steps.names import of_record, of_recorded, plain, wheels
from stackwright.engines.buildkit.progress import Progress, short, shown
from stackwright.host.project import Planned
from stackwright.records.files import load, write
from stackwright.records.last_time import last_time
from stackwright.records.report.page import NOTHING, _row

SHELL = re.compile(r"\b(RUN|COPY|FROM|ADD)\b|[$(){}\[\];|]|--|/\w+/")
EXTENDED = next(row for row in ROWS if row.stack.id == "cuda12-llm")


def vertices(row: Planned) -> list[str]:
    """As BuildKit calls them: it puts an instruction on one line, and pads the number."""
    lines = logical_lines(row.recipe.text("Dockerfile"))
    found = list(instructions(row.recipe))
    totals = {instruction.stage: instruction.number for instruction in found}
    return [
        f"[{instruction.stage} {instruction.number:>{len(str(totals[instruction.stage]))}}"
        f"/{totals[instruction.stage]}] " + lines[instruction.end - 1].replace("\\\n", "")
        for instruction in found
    ]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.stack.id)
def test_every_step_of_a_shipped_row_has_a_name_of_its_own_without_shell(row: Planned) -> None:
    names = [plain(vertex) for vertex in vertices(row)]
    assert all(names), names
    assert [name for name in names if SHELL.search(name) or len(name) > 40] == []
    assert len(set(names)) == len(names)


def recorded(row: Planned) -> Record:
    """What a record has: names without mounts, cut, in any order, and the layers with their purposes."""
    told = purposes(row.recipe, installed(row.stack))
    texts = [vertex.partition("] ")[2] for vertex in vertices(row) if re.match(r"\[(base|final) ", vertex)]
    made = [text for text in texts if text.startswith(LAYERED)]
    assert len(made) == len(told), "a runtime image has the layers of base and final"
    base = Layer(created_by="ADD base.tar / # buildkit", what="base", bytes=1)
    own = [Layer(created_by=text[:120], what=what, bytes=1) for text, what in zip(made, told, strict=True)]
    steps = tuple(Step(name=short(name), seconds=9) for name in reversed(vertices(row)))
    return replace(built(row=row.stack.id), steps=steps, layers=(base, *own))


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.stack.flavour == "runtime"], ids=lambda row: row.stack.id
)
def test_a_record_is_shown_with_the_names_that_the_log_has(row: Planned) -> None:
    assert of_record(recorded(row)) == tuple(plain(vertex) for vertex in reversed(vertices(row)))


def test_layers_that_do_not_fit_name_nothing_wrongly() -> None:
    whole = recorded(EXTENDED)
    right = dict(zip((step.name for step in whole.steps), of_record(whole), strict=True))
    unfit: tuple[tuple[Layer, ...], ...] = ((), whole.layers[:-1], whole.layers[2:][::-1])
    for layers in unfit:
        names = of_record(replace(whole, layers=layers))
        for step, name in zip(whole.steps, names, strict=True):
            assert name == right[step.name] or re.fullmatch(r"final: step \d+", name), name


def test_names_say_what_is_done() -> None:
    names = [plain(vertex) for vertex in vertices(EXTENDED)]
    assert names == [
        "base packages", "compilers and MPI", "frameworks", "Horovod: compile", "more compilers",
        "DeepSpeed: compile", "mpi4py: compile", "own Python packages: download", "runtime packages",
        "NVIDIA libraries: copy", "NCCL: copy", "PyTorch: copy", "other Python packages: copy",
        "Horovod: install", "compiled packages: install", "own Python packages: install",
        "folders and settings", "working folder",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("[base 1/2] FROM docker.io/stackwright/base:debian-13", "base image"),
        ("[cuda 1/1] FROM docker.io/nvidia/cuda:12.8", "CUDA image"),
        ("[linux/amd64 toolchain 1/2] RUN apt-get update", "compilers and MPI"),
        ("[toolchain 2/2] COPY --link --from=cuda /usr/local/cuda-12.8 /usr/local/cuda", "CUDA compiler"),
        ("[compiled-torch-scatter 1/1] RUN x", "torch-scatter: compile"),
        (
            "[final  2/10] RUN --mount=type=cache,id=apt-archives-debian-13,target=/var/cache/apt x",
            "own system packages",
        ),
        ("[final 3/9] RUN --mount=type=bind,source=files,target=/tmp/files cp", "own files: copy"),
        ("[final 3/9] RUN echo 1", ""),
        ("[2/9] RUN echo 1", ""),
        ("exporting to image", ""),
        (f"[base {'9' * 5000}/1] RUN x", ""),
        ("", ""),
    ],
)
def test_a_step_is_named_by_its_stage_and_what_it_does(step: str, name: str) -> None:
    assert plain(step) == name
    assert shown(step) == (name or short(step))


def test_a_recorded_step_of_which_too_little_is_known_is_named_by_its_place() -> None:
    assert of_recorded('[final 9/9] RUN began=$(date --date="10 minutes ago"); install') == "final: step 9"
    assert of_recorded("[1/2] RUN x") == "final: step 1"
    assert of_recorded("exporting to image") == "exporting to image"


RESULTS = sorted((ROOT / "docs" / "results").glob("*/*.json"))


def test_every_step_of_the_committed_results_has_a_name_and_the_page_has_it() -> None:
    records = [load(path) for path in RESULTS]
    assert len(records) > 9
    for record in records:
        names = of_record(record)
        assert [name for name in names if SHELL.search(name) or ": step" in name] == []
        shown_steps = [bar.label for bar in _row(record, (), (), NOTHING).steps]
        assert shown_steps and set(shown_steps) <= set(names)


def test_wheels_are_counted_in_the_lock() -> None:
    counts = {row.stack.id: wheels(row.recipe) for row in ROWS}
    assert counts["cuda12-all"] == {"frameworks": 66}, "as many as the log of its build has"
    assert counts["cuda12-llm"].keys() == {"frameworks", "own Python packages: download"}
    assert all(count > 9 for found in counts.values() for count in found.values())


def told(name: str, seconds: float, *, cached: bool = False) -> Step:
    return Step(name=f"[{name} 1/1] RUN x", seconds=seconds, cached=cached)


def test_what_ran_last_says_how_long_it_takes_and_a_cache_does_not(tmp_path: Path) -> None:
    phases = tuple(Timing(phase=phase, seconds=30) for phase in (Phase.BUILD, Phase.SIF))
    runs = (
        (told("toolchain", 90), told("frameworks", 40), told("base", 4)),
        (told("toolchain", 120),),
        (told("toolchain", 0.1, cached=True), replace(told("frameworks", 9), outcome="failed")),
    )
    for second, steps in enumerate(runs):
        write(built(steps=steps, timings=phases, started=f"2026-03-01T12:00:0{second}Z"), tmp_path)
    (tmp_path / built().row / "9-damaged.json").write_text("{")
    found = last_time(tmp_path, built().row)
    assert found.steps == {"compilers and MPI": 120, "frameworks": 40}
    assert found.phases == {Phase.SIF: 30}
    assert last_time(tmp_path, "never-built").steps == {}


def test_the_log_has_the_name_and_the_text_and_a_failure_the_name(tmp_path: Path) -> None:
    vertex = "[frameworks 1/1] RUN pip install"
    started = {"digest": "a", "name": vertex, "started": "2026-01-02T03:04:05Z"}
    failed = {**started, "completed": "2026-01-02T03:04:07Z", "error": "exit code: 3"}
    progress, log = Progress(), tmp_path / "build.log"
    with log.open("w") as file:
        for update in (started, failed):
            events = progress.feed(json.dumps({"vertexes": [update]}))
            solve._follow(events, file, lambda event: None)
    lines = ["--- started: frameworks: " + vertex, "--- failed 2.0 s: frameworks: " + vertex]
    assert log.read_text().splitlines() == lines
    failure = solve._failure("a-row", progress, log, ("docker", "build", "context"))
    assert failure.place == "a-row: frameworks"
    assert "docker build --target frameworks context" in failure.advice
