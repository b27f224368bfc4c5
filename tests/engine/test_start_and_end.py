"""The first moments and the last: Ctrl-C at the start, a reader that ends first, a full disk, no terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rows import ROOT

MOMENTS = 20
DOOR = (sys.executable, str(ROOT / "build.py"))
INSTALLED = (sys.executable, "-c", "from stackwright.cli.entry import start; start()")
ENVIRON = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def started(
    *words: str, out: int = subprocess.PIPE, environ: dict[str, str] = ENVIRON
) -> subprocess.Popen[str]:
    return subprocess.Popen(words, cwd=ROOT, env=environ, stdout=out, stderr=subprocess.PIPE, text=True)


def blocks_interrupts(pid: int) -> bool:
    """Return whether the front door has begun: Python itself says a traceback before its first line."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True
    found = re.search(r"^SigBlk:\s+(\w+)$", status, re.MULTILINE)
    return found is not None and bool(int(found[1], 16) & 1 << (signal.SIGINT - 1))


def ended_by(moment: float) -> tuple[int, str, str]:
    """Interrupt `plan` so many seconds after the first line of the front door."""
    process = started(*DOOR, "plan", "--json")
    while not blocks_interrupts(process.pid):
        time.sleep(0.0005)
    time.sleep(moment)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


# -- an interrupt -----------------------------------------------------------------------------------


@pytest.mark.long
def test_an_interrupt_at_any_moment_is_one_line_and_its_code() -> None:
    began = time.monotonic()
    whole = started(*DOOR, "plan", "--json").communicate(timeout=60)[0]
    length = time.monotonic() - began
    seen = []
    for number in range(MOMENTS):
        code, out, err = ended_by(length * number / MOMENTS)
        assert "Traceback" not in err
        if code == 130:
            assert re.fullmatch(r"error: interrupted.*\n", err), err
            assert not out or whole.startswith(out)
        else:
            assert (out, err) == (whole, "")
            assert code in (0, -signal.SIGINT), "Python itself ends with the signal in its very last moment"
        seen.append(code)
    assert seen.count(130) > MOMENTS / 2, seen


def test_an_interrupt_before_all_is_imported_is_one_line() -> None:
    code, out, err = ended_by(0)
    assert (code, out, err) == (130, "", "error: interrupted\n")


@pytest.mark.long
def test_a_job_in_the_background_of_a_script_is_not_interrupted() -> None:
    """A shell without job control starts it with interrupts ignored, and nohup is used in the same way."""
    words = " ".join((*DOOR, "plan", "--json"))
    done = subprocess.run(
        ["bash", "-c", f"trap '' INT; {words} & sleep 0.2; kill -INT $!; wait $!; exit $?"],
        cwd=ROOT, env=ENVIRON, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("{")


# -- the output -------------------------------------------------------------------------------------

SHOWN = (
    ("plan",),
    ("plan", "--json"),
    ("--help",),
    ("explain", "--set", "gcc=14"),
    ("history",),
    ("--version",),
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("door", "unbuffered"), [(DOOR, ""), (INSTALLED, "1")], ids=["checkout", "installed"]
)
@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_a_reader_that_ends_first_is_no_error_of_ours(
    words: tuple[str, ...], door: tuple[str, ...], unbuffered: str
) -> None:
    process = started(*door, *words, environ={**ENVIRON, "PYTHONUNBUFFERED": unbuffered})
    assert process.stdout
    process.stdout.close()
    err = process.communicate(timeout=60)[1] if process.stderr else ""
    assert process.returncode == (0 if words == ("history",) else 141)
    assert words == ("history",) or err == ""


def test_a_closed_pipe_and_a_full_disk() -> None:
    closed = started(*DOOR, "--help")
    assert closed.stdout and closed.stderr
    closed.stdout.close()
    assert (closed.wait(timeout=60), closed.stderr.read()) == (141, "")
    with Path("/dev/full").open("w") as full:
        done = started(*DOOR, "--help", out=full.fileno())
        err = done.communicate(timeout=60)[1]
    assert done.returncode == 10
    assert err.startswith("error: the output cannot be written: No space left on device")


@pytest.mark.long
@pytest.mark.parametrize(
    "ending", ["plan >&-", "plan --json 2>&-", "plan no-such-row 2>&-", "plan no-such-row 2>/dev/full"]
)
def test_a_stream_that_is_closed_or_full_keeps_the_code(ending: str) -> None:
    line = f"{' '.join(DOOR)} {ending}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=ROOT, env=ENVIRON, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2 if "no-such" in ending else 0, "")


@pytest.mark.long
@pytest.mark.parametrize("words", SHOWN[:4], ids=" ".join)
def test_without_a_terminal_and_with_no_color_there_is_no_colour(words: tuple[str, ...]) -> None:
    plain = started(*DOOR, *words).communicate(timeout=60)
    assert "\x1b" not in "".join(plain)
    forced = {**ENVIRON, "FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "60"}
    out, err = started(*DOOR, *words, environ=forced).communicate(timeout=60)
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", out + err), "bold is no colour"
