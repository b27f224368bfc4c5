"""clean on a real engine that several checkouts share: each frees what is its own, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import report_samples
from command import call
from own_engine import TINY, OwnEngine, own_engine

from stackwright.build import clean
from stackwright.build.solve import Inputs, build
from stackwright.core.model import labels
from stackwright.core.model.record import Image
from stackwright.core.model.row import Recipe
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker, Job
from stackwright.host import owners
from stackwright.host.files import row_lock
from stackwright.host.project import Project
from stackwright.host.runner import Runner
from stackwright.records import files as record

pytestmark = pytest.mark.engine

ROOT = Path(__file__).resolve().parents[2]
OLD, NEW, BROKEN = (digit * 64 for digit in "abc")


@pytest.fixture(scope="module")
def own(runner: Runner, tiny_tar: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnEngine]:
    with own_engine(tmp_path_factory.mktemp("e"), {}, runner) as started:
        done = runner(started.docker.command("import", "--change", "ENV PATH=/bin", tiny_tar, TINY))
        assert done.ok, done.stderr
        yield started


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A project whose matrix has the row ``row`` with the key NEW."""

    project: Project
    docker: Docker

    def base(self, date: str) -> str:
        """A base of this date, as the debian provider leaves it."""
        name = f"stackwright/base:debian-13-{date}"
        if not engine.image_exists(self.docker, name):
            folder = self.project.out / "bases" / date
            folder.mkdir(parents=True)
            (folder / "Dockerfile").write_text(f"FROM {TINY}\nLABEL {labels.PROVIDER}=debian date={date}\n")
            done = Runner()(self.docker.build("--tag", name, folder))
            assert done.ok, done.stderr
        assert engine.mark(self.docker, name)
        return name

    def build(self, row: str, key: str, base: str = TINY, *, recorded: bool = True) -> str:
        """Build a row's image by the real ``build``, and record it."""
        text = f"FROM {TINY} AS final\nRUN echo {row} {key} > /row\nLABEL {labels.ROW}={row}\n"
        recipe = Recipe(id=row, key=key, files=(("Dockerfile", text.encode()),))
        self.project.note(recipe)
        done = build(
            recipe, self.project.folder(recipe), Inputs(images=(), options=("--network=none",)),
            docker=self.docker, runner=Runner(), on_event=lambda event: None,
        )  # fmt: skip
        found = engine.inspect(self.docker, done.reference)
        assert found is not None
        image = Image(reference=done.reference, id=found["Id"], bytes=1, base=base)
        sample = replace(report_samples.built(row=row), key=key, image=image if recorded else None)
        record.write(sample, self.project.records)
        return done.reference

    def known(self) -> clean.Known:
        found = clean.known(self.project, ())
        return replace(found, current={"row": NEW}, bases=found.bases | {"stackwright/base:debian-13-today"})

    def items(self, whose: str = clean.OURS) -> dict[str, clean.Item]:
        every = clean.survey(self.docker, self.known())
        return {
            item.name: item for item in every if item.whose == whose and item.kind is not clean.Kind.CACHE
        }

    def free(self) -> set[str]:
        """What ``clean --yes`` frees."""
        return {item.name for item in clean.free(self.docker, self.project.out, self.items().values())}

    def has(self, name: str) -> bool:
        return engine.image_exists(self.docker, name)


@pytest.fixture
def two(own: OwnEngine, tmp_path: Path) -> Iterator[tuple[Checkout, Checkout]]:
    projects = [
        Project(root=ROOT, matrix=tmp_path / name / "matrix.yaml", out=tmp_path / name / "out")
        for name in ("one", "two")
    ]
    one, other = (
        Checkout(project=project, docker=replace(own.docker, project=project.id)) for project in projects
    )
    yield one, other
    with engine.connected(own.docker) as client:
        for image in client.images.list():
            for tag in image.tags:
                if tag != TINY:
                    client.images.remove(tag, force=True)


def test_what_one_of_two_checkouts_frees_leaves_the_other_whole(two: tuple[Checkout, Checkout]) -> None:
    one, other = two
    mine, shared, current = one.build("row", OLD), one.build("gone", OLD), one.build("row", NEW)
    assert other.build("gone", OLD) == shared
    theirs = other.build("row", BROKEN)
    bases = one.base("old"), other.base("theirs"), one.base("both"), one.base("today")
    assert other.base("both") == bases[2]
    one.build("based", OLD, base=bases[0])

    assert set(one.items()) == {
        "row/aaaaaaaaaaaa", "gone/aaaaaaaaaaaa", "based/aaaaaaaaaaaa", mine, shared, bases[0], bases[2],
        "stackwright/based:aaaaaaaaaaaa",
    }  # fmt: skip
    assert set(one.items(clean.OTHERS)) == {theirs, bases[1]}
    assert "loses this project's mark only" in one.items()[shared].why
    assert set(one.items()) == one.free()

    assert not one.has(mine)
    assert not one.has(bases[0])
    assert all(map(one.has, (shared, current, theirs, *bases[1:])))
    assert one.items() == {}
    # The other one frees what is left of the shared image, as it is the last that uses it.
    assert other.free() >= {shared, theirs}
    assert not other.has(shared)
    assert other.has(current)


def test_the_command_frees_its_own_and_names_the_others(
    two: tuple[Checkout, Checkout], own: OwnEngine, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    one, other = two
    mine, theirs = one.build("row", OLD), other.build("row", NEW)
    one.project.matrix.write_text((ROOT / "matrix.yaml").read_text())
    monkeypatch.setenv("DOCKER_HOST", own.environ["DOCKER_HOST"])
    words = ("--matrix", str(one.project.matrix), "--out", str(one.project.out), "clean")
    code, out, err = call(capsys, *words)
    assert (code, "pass --yes" in err) == (0, True)
    assert out.index("of this project") < out.index(mine) < out.index("--all-projects") < out.index(theirs)
    assert call(capsys, *words, "--yes")[0] == 0
    assert (one.has(mine), one.has(theirs)) == (False, True)
    assert call(capsys, *words, "--yes", "--all-projects")[0] == 0
    assert not one.has(theirs)
    assert one.has(TINY)


def test_what_is_being_proven_stays(two: tuple[Checkout, Checkout]) -> None:
    """A container of it, or a run that holds its row."""
    one, other = two
    mine = one.build("row", OLD)
    job = Job(image=mine, argv=("sleep", "300"), network=False)
    with engine.started(other.docker, job) as container:
        assert "containers use it" in one.items()[mine].todo
        unaware = replace(one.items()[mine], todo="")  # the container is started after the survey
        assert clean.free(one.docker, one.project.out, (unaware,)) == ()
        assert engine.execute(other.docker, container, ("true",)).ok
    with row_lock(one.project.out / "row", print):
        assert one.items()[mine].todo == clean.A_RUN
        assert clean.free(one.docker, one.project.out, (unaware,)) == ()
    assert one.has(mine)
    assert mine in one.free()


def test_images_that_only_carry_our_labels_are_not_ours(
    two: tuple[Checkout, Checkout], runner: Runner
) -> None:
    """Built FROM a row's image, or under the name of one: nothing recorded them."""
    one, _ = two
    old = one.build("row", OLD)
    for name in ("site/derived:1", "stackwright/row:aaaaaaaaaaaa"):
        text = f"FROM {old}\nRUN echo {name} > /name\n"
        folder = one.project.out / "derived"
        folder.mkdir(exist_ok=True)
        (folder / "Dockerfile").write_text(text)
        assert runner(one.docker.command("buildx", "build", "--network=none", "--tag", name, folder)).ok
    # The second has taken the name; this project's mark still holds its own image.
    items = one.items()
    assert items[old].tags == (owners.mark(one.project.id, old),)
    assert one.items(clean.OTHERS)[old].why == "this project did not record it"
    assert one.free() >= {old}
    assert one.has("site/derived:1")
    assert one.has(old)


def test_a_build_that_was_killed_before_its_record_knew_the_image(two: tuple[Checkout, Checkout]) -> None:
    one, _ = two
    old = one.build("row", OLD, recorded=False)
    assert old in one.items()
    assert old in one.free()


def test_containers_whose_process_is_gone(two: tuple[Checkout, Checkout], runner: Runner) -> None:
    one, other = two
    made = {}
    for name, changed in {
        "mine": {},
        "theirs": {engine.PROJECT: other.project.id},
        "elsewhere": {engine.NAMESPACE: "1"},
        "alive": {engine.MADE_BY_US: str(os.getpid())},
    }.items():
        words = {**one.docker.labels, engine.MADE_BY_US: "4194999", **changed}
        options = (word for pair in words.items() for word in ("--label", "=".join(pair)))
        done = runner(one.docker.command("create", *options, "--network=none", TINY, "true"))
        made[name] = done.stdout.strip()
    assert set(one.items()) == {made["mine"]}
    others = one.items(clean.OTHERS)
    assert {name: bool(item.todo) for name, item in others.items()} == {
        made["theirs"]: False, made["elsewhere"]: True
    }  # fmt: skip
    assert one.free() == {made["mine"]}
    for name in ("theirs", "elsewhere", "alive"):
        assert runner(one.docker.command("rm", "--force", made[name])).ok
