"""Podman behind Docker's interface: BuildKit's words in its own, its names, its lines as steps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from stackwright.core.errors import EngineError
from stackwright.core.model.row import Recipe
from stackwright.core.render.configuration import PATH
from stackwright.core.render.instructions import instructions
from stackwright.engines import kinds
from stackwright.engines.buildah.progress import Progress
from stackwright.engines.buildah.words import (
    ALWAYS,
    containerfile,
    created_by,
    full_name,
    of_buildkit,
    short_name,
    with_shell,
)
from stackwright.engines.buildkit.progress import EventKind

PODMAN = {
    "ServerVersion": "5.4.2", "BuildahVersion": "1.39.3", "Rootless": True,
    "SecurityOptions": ["name=seccomp,profile=default", "name=rootless"],
}  # fmt: skip
"""What matters of the answer of Podman 5.4.2 (Debian 13) to GET /info."""

DOCKERFILE = """\
ARG BASE_IMAGE
FROM ${BASE_IMAGE} AS base
SHELL ["/bin/bash", "-c"]
RUN --network=none echo first
FROM base AS toolchain
RUN --network=none --mount=type=bind,source=row.json,target=/in \\
    echo second; \\
    false
FROM base AS final
COPY --link --from=toolchain /wheel /wheel
ENV A=b
WORKDIR /workspace
"""
RECIPE = Recipe(id="row", key="0" * 64, files=(("Dockerfile", DOCKERFILE.encode()), ("row.json", b"{}")))
BUILT = """\
[1/3] STEP 1/3: FROM docker.io/stackwright/base:debian-13 AS base
[1/3] STEP 2/3: SHELL ["/bin/bash", "-c"]
--> 2f6ff8a0ea5b
[1/3] STEP 3/3: RUN --network=none echo first
first
--> 2b3bf2a2a7fb
[2/3] STEP 1/2: FROM 2b3bf2a2a7fb AS toolchain
[2/3] STEP 2/2: RUN --network=none --mount=type=bind,source=row.json,target=/in     echo second;     true
--> Using cache 83ed1b1dd4ca41fcd24cb9d3ab02b8b01b2ed6ac4f1d3d2a2fd0bd1a0eb3ff2b
--> 83ed1b1dd4ca
[3/3] STEP 1/5: FROM 2b3bf2a2a7fb AS final
[3/3] STEP 2/5: COPY --from=toolchain /wheel /wheel
--> 0b6f6bdad0be
[3/3] STEP 3/5: ENV A=b
--> 55c5fd7a4bde
[3/3] STEP 4/5: WORKDIR /workspace
--> 85c5fd7a4bde
[3/3] STEP 5/5: LABEL "org.stackwright.key"="0"
[3/3] COMMIT docker.io/stackwright/row:1
--> 95c5fd7a4bde
Successfully tagged docker.io/stackwright/row:1
95c5fd7a4bde95c5fd7a4bde95c5fd7a4bde95c5fd7a4bde95c5fd7a4bde95c5
"""


class Clock:
    """A second passes with each look."""

    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at


def told(text: str) -> tuple[Progress, list[tuple[str, str]]]:
    progress = Progress(recipe=RECIPE, now=Clock())
    events = [event for line in text.splitlines(keepends=True) for event in progress.feed(line)]
    return progress, [(event.kind, event.text or event.step) for event in events]


def test_steps_are_called_as_buildkit_calls_them() -> None:
    progress, _ = told(BUILT)
    assert [step.name.partition("] ")[0] for step in progress.own()] == [
        "[base 2/2", "[toolchain 1/1", "[final 1/2", "[final 2/2",
    ]  # fmt: skip
    assert [step.identity for step in progress.own()] == [made.identity for made in instructions(RECIPE)]
    assert [step.cached for step in progress.own()] == [False, True, False, False]
    assert all(step.seconds == 1 for step in progress.own())
    assert progress.failed is None


def test_what_an_instruction_prints_is_its_log() -> None:
    _, events = told(BUILT)
    first = [kind for kind, text in events if "first" in text]
    assert first == [EventKind.STARTED, EventKind.LOG, EventKind.DONE]
    assert sum(kind == EventKind.CACHED for kind, _ in events) == 1


def test_the_step_that_failed_is_named() -> None:
    lines = BUILT.splitlines(keepends=True)[:8]
    words = "RUN --network=none --mount=type=bind,source=row.json,target=/in     echo second;     true"
    progress, events = told(
        "".join(lines)
        + "second\n"
        + f'Error: building at STEP "{words}": while running runtime: exit status 1\n'
    )
    assert progress.failed and progress.failed.name.startswith("[toolchain 1/1] RUN")
    assert progress.failed.error == "while running runtime: exit status 1"
    assert progress.failed.tail == ["second"]
    assert events[-1] == (EventKind.FAILED, "while running runtime: exit status 1")


def test_an_error_may_have_quotation_marks() -> None:
    lines = BUILT.splitlines(keepends=True)[:13]
    error = 'checking on sources: stat: "/wheel": no such file or directory'
    progress, _ = told(
        "".join(lines) + f'Error: building at STEP "COPY --from=toolchain /wheel /wheel": {error}\n'
    )
    assert progress.failed and progress.failed.error == error


def test_an_error_outside_of_a_step_is_kept() -> None:
    progress, _ = told('Error: creating build container: short-name "x" did not resolve to an alias\n')
    assert progress.failed is None
    assert progress.trailer[0].startswith("Error: creating build container")


def test_a_build_in_its_words() -> None:
    words = (
        "--progress=rawjson", "--provenance=false", "--build-arg", "BASE_IMAGE=stackwright/base:x",
        "--target", "final", "--tag", "stackwright/row:1", "--tag", "registry.site:5000/row:1", "folder",
    )  # fmt: skip
    assert tuple(of_buildkit(words)) == (
        *ALWAYS, "--build-arg", "BASE_IMAGE=stackwright/base:x", "--target", "final", "--tag",
        "docker.io/stackwright/row:1", "--tag", "registry.site:5000/row:1", "folder",
    )  # fmt: skip


@pytest.mark.parametrize("word", ["--cache-from", "--cache-to", "--push", "--builder", "--build-context"])
def test_what_buildkit_alone_can_do_is_refused(word: str) -> None:
    with pytest.raises(EngineError, match=word) as refused:
        tuple(of_buildkit(("--tag", "x", word, "y")))
    assert "STACKWRIGHT_CACHE" in refused.value.hint


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("stackwright/row:1", "docker.io/stackwright/row:1"),
        ("ubuntu:24.04", "docker.io/library/ubuntu:24.04"),
        ("localhost/x", "localhost/x"),
        ("registry.site/x:1", "registry.site/x:1"),
        ("registry:5000/x", "registry:5000/x"),
    ],
)
def test_a_name_with_its_registry(short: str, full: str) -> None:
    assert full_name(short) == full
    assert full_name(full) == full


def test_a_name_as_it_was_given() -> None:
    assert short_name("docker.io/stackwright/row:1") == short_name("localhost/stackwright/row:1")
    assert short_name("registry.site/x:1") == "registry.site/x:1"


@pytest.mark.parametrize(
    ("line", "made_by"),
    [
        ("/bin/sh -c #(nop) COPY dir:0b6f in / ", "COPY dir:0b6f in /"),
        ("/bin/sh -c #(nop) ENV LANG=C.UTF-8", "ENV LANG=C.UTF-8"),
        (
            '/bin/sh -c #(nop) ENV PATH=/opt/x/bin:$PATH     A=/a     B="c>=1 d"',
            f"ENV PATH=/opt/x/bin:{PATH} A=/a B=c>=1 d",
        ),
        ("/bin/sh -c #(nop) ENV A=${PATH} B=$PATHS", f"ENV A={PATH} B=$PATHS"),
        ('/bin/sh -c #(nop) ENV A="open', 'ENV A="open'),
        ("/bin/sh -c export A=b; true:sha256:00", "RUN /bin/sh -c export A=b; true:sha256:00"),
        ("|1 A=b /bin/sh -c true", "RUN /bin/sh -c true"),
        ("RUN /bin/bash -c true # buildkit", "RUN /bin/bash -c true # buildkit"),
        ("ENV LANG=C.UTF-8", "ENV LANG=C.UTF-8"),
    ],
)
def test_a_line_of_the_history(line: str, made_by: str) -> None:
    assert created_by(line) == made_by


def test_what_the_api_leaves_out_is_read_from_the_history() -> None:
    lines = ('SHELL ["/bin/sh","-c"]', "ENV A=b", 'SHELL ["/bin/bash","-euo","pipefail","-c"]', "CMD x")
    assert with_shell({"A": 1}, lines) == {"A": 1, "Shell": ["/bin/bash", "-euo", "pipefail", "-c"]}
    assert [with_shell({}, [line])["Shell"] for line in ("SHELL x", "SHELL 5")] == [["x"], ["5"]]
    assert with_shell({}, ["ENV A=b"]) == {}


def test_older_builders_get_no_link() -> None:
    text = containerfile(DOCKERFILE, ())
    assert "COPY --from=toolchain /wheel /wheel\n" in text and "--link" not in text
    assert containerfile("RUN echo COPY --link x\n", ()) == "RUN echo COPY --link x\n"


def test_labels_are_in_one_instruction() -> None:
    mine = (("a.b", 'it\'s "$me" \\'), ("c", "d"))
    written = 'a.b="it\'s \\"\\$me\\" \\\\" \\\n      c="d"'
    own = containerfile("FROM x\nLABEL e=f \\\n      g=h\nUSER y\n", mine)
    assert own == f"FROM x\nLABEL {written} \\\n      e=f \\\n      g=h\nUSER y\n"
    assert containerfile("FROM x\n", mine) == f"FROM x\nLABEL {written}\n"


def test_a_stage_that_waits_for_another_goes_on_where_it_was() -> None:
    waits = """\
[3/3] STEP 1/5: FROM 2b3bf2a2a7fb AS final
[3/3] STEP 2/5: COPY --from=toolchain /wheel /wheel
[2/3] STEP 1/2: FROM 2b3bf2a2a7fb AS toolchain
[2/3] STEP 2/2: RUN --network=none echo second
second
--> Using cache 83ed1b1dd4ca41fcd24cb9d3ab02b8b01b2ed6ac4f1d3d2a2fd0bd1a0eb3ff2b
--> 83ed1b1dd4ca
--> 0b6f6bdad0be
[3/3] STEP 3/5: ENV A=b
"""
    _, events = told(waits)
    ends = [(kind, text[:11]) for kind, text in events if kind in (EventKind.DONE, EventKind.CACHED)]
    assert ends == [(EventKind.CACHED, "[toolchain "), (EventKind.DONE, "[final 1/2]")]


def test_engines_are_told_apart() -> None:
    assert kinds.is_podman(PODMAN) and kinds.is_rootless(PODMAN)
    docker = {"ServerVersion": "28.5.2", "SecurityOptions": ["name=seccomp,profile=builtin"]}
    assert not kinds.is_podman(docker) and not kinds.is_rootless(docker)
    assert kinds.is_rootless({"SecurityOptions": ["name=rootless"]})


def test_an_old_one_of_either_kind_is_refused() -> None:
    assert kinds.checked_version(PODMAN, "unix:///x") == "5.4.2"
    for info, name in (
        (PODMAN | {"ServerVersion": "4.3.1"}, "Podman is 4.3.1"),
        ({}, "of an unknown version"),
    ):
        with pytest.raises(EngineError, match=name):
            kinds.checked_version(info, "unix:///x")
