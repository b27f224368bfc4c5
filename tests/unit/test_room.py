"""Conversions at once: needs are added up, one waits where waiting helps, and the dead claim nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from stackwright.core.errors import DiskError
from stackwright.host import disk as room
from stackwright.host.disk import Claim, claimed, enough
from stackwright.host.site import settings

ROOT = Path(__file__).parents[2]
FREE = 1000


def claim(wanted: int, used: int = 0) -> Claim:
    return Claim(folder=Path("/x"), bytes=wanted, used=used)


@pytest.mark.parametrize(
    ("free", "need", "others", "answer"),
    [
        (100, 100, (), True),
        (99, 100, (), None),
        (100, 40, (claim(60),), True),
        (100, 41, (claim(60),), False),
        (60, 41, (claim(60, used=40),), False),
        (60, 40, (claim(60, used=40),), True),
        (60, 100, (claim(60, used=40),), False),
        (60, 101, (claim(60, used=40),), None),
        (100, 80, (claim(60, used=90),), True),
        (100, 41, (claim(30), claim(30)), False),
    ],
)
def test_needs_are_added_up(free: int, need: int, others: tuple[Claim, ...], answer: bool | None) -> None:
    assert enough(free, need, others) is answer


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A disk that always has the same bytes free; nothing is written to it."""
    monkeypatch.setattr(settings, "free_disk", lambda _: FREE)
    monkeypatch.setattr(room, "AGAIN", 0.01)
    return tmp_path


def folder(disk: Path, name: str) -> Path:
    (disk / name).mkdir()
    return disk / name


def nothing(_: str) -> None:
    pass


def take(
    disk: Path, name: str, need: int, say: Callable[[str], None] = nothing
) -> AbstractContextManager[None]:
    return claimed(folder(disk, name), need, what=name, ledger=disk / "ledger", say=say)


def test_too_much_is_refused_at_once(disk: Path) -> None:
    with pytest.raises(DiskError, match=r"one needs .* GB, and .* GB are free"), take(disk, "one", FREE + 1):
        pass
    assert list((disk / "ledger" / "claims").iterdir()) == []


def test_two_that_fit_run_at_once(disk: Path) -> None:
    with take(disk, "one", FREE // 2), take(disk, "two", FREE // 2):
        assert len(list((disk / "ledger" / "claims").iterdir())) == 2
    assert list((disk / "ledger" / "claims").iterdir()) == []


def test_one_that_does_not_fit_beside_another_waits_for_its_end(disk: Path) -> None:
    said: list[str] = []
    order: list[str] = []

    def second() -> None:
        with take(disk, "two", FREE // 2 + 1, said.append):
            order.append("two")

    thread = threading.Thread(target=second)
    with take(disk, "one", FREE // 2):
        thread.start()
        while not said:
            time.sleep(0.01)
        time.sleep(0.1)
        order.append("one")
    thread.join(timeout=10)
    assert order == ["one", "two"]
    assert "waits" in said[0]
    assert "two needs up to" in said[1]


def test_it_is_the_same_between_threads_of_one_run(disk: Path) -> None:
    """Never more than fit, whatever the order."""
    at_once, most, lock = [0], [0], threading.Lock()

    def work(number: int) -> None:
        with take(disk, f"row{number}", FREE // 3):
            with lock:
                at_once[0] += 1
                most[0] = max(most[0], at_once[0])
            time.sleep(0.02)
            with lock:
                at_once[0] -= 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert most == [3]


PROGRAM = """
import sys, time
from pathlib import Path
from stackwright.host.site import settings
from stackwright.host.disk import claimed
settings.free_disk = lambda _: int(sys.argv[3])
folder = Path(sys.argv[1]); folder.mkdir()
with claimed(folder, int(sys.argv[2]), what="other", ledger=folder.parent / "ledger", say=lambda _: None):
    print("claimed", flush=True)
    time.sleep(600)
"""


def test_a_claim_of_another_process_counts_until_that_is_killed(disk: Path) -> None:
    argv = [sys.executable, "-c", PROGRAM, str(disk / "other"), str(FREE // 2), str(FREE)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT) as child:
        assert child.stdout
        assert child.stdout.readline() == b"claimed\n"
        said: list[str] = []

        def killed(text: str) -> None:
            said.append(text)
            os.kill(child.pid, signal.SIGKILL)

        with take(disk, "one", FREE // 2 + 1, killed):
            assert child.wait(timeout=10) == -signal.SIGKILL
    assert "waits" in said[0]
    assert list((disk / "ledger" / "claims").iterdir()) == []


def test_claims_on_another_disk_do_not_count(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "same_disk", lambda *_: False)
    with take(disk, "one", FREE), take(disk, "two", FREE):
        pass


def test_what_is_written_already_is_not_counted_twice(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is gone from the free bytes: of a claim only the rest is kept for it."""
    monkeypatch.setattr(settings, "free_disk", lambda _: 10_000)
    with take(disk, "one", 8192):
        (disk / "one" / "part.sif").write_bytes(bytes(8192))
        with take(disk, "two", 10_000):
            pass
