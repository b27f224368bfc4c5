"""What a person sees while a row is built: plain names, how far, and how long it took the last time."""

from __future__ import annotations

import io
import json
from functools import partial

import pytest
from rich.console import Console
from rows import ROOT

from stackwright.build.display import Display, Expected
from stackwright.core.steps.progress import LISTS, Tally, file_of, probing
from stackwright.engines.buildkit.progress import Event, EventKind

RUNNER = ROOT / "probes" / "run.py"
FRAMEWORKS = "[frameworks 1/1] RUN --mount=type=secret,id=ca python3 -m venv /opt/stack; pip install"
HOROVOD = "[horovod-wheel 1/1] RUN bash /horovod/build-horovod.sh"
TOOLCHAIN = '[toolchain 1/1] RUN began=$(date --date="10 minutes ago" +%s); apt-get "${ca[@]}" update'
ROW = "a-row-with-a-name-of-some-length"

# Lines of a real build of cuda12-all and cuda12-torch, without those between them.
PIP = """\
Collecting absl-py==2.5.1 (from -r /tmp/requirements.txt (line 1))
  Downloading absl_py-2.5.1-py3-none-any.whl (137 kB)
Collecting nvidia-cublas-cu12==12.8.4.1 (from -r /tmp/requirements.txt (line 519))
  Using cached nvidia_cublas_cu12-12.8.4.1-py3-none-manylinux_2_27_x86_64.whl (594.3 MB)
  Downloading torch-2.8.0-cp313-cp313-manylinux_2_28_x86_64.whl.metadata (30 kB)
Collecting torch==2.8.0 (from -r /tmp/requirements.txt (line 1201))
  Downloading torch-2.8.0-cp313-cp313-manylinux_2_28_x86_64.whl (887.9 MB)
Installing collected packages: absl-py, nvidia-cublas-cu12, torch
Successfully installed absl-py-2.5.1 nvidia-cublas-cu12-12.8.4.1 torch-2.8.0"""
APT = """\
Get:2 http://mirror.example/debian trixie/main amd64 Packages [9678 kB]
Fetched 16.3 MB in 1s (15.3 MB/s)
0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded.
Need to get 87.3 MB of archives.
After this operation, 39.6 MB of additional disk space will be used.
Get:1 http://mirror.example/debian trixie/main amd64 patch amd64 2.8-2 [134 kB]
Get:2 http://mirror.example/debian trixie/non-free amd64 nvidia-cuda-toolkit amd64 12.4.131 [87.2 MB]
Selecting previously unselected package patch.
Unpacking patch (2.8-2) ...
Unpacking nvidia-cuda-toolkit (12.4.131~12.4.1-2) ...
Setting up patch (2.8-2) ..."""
MAKE = """\
[  0%] Building CXX object third_party/gloo/gloo/CMakeFiles/gloo.dir/algorithm.cc.o
[ 51%] Built target gloo
[100%] Linking CXX shared library"""


def told(text: str, wheels: int = 0) -> list[str]:
    """All that a tally says, each once."""
    tally, found = Tally(wheels=wheels), list[str]()
    for line in text.splitlines():
        tally.feed(line)
        found += [tally.text] if tally.text != "".join(found[-1:]) else []
    return found


def test_wheels_are_counted_when_they_are_there() -> None:
    assert told(PIP, wheels=3) == [
        "0 of 3 wheels, 0 MB", "1 of 3 wheels, 0 MB", "2 of 3 wheels, 594 MB", "3 wheels, 1.5 GB, installing",
    ]  # fmt: skip
    assert told(PIP) == [], "where nobody said how many there are"
    assert told(PIP, wheels=1)[:-1] == ["0 of 1 wheels, 0 MB"], "never more than there are"


def test_packages_are_counted_after_the_lists_are_read() -> None:
    assert told(APT) == [
        "0 MB of 87 MB", "unpacking 1 of 2 packages", "unpacking 2 of 2 packages",
        "setting up 1 of 2 packages",
    ]  # fmt: skip
    assert told("Setting up patch (2.8-2) ...\nGet:1 http://mirror.example a [1 kB]") == []


def test_what_is_compiled_is_counted_by_make_and_ninja() -> None:
    assert told(MAKE) == ["0 %", "51 %", "100 %"]
    assert told("[61/119] c++ -o a.o\n[999%] x") == ["61 of 119", "100 %"]


@pytest.mark.parametrize(
    "line",
    ["[final 2/5] RUN x", "x [ 51%]", "[a/b] x", "[ 5%]", "[61/119]x", "Need to get all", "", "\x1b[5m"],
)
def test_a_line_that_counts_nothing_says_nothing(line: str) -> None:
    assert told(line) == told(line, wheels=2) == []


WORDS = ("system", "link=torch,horovod.torch", "collective=torch/mpi", "collective=torch/gloo", "built=torch")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ((), "system"),
        (("system.json",), "link"),
        (("system.json", "link.json", "files.json"), "collective 1 of 2"),
        (("system.json", "link.json", "collective-torch-mpi.json"), "collective 2 of 2"),
        (tuple(map(file_of, WORDS)), ""),
    ],
)
def test_probes_are_counted_by_the_files_that_they_leave(written: tuple[str, ...], said: str) -> None:
    assert probing(WORDS, written.__contains__) == said


def test_the_files_of_probes_are_those_that_their_runner_writes() -> None:
    assert f"LISTS = {json.dumps(LISTS).replace('[', '(').replace(']', ')')}\n" in RUNNER.read_text()


def test_the_probe_that_runs_is_shown_next_to_its_phase() -> None:
    out, display = io.StringIO(), Display(Console(file=io.StringIO()))
    display.phase(ROW, "probe docker", last_time=60)
    for says in ("collective 3 of 6", ""):
        display.watch(ROW, partial(str, says))
        Console(file=out, width=99).print(display.live())
    assert out.getvalue().splitlines() == [
        f"{ROW}  probe docker: collective 3 of 6, 0 s (1 min 00 s last time)",
        f"{ROW}  probe docker, 0 s (1 min 00 s last time)",
    ]


def fed(console: Console, last_time: float | None = None) -> Display:
    display = Display(console)
    display.phase(ROW, "build", last_time=last_time)
    expected = Expected(wheels={"frameworks": 3}, seconds={"Horovod: compile": 244.2, "frameworks": 51.0})
    display.expect(ROW, expected)
    for step in (FRAMEWORKS, TOOLCHAIN):
        display.event(ROW, Event(kind=EventKind.STARTED, step=step))
    for step, text in ((FRAMEWORKS, PIP), (TOOLCHAIN, APT)):
        for line in text.splitlines()[:7]:
            display.event(ROW, Event(kind=EventKind.LOG, step=step, text=line))
    display.event(ROW, Event(kind=EventKind.STARTED, step=HOROVOD))
    return display


def test_lines_name_steps_and_what_to_expect_and_have_no_shell() -> None:
    said = io.StringIO()
    display = fed(Console(file=said, width=60), last_time=95)
    display.event(ROW, Event(kind=EventKind.DONE, step=FRAMEWORKS, seconds=49.5))
    display.event(ROW, Event(kind=EventKind.FAILED, step=HOROVOD, seconds=7))
    assert said.getvalue().splitlines() == [
        f"[{ROW}] build (1 min 35 s last time)",
        f"[{ROW}] started frameworks: 3 wheels (51 s last time)",
        f"[{ROW}] started compilers and MPI",
        f"[{ROW}] started Horovod: compile (4 min 04 s last time)",
        f"[{ROW}] done      49.5 s frameworks",
        f"[{ROW}] failed     7.0 s Horovod: compile",
    ]


@pytest.mark.parametrize("width", [60, 100])
def test_the_live_display_has_a_line_for_each_step_and_keeps_the_row_s_name(width: int) -> None:
    out = io.StringIO()
    display = fed(Console(file=io.StringIO()))
    display.event(
        ROW, Event(kind=EventKind.LOG, step=TOOLCHAIN, text="\x1b[2Ja long line: [bold] " + "x " * 99)
    )
    Console(file=out, width=width).print(display.live())
    row, frameworks, toolchain, horovod, last = out.getvalue().splitlines()
    assert row == f"{ROW}  build, 0 s"
    assert frameworks == "     0 s  frameworks: 2 of 3 wheels, 594 MB (51 s last time)"
    assert toolchain == "     0 s  compilers and MPI: 0 MB of 87 MB"
    assert horovod == "     0 s  Horovod: compile (4 min 04 s last time)"
    assert last.startswith("          [2Ja long line: [bold] x") and last.endswith("…")
    assert len(last) == width


def test_the_live_display_shows_no_secret_of_a_step_without_a_name() -> None:
    out = io.StringIO()
    display = fed(Console(file=io.StringIO()))
    for step in (FRAMEWORKS, TOOLCHAIN, HOROVOD):
        display.event(ROW, Event(kind=EventKind.DONE, step=step))
    display.event(ROW, Event(kind=EventKind.STARTED, step="[x 1/1] RUN curl https://u:Vq8tGm2x@h.example"))
    Console(file=out, width=200).print(display.live())
    assert "3 steps done" in out.getvalue()
    assert "h.example" in out.getvalue() and "Vq8tGm2x" not in out.getvalue()
