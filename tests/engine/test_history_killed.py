"""A writer of the history that is killed leaves a whole file."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_project import ROOT

from stackwright.records.history import builds

FEW, MORE = 3, 10


@pytest.mark.long
@pytest.mark.parametrize("kills", [FEW, pytest.param(MORE, marks=pytest.mark.nightly)])
def test_a_kill_in_the_middle_of_a_write_leaves_it_whole(kills: int, tmp_path: Path) -> None:
    """Each transaction of the writer adds ten rows: never some of them."""
    path = tmp_path / "history.sqlite"
    writer = (
        "import sys, itertools\nfrom pathlib import Path\n"
        "from stackwright.records.history import builds as history\n"
        "with history.opened(Path(sys.argv[1])) as db:\n"
        "    for n in itertools.count(int(sys.argv[2])):\n"
        "        with history.transaction(db):\n"
        "            rows = [(f'{n}', 'package', f'p{i}', 'v' * 2000) for i in range(10)]\n"
        "            history.insert(db, 'input', rows)\n"
    )
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    last = 0
    for number in range(kills):
        argv = [sys.executable, "-c", writer, str(path), str(number * 10**6)]
        child = subprocess.Popen(argv, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
        time.sleep(chance.uniform(0.6, 1.2))
        child.send_signal(signal.SIGKILL)
        child.wait()
        with builds.opened(path) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            counts = db.execute("SELECT DISTINCT count(*) FROM input GROUP BY key").fetchall()
            assert counts in ([], [(10,)])
            now = db.execute("SELECT count(*) FROM input").fetchone()[0]
            assert now >= last
            last = now
    assert last > 0
