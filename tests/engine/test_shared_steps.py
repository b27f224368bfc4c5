"""What really happens to steps that two rows share: at the same time, one after the other, after a prune."""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from own_engine import TINY, StartEngine
from report_samples import built
from rich.console import Console

from stackwright.build.display import Display
from stackwright.build.phases import recorded_steps
from stackwright.build.solve import Inputs, build
from stackwright.core.model.record import Record
from stackwright.core.model.row import Recipe
from stackwright.core.render.dockerfile import reference
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.records.report.sharing import sentence, sharing

STAGES = """
ARG BASE_IMAGE
FROM ${{BASE_IMAGE}} AS base
RUN --network=none echo {salt} base; sleep 0.4
FROM base AS toolchain
RUN --network=none echo {salt} toolchain; sleep 0.4
FROM base AS frameworks
RUN --network=none --mount=type=bind,source=requirements.txt,target=/in cat /in > /new; echo {salt}; sleep 0.4
FROM toolchain AS wheel
RUN --network=none --mount=type=bind,from=frameworks,source=/new,target=/in echo {salt} > /wheel; sleep 0.4
FROM base AS final
COPY --link --from=wheel /wheel /wheel
COPY --link row.json /row.json
"""
STEPS = 6


def recipe(row: str, salt: str, requirements: str = "torch") -> Recipe:
    files = {"Dockerfile": STAGES.format(salt=salt), "requirements.txt": requirements, "row.json": row}
    return Recipe(
        id=f"sharing-{row}",
        key=uuid4().hex * 2,
        files=tuple((name, text.encode()) for name, text in sorted(files.items())),
    )


def solve(
    made: Recipe, folder: Path, docker: Docker, runner: Runner, display: Display | None = None
) -> Record:
    shown = display or Display(Console(file=io.StringIO()))
    done = build(
        made, folder / made.key, Inputs(images=(("BASE_IMAGE", TINY),)), docker=docker, runner=runner,
        on_event=lambda event: shown.event(made.id, event),
    )  # fmt: skip
    return replace(built(row=made.id), steps=recorded_steps(done))


@pytest.fixture
def salt() -> str:
    """The engine remembers the steps of yesterday's tests: these are new to it."""
    return uuid4().hex


@pytest.fixture(autouse=True)
def _no_image_is_left(docker: Docker) -> Iterator[None]:
    yield
    with engine.connected(docker) as client:
        for row in ("a", "b"):
            for image in client.images.list(name=reference(recipe(row, "")).split(":")[0]):
                client.images.remove(str(image.id), force=True)


def at_once(
    recipes: tuple[Recipe, ...], folder: Path, docker: Docker, runner: Runner, display: Display | None = None
) -> tuple[Record, ...]:
    with ThreadPoolExecutor(max_workers=len(recipes)) as pool:
        return tuple(pool.map(lambda made: solve(made, folder, docker, runner, display), recipes))


def test_rows_built_one_after_the_other_find_what_they_share_in_the_cache(
    docker: Docker, runner: Runner, tiny: str, tmp_path: Path, salt: str
) -> None:
    records = [solve(recipe(row, salt), tmp_path, docker, runner) for row in ("a", "b")]
    found = sharing(records)
    assert (found.steps, found.distinct, found.executed) == (2 * STEPS, STEPS + 1, STEPS + 1)
    assert found.repeated == ()


def test_rows_built_at_the_same_time_share_each_execution(
    docker: Docker, runner: Runner, tiny: str, tmp_path: Path, salt: str
) -> None:
    log = io.StringIO()
    display = Display(Console(file=log, width=400))
    records = at_once((recipe("a", salt), recipe("b", salt)), tmp_path, docker, runner, display)
    found = sharing(records)
    assert sentence(found) == "steps: 12 in 2 rows, 7 distinct: 7 executed, 0 from the cache, none twice"
    done = [line for line in log.getvalue().splitlines() if " done " in line]
    for name in ("base packages", "compilers and MPI", "frameworks"):
        assert sum(line.endswith(f" s {name}") for line in done) == 1


def test_a_file_that_differs_makes_another_step_of_what_reads_it(
    docker: Docker, runner: Runner, tiny: str, tmp_path: Path, salt: str
) -> None:
    rows = (recipe("a", salt), recipe("b", salt, "tensorflow"))
    found = sharing(at_once(rows, tmp_path, docker, runner))
    assert (found.steps, found.repeated) == (2 * STEPS, ())
    shared = {"base", "toolchain"}
    assert found.distinct == 2 * STEPS - len(shared)


def test_what_was_built_before_is_from_the_cache(
    docker: Docker, runner: Runner, tiny: str, tmp_path: Path, salt: str
) -> None:
    solve(recipe("a", salt), tmp_path, docker, runner)
    found = sharing([solve(recipe("a", salt), tmp_path, docker, runner)])
    assert (found.executed, found.cached) == (0, STEPS)


def test_steps_that_ran_again_after_a_prune_are_counted_twice(
    start_engine: StartEngine, runner: Runner, tmp_path: Path, salt: str
) -> None:
    """The steps that read the context have another digest in the second solve, and are found all the same."""
    own, made = start_engine().docker, recipe("a", salt)
    first = solve(made, tmp_path, own, runner)
    engine.remove(own, reference(made))
    assert runner(own.command("builder", "prune", "--all", "--force")).ok
    found = sharing([first, solve(recipe("b", salt), tmp_path, own, runner)])
    assert {repeated.times for repeated in found.repeated} == {2}
    assert len(found.repeated) == STEPS - 1, "all but the row's own"
    assert f"{STEPS - 1} more than once" in sentence(found)
