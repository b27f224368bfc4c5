"""BuildKit's rawjson, as a real solve printed it, becomes steps, times and the step that failed."""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from stackwright.core.errors import BuildError
from stackwright.core.facts.build_failures import (
    CAUSES,
    BuildFailure,
    cause_named,
    known_cause,
    last_lines,
    subject,
)
from stackwright.engines.buildkit.progress import Progress, short


def feed(*updates: dict[str, Any]) -> tuple[Progress, list[tuple[str, str]]]:
    progress = Progress()
    events = [event for update in updates for event in progress.feed(json.dumps(update))]
    return progress, [(event.kind, event.text or event.step) for event in events]


def vertex(digest: str, **values: Any) -> dict[str, Any]:
    return {"vertexes": [{"digest": digest, "name": f"[{digest}] RUN x", **values}]}


def log(digest: str, text: str) -> dict[str, Any]:
    return {"logs": [{"vertex": digest, "stream": 1, "data": base64.b64encode(text.encode()).decode()}]}


START, END = "2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:07.623456789Z"


def test_a_step_is_timed_by_buildkit_s_own_clock() -> None:
    progress, events = feed(
        vertex("a"), vertex("a", started=START), vertex("a", started=START, completed=END)
    )
    assert progress.steps["a"].seconds == 2.5
    assert [kind for kind, _ in events] == ["started", "done"]


def test_a_cached_step_is_not_reported_as_done() -> None:
    _, events = feed(vertex("a", started=START, completed=START, cached=True))
    assert [kind for kind, _ in events] == ["cached"]


def test_the_failed_step_is_named_and_not_those_that_it_took_along() -> None:
    progress, _ = feed(
        vertex("a", started=START),
        vertex("b", started=START),
        log("b", "one\ntwo\n"),
        vertex("a", started=START, completed=END, error="process did not complete: context canceled"),
        vertex("b", started=START, completed=END, error="exit code: 3"),
    )
    assert progress.failed is progress.steps["b"]
    assert progress.steps["b"].tail == ["one", "two"]


def test_lines_that_are_not_json_are_kept_as_the_last_words() -> None:
    progress = Progress()
    assert list(progress.feed("ERROR: failed to solve\n")) == []
    assert list(progress.feed("42\n")) == []
    assert progress.trailer == ["ERROR: failed to solve"]


def test_a_log_line_may_be_no_utf8() -> None:
    progress = Progress()
    list(progress.feed(json.dumps(vertex("a", started=START))))
    raw = base64.b64encode(b"\xff\xfe").decode()
    (event,) = progress.feed(json.dumps({"logs": [{"vertex": "a", "data": raw}]}))
    assert event.text == "\ufffd\ufffd"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "[final 2/5] RUN --mount=type=secret,id=ca     --mount=type=cache,id=x  apt-get   update",
            "[final 2/5] RUN apt-get update",
        ),
        ("[base 1/2] RUN export A=b;  rm -f /x;   apt-get update; x", "[base 1/2] RUN apt-get update; x"),
        ("[base 1/2] RUN export A=b", "[base 1/2] RUN export A=b"),
        ("[base 1/2] FROM docker.io/x", "[base 1/2] FROM docker.io/x"),
    ],
)
def test_a_step_on_one_line_from_the_command_that_does_the_work(name: str, line: str) -> None:
    assert short(name) == line


REAL_MESSAGES = {
    "disk-full": "tar: x: Cannot write: No space left on device",
    "certificate": "SSLError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get",
    "mirror-unreachable": "Err:1 trixie InRelease  Temporary failure resolving 'mirror.example'",
    "source-unreachable": "build-ofi-plugin: ERROR: aws-ofi-nccl-1.19.2.tar.gz cannot be fetched; put it",
    "source-differs": "build-ofi-plugin: ERROR: aws-ofi-nccl-1.19.2.tar.gz is not the source of release",
    "hash-mismatch": "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
    "cxx17": 'torch/all.h:4:2: error: #error "You need C++17 to compile PyTorch"',
    "gloo-standard": "multiple definition of `gloo::rendezvous::Store::kDefaultTimeout'; CMakeFiles",
    "stdexcept": "common.h:45:18: error: ‘logic_error’ is not a member of ‘std’",
    "cmake4": "Compatibility with CMake < 3.5 has been removed from CMake.",
    "xla-headers": "fatal error: tensorflow/compiler/xla/client/xla_builder.h: No such file or directory",
    "xla-statusor": "error: ‘StatusOr’ in namespace ‘xla’ does not name a template type",
    "setuptools": "ImportError: cannot import name 'packaging' from 'pkg_resources'",
    "unsupported-gcc": "#error -- unsupported GNU version! gcc versions later than 13 are not supported!",
    "cuda-mismatch": "The detected CUDA version (12.4) mismatches the version that was used to compile\n",
    "no-nvcc": "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",
    "unsupported-arch": "nvcc fatal   : Unsupported gpu architecture 'compute_37'",
    "other-torch": "fatal error: THC/THC.h: No such file or directory",
    "build-requirement": "ModuleNotFoundError: No module named 'packaging'",
    "missing-header": "csrc/aio.h:10:10: fatal error: libaio.h: No such file or directory",
    "out-of-memory": "g++: fatal error: Killed signal terminated program cc1plus",
}


def test_every_known_cause_is_found_in_a_real_message() -> None:
    assert REAL_MESSAGES.keys() == {cause.name for cause in CAUSES}
    for name, message in REAL_MESSAGES.items():
        cause = known_cause(["some", message, "more"])
        assert cause, name
        assert cause.name == name


def test_an_unknown_failure_has_no_cause() -> None:
    assert known_cause(["make: *** [all] Error 2"]) is None


def failure(**values: Any) -> BuildFailure:
    fields: dict[str, Any] = {
        "row": "cuda12-torch", "step": "[base 1/2] RUN apt-get", "message": "exit code: 3", "cause": None,
        "tail": ("first", "last"), "log": Path("/out/build.log"), "advice": "read the log",
    }  # fmt: skip
    return BuildFailure(**fields | values)


def test_a_failed_build_is_text_only_where_it_is_printed() -> None:
    error = BuildError.of(failure())
    assert str(error).splitlines() == [
        "cuda12-torch: [base 1/2] RUN apt-get: exit code: 3",
        "  its last lines:",
        "    first",
        "    last",
        "  the whole log: /out/build.log",
        "  next: read the log",
    ]
    assert error.headline == "cuda12-torch: [base 1/2] RUN apt-get: exit code: 3"
    assert str(BuildError.of(failure(step="", tail=(), log=None, advice=""))) == "cuda12-torch: exit code: 3"


def test_a_known_cause_takes_the_place_of_the_message_and_survives_a_node() -> None:
    error = BuildError.of(failure(cause=cause_named("disk-full")))
    assert error.cause == "the disk is full (errno 28)"
    assert error.hint == "free some: ./build.py clean shows what can go"
    there_and_back = pickle.loads(pickle.dumps(error))
    assert there_and_back.failure == error.failure
    assert str(there_and_back) == str(error)
    assert cause_named("one of another release") is None


PIP = (
    "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated …",
    "    six==1.16.0 from https://index.example/six-1.16.0-py3-none-any.whl (from -r /tmp/r.txt (line 1)):",
    "        Expected sha256 00",
    "             Got        8a",
)
APT = (
    "E: Failed to fetch http://mirror.example/pool/main/l/liba/liba1_1.2-3+b1_amd64.deb  Hash Sum mismatch",
)


@pytest.mark.parametrize(("lines", "name"), [(PIP, "six==1.16.0"), (APT, "liba1_1.2-3+b1_amd64.deb")])
def test_a_hash_that_does_not_match_names_the_package(lines: tuple[str, ...], name: str) -> None:
    cause = known_cause(lines)
    assert cause and cause.name == "hash-mismatch"
    assert subject(cause, (*lines, *lines)) == name
    error = BuildError.of(failure(cause=cause, subject=name))
    assert error.cause.startswith(f"a downloaded file is not the one that was locked: {name} (")
    assert subject(cause, lines[:1]) == (name if lines is APT else "")
    assert subject(cause_named("disk-full"), lines) == subject(None, lines) == ""


def test_a_person_is_shown_the_last_lines_that_have_words() -> None:
    assert last_lines(["", *map(str, range(20)), " "]) == tuple(map(str, range(8, 20)))
