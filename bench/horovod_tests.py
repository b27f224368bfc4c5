"""Horovod's own tests of runner, rendezvous and elastic, in an image without the patches and in one with.

    .venv/bin/python bench/horovod_tests.py TESTS --before IMAGE --after IMAGE [--only test_run.py]

TESTS is the folder `test` of Horovod's repository at v0.28.1; the source archive has none:
`git archive v0.28.1 test | tar -x -C FOLDER`. The few tests that had to change do so for the image with the
patches alone: tests/patches/horovod-tests.diff. The programs that run them come from the package index.
Prints the table of docs/results/2026-11-22/horovod-tests.md. Takes a quarter of an hour and wants an idle
host: the tests of elastic jobs compare times.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from stackwright.host.runner import Runner

CHANGES = Path(__file__).resolve().parent.parent / "tests" / "patches" / "horovod-tests.diff"

FILES = (
    "single/test_run.py",
    "single/test_elastic_driver.py",
    "single/test_elastic_discovery.py",
    "single/test_service.py",
    "single/test_task_service.py",
    "single/test_util.py",
    "single/test_torch_elastic.py",
    "single/test_elastic_run.py",
    "integration/test_static_run.py",
    "integration/test_interactiverun.py",
    "integration/test_elastic_torch.py",
    "integration/test_stall.py",
)
SSH = """set -e
mkdir -p ~/.ssh
ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519
cp ~/.ssh/id_ed25519.pub ~/.ssh/authorized_keys
printf '%s\\n' 'Host *' 'Port 2222' 'StrictHostKeyChecking no' 'UserKnownHostsFile /dev/null' > ~/.ssh/config
chmod -R go= ~/.ssh
sshd-as-user 2222 > ~/sshd.log 2>&1 &
cd
exec "$@"
"""
"""Some tests start workers by ssh, on this container's own addresses."""

PROGRAMS = ("pytest==7.4.4", "pluggy", "iniconfig", "packaging", "mock", "parameterized")
PATH = "/run/horovod/programs:/run/horovod/test/utils:/run/horovod/test/single:/run/horovod/test/integration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """``failed`` names the tests; a file that could not be imported is one of them."""

    passed: int
    skipped: int
    failed: tuple[str, ...]

    def __str__(self) -> str:
        said = f"{self.passed} passed"
        said += f", {self.skipped} skipped" if self.skipped else ""
        return said + (f", failed: {', '.join(self.failed)}" if self.failed else "")


def outcome(said: str) -> Outcome:
    """What pytest says in its summary."""
    counts = {
        what: int(number) for number, what in re.findall(r"(\d+) (passed|skipped)", said.splitlines()[-1])
    }
    bad = re.findall(r"^(?:FAILED|ERROR) (?:.*::)?(\S+)", said, re.MULTILINE)
    return Outcome(passed=counts.get("passed", 0), skipped=counts.get("skipped", 0), failed=tuple(bad))


def table(rows: Sequence[tuple[str, Outcome, Outcome]]) -> str:
    lines = ["| tests | without the patches | with them |", "|---|---|---|"]
    lines += [f"| `{file}` | {before} | {after} |" for file, before, after in rows]
    return "\n".join(lines)


def run(runner: Runner, image: str, mounted: Path, file: str) -> Outcome:
    """One file of tests in a container of its own, as the image's user."""
    argv: list[str | Path] = [
        "docker",
        "run",
        "--rm",
        "--shm-size",
        "1g",
        "--volume",
        f"{mounted}:/run/horovod:ro",
    ]
    argv += [
        "--env",
        f"PYTHONPATH={PATH}",
        "--env",
        "PYTHONDONTWRITEBYTECODE=1",
        image,
        "python",
        "-m",
        "pytest",
    ]
    argv += ["-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", f"/run/horovod/test/{file}"]
    done = runner(argv, timeout=3600)
    if not done.stdout.strip():
        raise SystemExit(f"{file} in {image}: {done.stderr[-2000:]}")
    return outcome(done.stdout.strip())


def prepare(runner: Runner, tests: Path, folder: Path, *, change: bool) -> Path:
    """Copy the tests, changed or not, next to the programs that run them."""
    shutil.copytree(tests, folder / "test")
    programs: list[str | Path] = ["--quiet", "--no-deps", "--target", folder / "programs", *PROGRAMS]
    done = runner([sys.executable, "-m", "pip", "install", *programs], timeout=600)
    if done.ok and change:
        done = runner(["patch", "-p1", "-d", folder, "--fuzz=0"], stdin=CHANGES.read_text())
    if not done.ok:
        raise SystemExit(done.stdout + done.stderr)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tests", type=Path)
    parser.add_argument("--before", required=True)
    parser.add_argument("--after", required=True)
    parser.add_argument("--only", default="")
    given, runner = parser.parse_args(), Runner()
    files = [file for file in FILES if given.only in file]
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)
        folders = [Path(scratch) / name for name in ("before", "after")]
        for folder in folders:
            folder.mkdir()
            prepare(runner, given.tests, folder, change=folder.name == "after")
        images = (given.before, given.after)
        rows = []
        for file in files:
            before, after = (run(runner, image, at, file) for image, at in zip(images, folders, strict=True))
            print(f"{file}: {before}; {after}", file=sys.stderr)
            rows.append((file, before, after))
    print(table(rows))


if __name__ == "__main__":
    main()
