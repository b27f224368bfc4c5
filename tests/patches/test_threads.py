"""python39-threads.patch: threads that were joined have ended when Horovod forks."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import horovod_source as source
from patching import apply

from stackwright.core.facts.patches import load_series
from stackwright.host.runner import Runner

SERIES = load_series(source.ROOT / "patches" / "horovod")
PATCH = "python39-threads.patch"
THREADS = "horovod/runner/util/threads.py"
CALLS = 5
COUNT = f"""
import ctypes, os, runpy
run = runpy.run_path("{THREADS}")["execute_function_multithreaded"]
libc, key = ctypes.CDLL(None), ctypes.c_uint()
assert libc.pthread_key_create(ctypes.byref(key), libc.usleep) == 0
def end_late(microseconds):
    return libc.pthread_setspecific(key, ctypes.c_void_p(microseconds))
left = 0
for _ in range({CALLS}):
    assert set(run(end_late, [[50_000], [50_001]]).values()) == {{0}}
    left += len(os.listdir("/proc/self/task")) > 1
print(left)
"""
"""How often a thread is still in the process after Horovod has waited for it.

glibc calls a key's destructor with the thread's value when the thread ends, after Python says that it was
joined: here usleep, so that the moment of the fault is 50 ms long and does not depend on the machine's load.
"""


def left(runner: Runner, folder: Path) -> int:
    done = runner([sys.executable, "-c", COUNT], cwd=folder)
    assert done.ok, done.stderr
    return int(done.stdout)


def test_no_thread_is_left_where_a_fork_follows(tmp_path: Path) -> None:
    runner = Runner()
    whole = source.unpack(source.archive(runner, SERIES), tmp_path / "released")
    (tmp_path / THREADS).parent.mkdir(parents=True)
    shutil.copy(whole / THREADS, tmp_path / THREADS)
    assert left(runner, tmp_path) == CALLS, "the released source leaves one each time: what the patch is for"
    program = source.patch_program(runner, tmp_path)
    (content,) = (patch.content for patch in SERIES.patches if patch.file == PATCH)
    apply(runner, program, tmp_path, [(PATCH, content)])
    assert left(runner, tmp_path) == 0
