"""A night over small rows: real index and mirror on loopback, real engine, real registry, real kills."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from uuid import uuid4

import nightly_on_rows
import pytest
import small_project
from moving_tags import Watcher, key_of, settled, standing
from nightly_on_rows import SET, project, work
from own_engine import forget
from registry_server import RegistryServer, StartRegistry
from small_project import NCCL, ROOT, ROWS
from upstream_server import UpstreamServer, serving

from stackwright.core.model.night import Kind, Morning, State
from stackwright.core.model.record import Phase, Status
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.runner import Completed, Runner
from stackwright.nightly.words import text
from stackwright.records import files as record
from stackwright.records.files import load_all
from stackwright.records.history import builds as history
from stackwright.records.history import nights

KILLS = int(os.environ.get("STACKWRIGHT_KILLS", "20"))
"""20 take two to three minutes; more or fewer by STACKWRIGHT_KILLS."""


class Counting(Runner):
    """Notes every program that is started."""

    def __call__(self, argv, **options) -> Completed:  # type: ignore[no-untyped-def]
        started.append(str(argv[0]))
        return super().__call__(argv, **options)


started: list[str] = []


@pytest.fixture
def root(
    tmp_path: Path, docker: Docker, tiny: str, host_tools: None, request: pytest.FixtureRequest
) -> Iterator[Path]:
    """A project of its own. A test gives ``nap`` indirectly where its builds are to take their time."""
    engine.tag(docker, tiny, small_project.BASE)
    nap = getattr(request, "param", "true")
    yield small_project.make(tmp_path / "project", uuid4().hex, nap=nap)
    remove_images(docker)


def remove_images(docker: Docker) -> None:
    with engine.connected(docker) as client:
        for row in ROWS:
            for image in client.images.list(name=f"stackwright/{row}"):
                client.images.remove(str(image.id), force=True)
    forget(docker, small_project.BASE)


@pytest.fixture(scope="module")
def first_night(
    tmp_path_factory: pytest.TempPathFactory, docker: Docker, tiny: str, host_tools: None
) -> Iterator[tuple[Path, Morning]]:
    """A project after its first night, which tests copy; its images are gone, as on another machine."""
    engine.tag(docker, tiny, small_project.BASE)
    root = small_project.make(tmp_path_factory.mktemp("first") / "project", uuid4().hex)
    with pytest.MonkeyPatch.context() as patch, serving(patch):
        morning = work(root)
    remove_images(docker)
    yield root, morning


@pytest.fixture
def after(first_night: tuple[Path, Morning], tmp_path: Path, docker: Docker, tiny: str) -> Iterator[Path]:
    engine.tag(docker, tiny, small_project.BASE)
    yield shutil.copytree(first_night[0], tmp_path / "project", symlinks=True)
    remove_images(docker)


def test_the_first_night_builds_all_and_the_second_nothing(
    first_night: tuple[Path, Morning], after: Path, upstream: UpstreamServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = first_night[1]
    assert [(row.row, row.state) for row in first.rows] == [(row, State.REBUILT) for row in ROWS], text(first)
    monkeypatch.setenv("DOCKER_HOST", "unix:///there-is-no-engine")
    started.clear()
    second = work(after, runner=Counting())
    assert [row.state for row in second.rows] == [State.UNCHANGED] * 3
    assert {Path(name).name for name in started} <= {"uv", "apt-get"}, "no engine is looked for"


def test_one_nccl_value_changed_rebuilds_one_row_from_the_stage_that_reads_it(
    after: Path, upstream: UpstreamServer
) -> None:
    small_project.write_matrix(after, {**NCCL, "small-c": "2.28.3"})
    morning = work(after)
    (row,) = morning.of(State.REBUILT)
    assert row.row == "small-c"
    assert len(morning.of(State.UNCHANGED)) == 2
    assert {stage.name: stage.executed > 0 for stage in row.stages} == {
        "base": False, "toolchain": False, "frameworks": True, "horovod": True, "final": True,
    }  # fmt: skip
    said = text(morning)
    assert "because matrix value nccl 2.27.7 -> 2.28.3" in said
    assert "and with it package nvidia-nccl-cu12 2.27.7 -> 2.28.3" in said
    assert "from the cache: base, toolchain" in said
    assert "Changed upstream" not in said, "a person changed it"


def test_what_moved_upstream_is_told_package_by_package(after: Path, upstream: UpstreamServer) -> None:
    upstream.package("numpy", "2.2.4")
    morning = work(after)
    assert len(morning.of(State.REBUILT)) == 3
    ((change, rows),) = morning.upstream
    assert (change.kind, change.name, change.old, change.new) == (Kind.PACKAGE, "numpy", "2.2.3", "2.2.4")
    assert rows == ROWS
    kept = project(after).out / "nightly" / morning.run / "locks"
    assert {path.stem for path in kept.iterdir()} == set(ROWS)
    assert not (after / "locks").exists(), "the project's own locks are left alone"


def test_a_row_that_fails_stops_no_other_and_its_known_cause_is_named(
    root: Path, upstream: UpstreamServer
) -> None:
    path = root / "dockerfiles" / "Dockerfile.j2"
    template = path.read_text()
    lines = "RUN echo 'No space left on device'\nRUN echo 'Hash Sum mismatch' >&2; exit 1\n"
    broken = f"{{% if stack.id == 'small-b' %}}{lines}{{% endif %}}LABEL"
    path.write_text(template.replace("LABEL", broken))
    morning = work(root)
    assert [row.state for row in morning.rows] == [State.REBUILT, State.FAILED, State.REBUILT]
    (failed,) = morning.of(State.FAILED)
    assert failed.failure and (failed.failure.known, failed.failure.phase) == ("hash-mismatch", "build")
    assert "known cause: hash-mismatch" in text(morning)
    loaded = load_all(project(root).records).records
    assert [known.cause for known in loaded if known.row == "small-b"][-1] == "hash-mismatch"
    path.write_text(template)
    again = work(root)
    assert [row.row for row in again.of(State.REBUILT)] == ["small-b"]


@pytest.mark.long
def test_an_index_that_does_not_answer_leaves_rows_unresolved_and_nothing_is_built_of_old_locks(
    after: Path, upstream: UpstreamServer
) -> None:
    small_project.write_matrix(after, {**NCCL, "small-c": "2.28.3"})
    upstream.stop()
    morning = work(after)
    upstream.start()
    assert [row.state for row in morning.rows] == [State.UNRESOLVED] * 3
    assert all(row.failure and row.failure.exit_code == 11 for row in morning.rows)
    assert "Not resolved" in text(morning)


def test_what_the_index_refuses_is_newly_impossible_once(after: Path, upstream: UpstreamServer) -> None:
    for path in [path for path in upstream.files if "nvidia_nccl_cu12-2.27.7" in path]:
        del upstream.files[path]
    page = upstream.files["/simple/nvidia-nccl-cu12/"].decode().splitlines(keepends=True)
    kept = "".join(line for line in page if "2.27.7" not in line)
    upstream.files["/simple/nvidia-nccl-cu12/"] = kept.encode()
    first, second = work(after), work(after)
    assert [(row.row, row.new) for row in first.of(State.IMPOSSIBLE)] == [
        ("small-b", True),
        ("small-c", True),
    ]
    assert [row.new for row in second.of(State.IMPOSSIBLE)] == [False, False]
    assert "Newly impossible" in text(first)
    assert "Impossible as before" in text(second)
    assert "rule: resolver" in text(first)


# -- publishing, and the kills ---------------------------------------------------------------------


@pytest.fixture
def registry(start_registry: StartRegistry) -> RegistryServer:
    return start_registry(tls=False, login=False)


def keys_of(morning: Morning) -> tuple[str, ...]:
    return tuple(row.key for row in morning.rows)


def test_what_passed_is_published_once_and_moves_together(
    root: Path, upstream: UpstreamServer, registry: RegistryServer
) -> None:
    first = work(root, registry.address)
    assert all(row.pushed for row in first.rows), text(first)
    assert standing(registry) == keys_of(first)
    before = registry.log.read_text()
    second = work(root, registry.address)
    assert not any(row.pushed for row in second.rows)
    assert registry.log.read_text() == before, "nothing is asked of the registry"


@pytest.mark.long
def test_a_registry_that_refuses_leaves_the_build_done_and_is_tried_again(
    root: Path, upstream: UpstreamServer, registry: RegistryServer
) -> None:
    registry.kill()
    first = work(root, registry.address)
    assert [row.state for row in first.rows] == [State.REBUILT] * 3
    assert all(row.unpublished for row in first.rows)
    registry.start()
    second = work(root, registry.address)
    assert [row.state for row in second.rows] == [State.UNCHANGED] * 3
    assert standing(registry) == keys_of(second)


@pytest.mark.long
def test_a_row_that_went_back_to_what_it_was_is_published_again_and_not_built(
    root: Path, upstream: UpstreamServer, registry: RegistryServer
) -> None:
    first = work(root, registry.address)
    small_project.write_matrix(root, {**NCCL, "small-c": "2.28.3"})
    changed = work(root, registry.address)
    assert standing(registry) == keys_of(changed) != keys_of(first)
    small_project.write_matrix(root, NCCL)
    back = work(root, registry.address)
    assert [row.state for row in back.rows] == [State.UNCHANGED, State.UNCHANGED, State.REBUILT]
    assert "not rebuilt" in text(back)
    assert standing(registry) == keys_of(back) == keys_of(first)
    assert len(builds(root)) == 4, "small-c under two keys, the others under one"
    assert [row.state for row in work(root, registry.address).rows] == [State.UNCHANGED] * 3


@pytest.mark.long
def test_what_is_built_and_not_published_is_made_again_where_its_image_is_gone(
    root: Path, upstream: UpstreamServer, registry: RegistryServer, docker: Docker
) -> None:
    """As on a fresh machine that got the history alone."""
    first = work(root)
    shutil.rmtree(root / "out" / "records" / "small-a")
    with engine.connected(docker) as client:
        client.images.remove(f"stackwright/small-b:{first.rows[1].key[:12]}", force=True)
    second = work(root, registry.address)
    assert all(row.pushed for row in second.rows), text(second)
    assert standing(registry) == keys_of(first) == keys_of(second)


def builds(root: Path) -> list[tuple[str, str]]:
    """Row and key of every build that ended."""
    loaded = record.load_all(root / "out" / "records")
    assert loaded.warnings == ()
    return [(known.row, known.key) for known in loaded.records if known.seconds(Phase.BUILD) is not None]


def nights_of(root: Path, keys: Iterable[str]) -> set[str]:
    """The release of numpy in each key: it names the night that the key is of."""
    with history.opened(root / "out" / "history.sqlite") as db:
        found = [{entry.name: entry.value for entry in nights.inputs_of(db, key)} for key in keys]
    return {inputs["numpy"] for inputs in found}


def started_night(root: Path, address: str) -> subprocess.Popen[bytes]:
    with (root / "night.log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, nightly_on_rows.__file__, root, address],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=log, stderr=log,
        )  # fmt: skip


def killed_as_soon_as(root: Path, address: str, reached: Callable[[], bool]) -> None:
    with started_night(root, address) as night:
        while not reached():
            assert night.poll() is None, (root / "night.log").read_text()
            time.sleep(0.05)
        night.send_signal(signal.SIGKILL)


def killed(root: Path, address: str, *, after: float) -> bool:
    """Start a night; whether it was still at work after so many seconds. If not, it ended well."""
    night = started_night(root, address)
    try:
        assert night.wait(timeout=after) == 0, (root / "night.log").read_text()
    except subprocess.TimeoutExpired:
        night.send_signal(signal.SIGKILL)
        night.wait()
        return True
    return False


@pytest.mark.long
def test_a_mixed_set_would_be_seen(root: Path, upstream: UpstreamServer, registry: RegistryServer) -> None:
    """A night over one row alone makes one: what the test below looks for can be found."""
    work(root, registry.address)
    upstream.package("numpy", "2.2.4")
    with Watcher(registry) as watcher:
        work(root, registry.address, rows=ROWS[:1])
    mixed = [nights_of(root, [key_of(registry, digest) for digest in digests]) for digests in watcher.seen]
    assert {"2.2.3", "2.2.4"} in mixed


def require_whole(root: Path, registry: RegistryServer, watcher: Watcher, last: Morning) -> None:
    """After nights that were killed, and one that was not."""
    print(f"the tag {SET} was read {watcher.looks} times, and led to {len(watcher.seen)} sets")
    for digests in watcher.seen:
        assert len(digests) == len(ROWS)
        assert len(nights_of(root, [key_of(registry, digest) for digest in digests])) == 1, "a mixed set"
    assert {row.state for row in last.rows} <= {State.REBUILT, State.UNCHANGED}, text(last)
    assert settled(root, registry) == keys_of(last)
    assert len(builds(root)) == len(set(builds(root))), "nothing that had finished was built again"
    newest = record.newest(record.load_all(root / "out" / "records").records)
    assert {known.status for known in newest} == {Status.COMPLETE}
    with history.opened(root / "out" / "history.sqlite") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.long
@pytest.mark.parametrize("root", [small_project.NAP], indirect=True, ids=["slowly"])
def test_killed_at_each_of_its_points_it_ends_whole(
    root: Path, upstream: UpstreamServer, registry: RegistryServer
) -> None:
    """Yesterday is published; tonight every row changed. While tags move: test_publish_faults.py."""
    work(root, registry.address)
    upstream.package("numpy", "2.3.0")
    records = root / "out" / "records"
    before, proven = len(list(records.glob("*/*.json"))), len(builds(root))
    points = (
        lambda: len(list(records.glob("*/*.json"))) > before,  # the first row has begun
        lambda: len(builds(root)) > proven,  # it is built
        lambda: len(builds(root)) == proven + len(ROWS),  # all are, and are about to be published
    )
    with Watcher(registry) as watcher:
        for reached in points:
            killed_as_soon_as(root, registry.address, reached)
            assert len(nights_of(root, settled(root, registry))) == 1, "tags of two nights side by side"
        last = work(root, registry.address)
    require_whole(root, registry, watcher, last)


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.parametrize("root", [small_project.NAP], indirect=True, ids=["slowly"])
def test_killed_at_random_moments_it_ends_whole(
    root: Path, upstream: UpstreamServer, registry: RegistryServer
) -> None:
    """Yesterday is published; tonight every row changed, and the night is killed again and again."""
    seed = int(os.environ.get("STACKWRIGHT_SEED") or random.SystemRandom().randrange(10**6))
    print(f"STACKWRIGHT_SEED={seed} kills: {KILLS}")
    chance = random.Random(seed)
    work(root, registry.address)
    releases = (f"2.3.{number}" for number in itertools.count())
    upstream.package("numpy", next(releases))
    with Watcher(registry) as watcher:
        kills = 0
        while kills < KILLS:
            if killed(root, registry.address, after=chance.uniform(0.2, 7)):
                kills += 1
            else:
                upstream.package("numpy", next(releases))  # it was done: the next one has work again
            assert len(nights_of(root, settled(root, registry))) == 1, "tags of two nights side by side"
        last = work(root, registry.address)
    require_whole(root, registry, watcher, last)
