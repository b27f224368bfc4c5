"""An image that was built FROM a row's image has its labels, and is told from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import rows

from stackwright.build import derived
from stackwright.core.errors import EngineError, UsageError
from stackwright.core.model import labels
from stackwright.core.model.row import Recipe
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.project import Planned
from stackwright.host.runner import Runner

pytestmark = pytest.mark.engine

KEY = "5e" * 32
ROW = f"""\
LABEL {labels.OCI}title='row' \\
      {labels.ROW}='row' {labels.KEY}='{KEY}'
USER user
WORKDIR /tmp
ENTRYPOINT ["/bin/sh", "-c"]
CMD ["/bin/sh"]
"""
Build = Callable[[str, str], str]


@pytest.fixture
def build(docker: Docker, runner: Runner, tiny: str, tmp_path: Path) -> Iterator[Build]:
    made: list[str] = []

    def run(parent: str, text: str) -> str:
        name = f"stackwright-test/derived-{uuid4().hex[:12]}:1"
        (tmp_path / "Dockerfile").write_text(f"FROM {parent}\n{text}")
        done = runner(docker.build("--network=none", "--tag", name, tmp_path))
        assert done.ok, done.stderr
        made.append(name)
        return name

    yield run
    for name in reversed(made):
        engine.remove(docker, name)


def test_it_is_named_by_what_it_was_built_from(build: Build, docker: Docker, tiny: str) -> None:
    parent = build(tiny, ROW)
    with pytest.raises(UsageError, match="it is the image of row 5e5e5e5e5e5e itself"):
        derived.examine(docker, parent)
    image = build(parent, "USER 0\nCOPY Dockerfile /added\nENV API_TOKEN=hunter2hunter2\n")
    found = derived.examine(docker, image)
    assert (found.row, found.key) == ("row", KEY)
    assert [line.split()[0] for line in found.added] == ["USER", "COPY", "ENV"]
    assert derived.lines(found)[0] == f"{image}: derived from row 5e5e5e5e5e5e"
    assert "hunter2" not in str(derived.document(found))
    again = build(image, "LABEL more=1\n")
    assert len(derived.examine(docker, again).added) == 4


def test_what_has_no_row_in_its_history_is_refused(build: Build, docker: Docker, tiny: str) -> None:
    with pytest.raises(UsageError, match="it has no row's labels"):
        derived.examine(docker, tiny)
    with pytest.raises(EngineError, match="no such image"):
        derived.examine(docker, "stackwright-test/no-such:1")
    forged = build(tiny, f"LABEL a=1\nLABEL x={labels.ROW}\n")
    with pytest.raises(UsageError, match="it has no row's labels"):
        derived.examine(docker, forged)


def test_it_is_proven_by_the_checks_of_the_key_that_it_was_built_from(
    build: Build, docker: Docker, tiny: str
) -> None:
    found = derived.examine(docker, build(build(tiny, ROW), "USER root\n"))
    row = Planned(stack=rows.stack(id="row"), recipe=Recipe(id="row", key="6f" * 32, files=()))
    with pytest.raises(UsageError, match="derived from row 5e5e5e5e5e5e, and that row is now 6f6f6f6f6f6f"):
        derived.parent((row,), found)
    with pytest.raises(UsageError, match="not selected, or cannot work"):
        derived.parent((), found)
