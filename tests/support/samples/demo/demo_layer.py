"""A trial: a communication layer in plain Python over sockets, added to the table by this one file.

It is what ``stackwright/core/components/NAME.py`` would be; its probe is ``demo.py`` in this folder.
"""

from __future__ import annotations

from stackwright.core.checks.check import Facts, Finding, Rule, finding, take
from stackwright.core.components.component import Build, Component, Field, Kind, Place, Placed
from stackwright.core.components.shared.wheel_rules import rule
from stackwright.core.facts.provenance import read
from stackwright.core.model.row import Cell, Stack, Tier
from stackwright.core.render.sources import Sources
from stackwright.core.rules.rule import About, Answer, Clash, Ruling

RELEASE = "1.0"
MODULE = '''"""Sums lists of numbers over ranks: each sends its own to rank 0, which answers with the sum."""

import json
import socket
import time


def allreduce(values, rank, size, port):
    if rank == 0:
        return _gather(values, size, port)
    for attempt in range(100):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as server:
                return _exchange(server, values)
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise TimeoutError("rank 0 does not listen")


def _exchange(server, values):
    server.sendall(json.dumps(values).encode() + b"\\n")
    return json.loads(server.makefile().readline())


def _gather(values, size, port):
    total, others = list(values), []
    with socket.create_server(("127.0.0.1", port)) as server:
        while len(others) < size - 1:
            other, _ = server.accept()
            others.append(other)
            sent = json.loads(other.makefile().readline())
            total = [one + two for one, two in zip(total, sent)]
        for other in others:
            with other:
                other.sendall(json.dumps(total).encode() + b"\\n")
    return total
'''
METADATA = f"Metadata-Version: 2.1\nName: demo\nVersion: {RELEASE}\n"

INSTALL = """{% import "steps/demo.j2" as steps with context -%}
{% from "macros.j2" import layer with context -%}
RUN --mount=type=bind,source=demo,target=/demo \\
{{ layer(steps.install()) | as_run }}
"""
STEPS = """{% macro install() -%}
cp -r /demo/. /opt/stack/lib/python3*/site-packages/
{%- endmacro %}
"""


def _context(stack: Stack, sources: Sources) -> dict[str, bytes]:
    return {
        "demo/demo.py": MODULE.encode(),
        f"demo/demo-{RELEASE}.dist-info/METADATA": METADATA.encode(),
    }


def _release(cell: Cell) -> Answer:
    version = cell.value("demo")
    if version is None:
        return Ruling.SILENT
    if version == RELEASE:
        return Ruling.FITS
    return Clash(values=(("demo", version),), reason=f"its one release is {RELEASE}")


def _allreduce(stack: Stack, facts: Facts) -> Finding:
    ranks = take(facts, "demo", "ranks")
    total = [sum(column) for column in zip(*(rank["given"] for rank in ranks), strict=True)]
    wrong = [rank for rank in ranks if rank["sum"] != total]
    problems = [f"rank {rank['rank']} has the sum {rank['sum']}, and {total} is right" for rank in wrong]
    return finding(problems or ([] if len(ranks) > 1 else ["there is no second rank"]), f"{len(ranks)} ranks")


DEMO = Component(
    name="demo",
    title="Demo",
    kind=Kind.COMMUNICATION,
    package="demo",
    license="MIT",
    source="https://example.org/demo",
    field=Field(
        description="A layer in plain Python.", example=RELEASE, prefix="demo", cost=2.5, pep440=False,
        releases=(RELEASE,),
    ),
    requires=lambda cell: ("cloudpickle",),
    locked=False,
    imports=lambda stack: ("demo",),
    words=lambda stack, gpus: {Tier.COLLECTIVE: ("demo",)},
    checks=(
        Rule(id="demo.allreduce", tier=Tier.COLLECTIVE, judge=_allreduce, needs=("link.import",),
             why="The sum over ranks is right."),
    ),
    build=Build(
        folder="demo", context=_context, install="demo-install.j2", steps="steps/demo.j2",
        templates=(("demo-install.j2", INSTALL), ("steps/demo.j2", STEPS)),
    ),
    rules=(
        Placed(
            at=Place.RELEASE + 70,
            rule=rule("demo", ("demo",), read("this file", "2026-11-22"), _release, "it has one release",
                      about=About.RELEASE),
        ),
    ),
)  # fmt: skip
