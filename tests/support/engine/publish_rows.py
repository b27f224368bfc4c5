"""Publishes rows that a test has made, as a process that the test can kill."""

from __future__ import annotations

import sys
from pathlib import Path

from publishing import Rows, publisher

from stackwright.core.model.row import Recipe
from stackwright.engines import docker
from stackwright.host.project import Planned
from stackwright.host.runner import Runner
from stackwright.publish import publish_rows
from stackwright.publish.registry.client import Access

if __name__ == "__main__":
    out, address, *named = sys.argv[1:]
    runner = Runner()
    rows = Rows(Path(out), docker.find(runner), runner)
    planned = []
    for word in named:
        name, _, key = word.partition("=")
        planned.append(Planned(stack=rows.stack_of(name), recipe=Recipe(id=name, key=key, files=())))
    said: list[str] = []
    publish_rows(publisher(rows, Access(host=address, plain=True), said), planned)
