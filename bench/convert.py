"""How fast an image becomes a .sif: Apptainer's way and Stackwright's, and whether the files are equal.

    .venv/bin/python bench/convert.py IMAGE [-n 3] [--to docs/results/DAY/convert]

Apptainer's own way is `docker save` and `apptainer build` with its defaults, as root. Ours are measured
whole, as `./build.py sif` goes them: the look at the disk, the SIF, its check by `apptainer inspect`, its
sha256. Each round goes every way once, so that what else the machine does falls on all; before each the page
cache is dropped, where that is allowed. Free disk of four times the image is needed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import contents
from bench.scaling import host_class
from stackwright.build.sif import convert
from stackwright.core.errors import ConvertError, EngineError, StackwrightError
from stackwright.core.model.compression import DEFAULT, Compression, compression
from stackwright.engines import apptainer, docker
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import Docker
from stackwright.engines.sif.squashfs import Way
from stackwright.host.runner import Runner
from stackwright.host.site import settings as host

APPTAINERS = "docker save, apptainer build"
OURS = (Way.MOUNTED, Way.LAYERS, Way.STREAM)
GB = 10**9
HOLDS: Mapping[Way, float] = {Way.MOUNTED: 12, Way.LAYERS: 12, Way.STREAM: 4}
"""How many times as fast as Apptainer's own way each has to be. The first and the last need no root."""

LARGER, MORE_DISK = 1.02, GB
"""The file may be 2 % larger, and the peak 1 GB above the file."""

IMPORT_TORCH = "python3 -c 'import torch'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One conversion. ``peak`` are bytes of disk on the way, the result among them; ``start`` seconds until a
    program in it has ended, with a cold cache, None where none was started."""

    way: str
    compression: str
    seconds: float
    bytes: int
    peak: int
    start: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The medians of a way's runs, and Apptainer's own. ``holds``: whether the promises hold."""

    way: str
    compression: str
    runs: int
    seconds: float
    bytes: int
    peak: int
    start: float | None
    times: float
    larger: float
    holds: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """``differing``: by way, the first differences from Apptainer's file, and how many of each kind."""

    image: str
    image_bytes: int
    files: int
    day: str
    host: str
    remark: str
    started: str
    runs: tuple[Run, ...]
    compressions: tuple[Run, ...]
    differing: Mapping[str, Mapping[str, Any]]


# -- arithmetic -------------------------------------------------------------------------------------


def lines(runs: Sequence[Run]) -> tuple[Line, ...]:
    """ValueError where Apptainer's own way was not measured."""
    own = [run for run in runs if run.way == APPTAINERS]
    if not own:
        raise ValueError("nothing to compare with")
    base = _medians(own)
    names = dict.fromkeys(run.way for run in runs)
    return tuple(_line([run for run in runs if run.way == name], base) for name in names)


def _medians(runs: Sequence[Run]) -> tuple[float, int, int, float | None]:
    starts = [run.start for run in runs if run.start is not None]
    return (
        statistics.median(run.seconds for run in runs),
        int(statistics.median(run.bytes for run in runs)),
        max(run.peak for run in runs),
        statistics.median(starts) if starts else None,
    )


def _line(runs: Sequence[Run], base: tuple[float, int, int, float | None]) -> Line:
    way, (seconds, size, peak, start) = runs[0].way, _medians(runs)
    times, larger = base[0] / seconds, size / base[1]
    holds = {}
    if way != APPTAINERS:
        holds = {
            f"{HOLDS[Way(way)]:g} times as fast": times >= HOLDS[Way(way)],
            "at most 2 % larger": larger <= LARGER,
            "at most 1 GB of disk more than the file": peak <= size + MORE_DISK,
        }
    return Line(
        way=way, compression=runs[0].compression, runs=len(runs), seconds=seconds, bytes=size, peak=peak,
        start=start, times=times, larger=larger, holds=holds,
    )  # fmt: skip


def table(found: Sequence[Line]) -> str:
    """Markdown."""
    rows = [
        "| way | compression | seconds (median) | times as fast | SIF, GB | to Apptainer's "
        "| disk at the peak, GB | start, s |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for line in found:
        size = f"{line.bytes / GB:.3f} | {line.larger - 1:+.1%} | {line.peak / GB:.2f}"
        rows.append(
            f"| {line.way} | {line.compression} | {line.seconds:.1f} (of {line.runs}) | {line.times:.1f} "
            f"| {size} | {_start(line.start)} |"
        )
    return "\n".join(rows)


def choices(runs: Sequence[Run], image_bytes: int) -> str:
    """Markdown: what each compression costs."""
    rows = ["| compression | seconds | SIF, GB | of the image | start, s |", "|---|--:|--:|--:|--:|"]
    for run in runs:
        size = f"{run.bytes / GB:.3f} | {run.bytes / image_bytes:.2f}"
        rows.append(f"| {run.compression} | {run.seconds:.1f} | {size} | {_start(run.start)} |")
    return "\n".join(rows)


def _start(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.1f}"


def verdict(said: Measured) -> Iterator[str]:
    """A line for each promise of each way: what holds, and what does not."""
    for line in lines(said.runs):
        for promise, holds in line.holds.items():
            yield f"- {line.way}: {promise}: {'holds' if holds else 'DOES NOT HOLD'}"
    for way, found in said.differing.items():
        same = not found["first"]
        yield f"- {way}: the same {said.files} paths: {'holds' if same else f'DOES NOT HOLD: {found}'}"


def holds(said: Measured) -> bool:
    promised = all(all(line.holds.values()) for line in lines(said.runs))
    return promised and not any(found["first"] for found in said.differing.values())


# -- measuring --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    docker: Docker
    runner: Runner
    apptainer: Apptainer
    image: str
    image_bytes: int
    folder: Path
    start: tuple[str, ...]

    def by_apptainer(self, target: Path) -> None:
        archive = self.folder / "image.tar"
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        done = self.runner(self.docker.command("image", "save", "--output", archive, self.image))
        if not done.ok:
            raise EngineError(done.stderr.strip(), place=self.image)
        env = {"APPTAINER_TMPDIR": str(temporary), "APPTAINER_CACHEDIR": str(temporary / "cache")}
        words = ("build", target, f"docker-archive:{archive}")
        done = self.apptainer(*words, folders=(self.folder,), env=env)
        if not done.ok:
            raise ConvertError(done.stderr[-2000:], place=self.image)
        archive.unlink()

    def by(self, way: Way, how: Compression, target: Path) -> None:
        convert.to_sif(
            self.image, target, docker=self.docker, runner=self.runner, apptainer=self.apptainer,
            image_bytes=self.image_bytes,
            conversion=convert.Conversion(compression=how, ways=(way,)),
        )  # fmt: skip

    def run(self, way: str, how: Compression | None, make: Callable[[Path], None], target: Path) -> Run:
        """Convert once, and start the program in the result."""
        target.unlink(missing_ok=True)
        drop_caches()
        with sampled(self.used) as peak:
            began = time.monotonic()
            make(target)
            seconds = time.monotonic() - began
        run = Run(
            way=way, compression=how.name if how else "gzip:9", seconds=seconds, bytes=target.stat().st_size,
            peak=max(peak), start=self.started(target),
        )  # fmt: skip
        print(f"{way}, {run.compression}: {seconds:.1f} s, {run.bytes} bytes", file=sys.stderr, flush=True)
        return run

    def used(self) -> int:
        """Bytes of the work, and of the files that the engine itself writes for `docker save`."""
        of_engine = (Path(self.docker.root) / "tmp").glob("docker-export-*")
        with contextlib.suppress(OSError):  # only root looks there
            return host.used_disk(self.folder) + sum(host.used_disk(folder) for folder in of_engine)
        return host.used_disk(self.folder)

    def started(self, sif: Path) -> float | None:
        if not self.start:
            return None
        drop_caches()
        began = time.monotonic()
        done = self.apptainer.exec(sif, self.start)
        if not done.ok:
            raise ConvertError(f"{shlex.join(self.start)}: {done.stderr[-2000:]}", place=str(sif))
        return time.monotonic() - began


def drop_caches() -> None:
    """What was read is read again from the disk. Only root may; see ``remark``."""
    os.sync()
    with contextlib.suppress(OSError):
        Path("/proc/sys/vm/drop_caches").write_text("3\n")


@contextlib.contextmanager
def sampled(used: Callable[[], int]) -> Iterator[list[int]]:
    """Bytes that appear, beyond those that are there, again and again: in a twentieth of one core's time."""
    before = used()
    seen, ended = [0], threading.Event()

    def sample() -> None:
        pause = 0.1
        while not ended.wait(pause):
            began = time.monotonic()
            seen.append(used() - before)
            pause = max(0.1, 20 * (time.monotonic() - began))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield seen
    finally:
        seen.append(used() - before)
        ended.set()
        thread.join()


def compared(bench: Bench, image: Mapping[str, contents.Entry], sif: Path) -> Mapping[str, Any]:
    """The differences but those of times, which are those of the conversion in what Apptainer adds."""
    found = list(contents.differences(image, contents.of_sif(bench.docker, sif)))
    kinds = [each.what for each in found]
    first = [each._asdict() for each in found if each.what != "time"][:10]
    return {"first": first, "kinds": {kind: kinds.count(kind) for kind in sorted(set(kinds))}}


def measure(bench: Bench, rounds: int, choice: Sequence[Compression]) -> Iterator[Measured]:
    """After each round what is known by then."""
    remark = "cold page cache" if os.access("/proc/sys/vm/drop_caches", os.W_OK) else "page cache as it was"
    load = os.getloadavg()[0]
    runs: list[Run] = []
    files: dict[str, contents.Entry] = {}
    differing: dict[str, Mapping[str, Any]] = {}
    costs: list[Run] = []
    slow, fast = bench.folder / "slow.sif", bench.folder / "fast.sif"

    def known() -> Measured:
        return Measured(
            image=bench.image, image_bytes=bench.image_bytes, files=len(files), remark=remark,
            day=f"{datetime.now(UTC):%Y-%m-%d}", host=host_class(load), started=shlex.join(bench.start),
            runs=tuple(runs), compressions=tuple(costs), differing=dict(differing),
        )  # fmt: skip

    for number in range(rounds):
        runs.append(bench.run(APPTAINERS, None, bench.by_apptainer, slow))
        files = files or contents.of_sif(bench.docker, slow)
        slow.unlink()
        for way in OURS:
            runs.append(bench.run(way, DEFAULT, partial(bench.by, way, DEFAULT), fast))
            if number == 0:
                differing[way] = compared(bench, files, fast)
        yield known()
    for how in choice:
        costs.append(bench.run(OURS[0], how, partial(bench.by, OURS[0], how), fast))
    yield known()


# -- what is left of it -----------------------------------------------------------------------------


def page(said: Measured) -> str:
    text = (
        f"# {said.image}: from the image to a .sif\n\n{said.day}; {said.host}; {said.remark}. The image has "
        f"{said.image_bytes / GB:.2f} GB; start: `{said.started}`, by `apptainer exec` in its container.\n\n"
        f"{table(lines(said.runs))}\n\n" + "\n".join(verdict(said)) + "\n"
    )
    if said.compressions:
        text += f"\n{choices(said.compressions, said.image_bytes)}\n"
    return text


def write(folder: Path, said: Measured) -> None:
    """NAME.json and NAME.md, of the image's name."""
    folder.mkdir(parents=True, exist_ok=True)
    name = said.image.rpartition("/")[2].partition(":")[0]
    document = {"version": 1, **asdict(said), "medians": [asdict(line) for line in lines(said.runs)]}
    (folder / f"{name}.json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    (folder / f"{name}.md").write_text(page(said))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("image", help="one that the engine has")
    parser.add_argument("-n", type=int, default=3, help="rounds (3)")
    parser.add_argument("--to", type=Path, help="folder that receives NAME.json and NAME.md")
    parser.add_argument("--start", default=IMPORT_TORCH, help="what is started in the result; '' for nothing")
    parser.add_argument("--compressions", default="", help="also by these, once each: zstd:1,zstd:9,lz4")
    parser.add_argument("--work", type=Path, default=Path("out"), help="where the files are made (out)")
    given = parser.parse_args()
    choice = [compression(name) for name in given.compressions.split(",") if name]
    runner = Runner()
    engine = docker.find(runner)
    if not docker.image_exists(engine, given.image):
        raise EngineError("no such image", place=given.image)
    program = apptainer.find(runner, engine, mirror=host.apt_mirror(runner))
    given.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=given.work.resolve()) as folder:
        bench = Bench(
            docker=engine, runner=runner, apptainer=program, image=given.image,
            image_bytes=docker.size(docker.layers(engine, given.image)), folder=Path(folder),
            start=tuple(shlex.split(given.start)),
        )  # fmt: skip
        for said in measure(bench, given.n, choice):
            if given.to:
                write(given.to, said)
    print(page(said))
    sys.exit(0 if holds(said) else 1)


if __name__ == "__main__":
    try:
        main()
    except StackwrightError as error:
        sys.exit(f"error: {error}")
