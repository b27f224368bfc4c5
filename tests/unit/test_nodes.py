"""Where rows are sent, and what they share, without any node."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from stackwright.build.display import Display
from stackwright.build.nodes import rows as session
from stackwright.build.nodes.address import Host, Kind, address
from stackwright.core.errors import NodesError, UsageError
from stackwright.core.model.row import Recipe
from stackwright.core.render.instructions import instructions
from stackwright.core.render.shared_stages import Piece, cut, pieces
from stackwright.engines.stage_cache import Cache, options
from stackwright.host.project import Project, cells, plan

ROOT = Path(__file__).parents[2]
STAGES = """\
# a remark
ARG BASE_IMAGE=debian:trixie-slim
FROM ${{BASE_IMAGE}} AS base
RUN base
FROM base AS toolchain
RUN gcc {gcc} \\
    and more
FROM base AS frameworks
RUN {frameworks}
FROM toolchain AS wheel
RUN --mount=type=bind,from=frameworks,source=/new,target=/in make
FROM base AS final
RUN packages
COPY --link --from=wheel /wheel /wheel
"""


def recipe(name: str, gcc: int, frameworks: str) -> Recipe:
    text = STAGES.format(gcc=gcc, frameworks=frameworks)
    return Recipe(id=name, key="0" * 64, files=(("Dockerfile", text.encode()),))


def found(*recipes: Recipe) -> dict[str, Piece]:
    return {piece.stage: piece for piece in pieces(recipes)}


def test_what_two_rows_share_is_a_piece_after_what_it_builds_on() -> None:
    one, two, three = recipe("a", 13, "torch"), recipe("b", 13, "torch 2"), recipe("c", 14, "torch")
    made = found(one, two, three)
    assert {name: piece.rows for name, piece in made.items()} == {
        "base": ("a", "b", "c"), "toolchain": ("a", "b"), "frameworks": ("a", "c"), "final": ("a", "b", "c"),
    }  # fmt: skip
    assert made["base"].after == ()
    assert {made[name].after for name in ("toolchain", "frameworks", "final")} == {(made["base"].identity,)}
    assert (
        cut(one, made["toolchain"].end)
        .text("Dockerfile")
        .endswith("FROM base AS toolchain\nRUN gcc 13 \\\n    and more\n")
    )
    assert cut(one, made["final"].end).text("Dockerfile").endswith("FROM base AS final\nRUN packages\n")


def test_a_stage_that_is_shared_to_its_end_is_one_piece_with_all_that_it_builds_on() -> None:
    made = found(recipe("a", 13, "torch"), recipe("b", 13, "torch"))
    assert set(made) == {"base", "toolchain", "frameworks", "wheel", "final"}
    below = {made[name].identity for name in ("base", "toolchain", "frameworks")}
    assert set(made["wheel"].after) == below
    assert set(made["final"].after) == {*below, made["wheel"].identity}


def test_a_row_alone_shares_nothing() -> None:
    assert pieces([recipe("a", 13, "torch")]) == ()


def test_what_is_left_of_a_cut_file_is_the_same_to_everyone() -> None:
    """The identities of the real rows: those of a cut Dockerfile are the first ones of the whole."""
    project = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=ROOT / "out")
    rows = {row.stack.id: row.recipe for row in plan(project, cells(project)).rows}
    made = pieces(rows.values())
    assert {piece.stage for piece in made} >= {"base", "toolchain"}
    for piece in made:
        whole = rows[piece.row]
        assert [instruction.identity for instruction in instructions(cut(whole, piece.end))][
            -1
        ] == piece.identity


def test_addresses(tmp_path: Path) -> None:
    assert address("tcp://10.0.0.1:8786").scheduler == "tcp://10.0.0.1:8786"
    assert address("tls://head:8786").kind is Kind.SCHEDULER
    assert address("slurm").kind is Kind.SLURM
    hosts = tmp_path / "hosts"
    hosts.write_text("# nodes\nnode-1\n\n  # indented\nnode-2.site gpus=4  # the big one\n")
    assert address(f"ssh:{hosts}").hosts == (Host(name="node-1"), Host(name="node-2.site", gpus=4))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kubernetes",
        "tcp://",
        "tcp://a",
        "tcp://a:1\n",
        "tcp://a:1 --x",
        "http://a:1",
        "slurm ",
        "ssh:/none",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        address(text)


@pytest.mark.parametrize("line", ["-oProxyCommand=x", "a b", "a;b", "$(a)", "a gpus=-1", "a gpus=999"])
def test_a_host_that_is_none_is_named_with_its_line(line: str, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text(f"fine\n{line}\n")
    with pytest.raises(UsageError, match=r"hosts:2: not a host"):
        address(f"ssh:{hosts}")


def test_a_cache_names_a_stage_by_what_it_is_of() -> None:
    made = Cache(repository="registry.site:5000/stackwright-cache")
    base = "stackwright/base:debian-13-20260912T075541Z"
    assert made.base(base) == "registry.site:5000/stackwright-cache:base-debian-13-20260912T075541Z"
    one, other = (made.stage("abc", (("BASE_IMAGE", f"{base}{end}"),)) for end in ("", "2"))
    assert one != other
    assert options([one]) == ("--cache-from", f"type=registry,ref={one}")


# -- rows that wait for a GPU ----------------------------------------------------------------------


class Workers:
    """What a scheduler says of its workers: the resources of each."""

    def __init__(self, *resources: dict[str, float]) -> None:
        self._workers = {
            f"tcp://node{number}:1": {"resources": given} for number, given in enumerate(resources)
        }

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": self._workers}


def a_run(*resources: dict[str, float], said: io.StringIO) -> session._Run:
    nodes: Any = Workers(*resources)
    shared: Any = None
    return session._Run(
        client=nodes, shared=shared, wanted=(), rows=[], on_gpu=frozenset({"with-gpu"}), jobs=1,
        display=Display(Console(file=said, width=200)),
    )  # fmt: skip


def looked(*resources: dict[str, float], running: tuple[str, ...], said: io.StringIO) -> float:
    """When someone was last there to work on what runs, from now; before, it was long ago."""
    run = a_run(*resources, said=said)
    return run._look(time.monotonic() - 601, 600.0, running) - time.monotonic()


def test_that_nobody_works_is_said_once_each_time() -> None:
    said = io.StringIO()
    run = a_run(said=said)
    for seen in (1.0, 1.0, 1.0, 2.0, 2.0):
        assert run._look(seen, None, ("other",)) == seen
    assert said.getvalue().count("no worker with the resource engine is left") == 2


def test_a_row_that_waits_for_a_gpu_that_no_worker_has_ends_the_run() -> None:
    """Dask would let it wait for ever."""
    engine, said = {"engine": 1.0}, io.StringIO()
    assert looked(engine, running=("with-gpu", "other"), said=said) > -1, "the other one has a worker"
    assert looked(engine, {**engine, "GPU": 1.0}, running=("with-gpu",), said=said) > -1
    assert said.getvalue() == ""
    with pytest.raises(NodesError, match="no worker with the resource engine and GPU for 10 minutes"):
        looked(engine, running=("with-gpu",), said=said)
    assert "engine and GPU is left; waiting for one" in said.getvalue()


def test_hosts_without_a_gpu_are_refused_at_once_where_a_row_needs_one(tmp_path: Path) -> None:
    path = tmp_path / "hosts.txt"
    path.write_text("node1\nnode2\n")
    with pytest.raises(UsageError, match="no host has a GPU, and a-row is tested on one"):
        session._require_gpu(address(f"ssh:{path}"), ("a-row",))
    session._require_gpu(address(f"ssh:{path}"), ())
    path.write_text("node1\nnode2 gpus=1\n")
    session._require_gpu(address(f"ssh:{path}"), ("a-row",))
