"""The ledger reads real layers and a real SIF: an untouched one is green, each fault is named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from faults import harness
from faults.ledger import FAULTS, GOOD, IN_A_SIF, Planted, dockerfile, images

from stackwright.build.sif import convert
from stackwright.core.checks.check import Facts, Finding, NotAsked
from stackwright.core.checks.tables import ledger, static
from stackwright.core.ledger.books import Row
from stackwright.core.model.row import Stack, World
from stackwright.core.model.site import Site
from stackwright.core.render.own_files import digests
from stackwright.engines import apptainer as apptainers
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.host.site import settings
from stackwright.probe.outside import read
from stackwright.probe.outside.documents import Documents

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("planted-faults")]
START = b"#!/bin/sh\n"
SITE = Site(mirror=None, ca=None, pip=(), proxies=())
JUDGES = (
    *ledger.RULES,
    *(rule for rule in static.RULES if rule.id in ("static.private-key", "static.host-key")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    docker: Docker
    runner: Runner
    stack: Stack
    row: Row
    images: Mapping[str, tuple[Planted, ...]]
    known: dict[str, dict[str, str]] = field(default_factory=dict)

    def of_image(self, name: str) -> Documents:
        return read.of_image(self.docker, harness.reference(name), SITE, self.row)

    def image_of(self, fault: Planted) -> str:
        return next(name for name, faults in self.images.items() if fault in faults)

    def red(self, name: str) -> dict[str, str]:
        """Each image is read once."""
        if name not in self.known:
            self.known[name] = red(judged(self.stack, self.of_image(f"ledger-{name}")))
        return self.known[name]


def judged(stack: Stack, documents: Documents) -> dict[str, Finding]:
    """The outcome of each check that ran."""
    facts: Facts = {"ledger": documents.ledger, "files": documents.files}
    found = {}
    for rule in JUDGES:
        try:
            found[rule.id] = rule.judge(stack, facts)
        except NotAsked:
            continue
    return found


def red(found: Mapping[str, Finding]) -> dict[str, str]:
    return {name: "; ".join(finding.problems) for name, finding in found.items() if finding.problems}


@pytest.fixture(scope="module", params=["together", pytest.param("alone", marks=pytest.mark.nightly)])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    runner = Runner()
    docker, folder = engine.find(runner), tmp_path_factory.mktemp("ledger")
    base = harness.base_image(docker, runner, tmp_path_factory.mktemp("base"))
    stack = harness.stack_of(docker, base)
    gcc = stack.gcc.split(".")[0]
    own = harness.write_own(folder, stack)
    (folder / "start").write_bytes(START)
    (folder / "netrc").write_text("machine git.example login ci password xK39fjDk20fkQ\n")
    made = runner(["openssl", "genpkey", "-algorithm", "ed25519", "-out", folder / "key"])
    assert made.ok, made.stderr
    targets: dict[str, dict[str, object]] = {
        "good": {"dockerfile-inline": GOOD.replace("GCC", gcc).replace("BASE_IMAGE", base)}
    }
    planted = images(alone=request.param == "alone")
    in_a_sif = [fault for fault in FAULTS if fault.name in IN_A_SIF]
    for name, faults in {**planted, "together": in_a_sif}.items():
        targets[name] = {"contexts": {"good": "target:good"}, "dockerfile-inline": dockerfile(faults)}
    for name, target in targets.items():
        target |= {
            "context": str(folder), "tags": [harness.reference(f"ledger-{name}")], "network": "none",
            "output": ["type=docker"],
        }  # fmt: skip
    plan = json.dumps({"group": {"default": {"targets": list(targets)}}, "target": targets})
    harness.bake(docker, runner, folder, plan)
    copied = dict.fromkeys(("/opt/ours/start", "/opt/ours/settings"), hashlib.sha256(START).hexdigest())
    try:
        row = Row(gcc=gcc, files=digests(stack, own) | copied)
        yield Built(docker=docker, runner=runner, stack=stack, row=row, images=planted)
    finally:
        harness.remove_all(docker, runner, [f"ledger-{name}" for name in targets])


def test_an_untouched_image_is_green(built: Built) -> None:
    found = judged(built.stack, built.of_image("ledger-good"))
    assert red(found) == {}
    assert "ledger.same-files" not in found, "no other image was given to compare with"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_is_named_by_its_check_and_by_no_other(fault: Planted, built: Built) -> None:
    image = built.image_of(fault)
    found = built.red(image)
    assert set(found) == {planted.red for planted in built.images[image]}, found
    assert fault.says in found[fault.red]


@pytest.mark.long
def test_by_an_archive_as_by_the_folders_of_the_engine(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the engine's folders cannot be read, and where it is on another machine."""
    before = built.of_image("ledger-together")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    after = built.of_image("ledger-together")
    assert after.ledger["problems"] == before.ledger["problems"]
    assert after.ledger["parts"] == before.ledger["parts"]
    assert after.files == before.files


@pytest.fixture(scope="module")
def sifs(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    apptainer = apptainers.find(built.runner, built.docker, mirror=settings.apt_mirror(built.runner))
    folder = tmp_path_factory.mktemp("sifs")
    made = {name: folder / f"{name}.sif" for name in ("good", "together")}
    for name, sif in made.items():
        convert.to_sif(
            harness.reference(f"ledger-{name}"), sif, docker=built.docker, runner=built.runner,
            apptainer=apptainer, image_bytes=10**9,
        )  # fmt: skip
    return made


def of_sif(built: Built, sif: Path, docker: Docker | None) -> Documents:
    row = replace(built.row, world=World.SIF)
    image, name = built.of_image("ledger-good").ledger, harness.reference("ledger-good")
    return read.of_sif(sif, SITE, row, docker=docker, runner=built.runner, image=image, made_of=name)


def test_an_untouched_sif_is_green_and_as_its_image(built: Built, sifs: Mapping[str, Path]) -> None:
    found = judged(built.stack, of_sif(built, sifs["good"], built.docker))
    assert red(found) == {}
    assert "ledger.same-files" in found


def test_each_fault_is_named_in_a_sif_too(built: Built, sifs: Mapping[str, Path]) -> None:
    """What no probe may read is read there: folders of root and of the user. It is not what the image has."""
    planted = [fault for fault in FAULTS if fault.name in IN_A_SIF]
    found = red(judged(built.stack, of_sif(built, sifs["together"], built.docker)))
    assert set(found) == {fault.red for fault in planted}, found
    assert [fault.says for fault in planted if fault.says not in found[fault.red]] == []


def test_what_is_not_as_in_the_image_is_named_though_its_list_says_so_too(built: Built) -> None:
    mine = dict(built.of_image("ledger-good").ledger)
    others = dict(built.of_image("ledger-changed-with-its-record").ledger["parts"])
    differs = [who for who, digest in mine["parts"] if digest != others[who]]
    found = ledger.same_files(built.stack, {"ledger": {**mine, "differs": differs}})
    assert any("wheel pip-" in problem for problem in found.problems)


def test_a_sif_that_cannot_be_read_is_not_judged(
    built: Built, sifs: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    documents = of_sif(built, sifs["good"], None)
    assert documents.files is None
    assert "no unsquashfs" in documents.ledger["not_read"]
    for rule in ledger.RULES:
        with pytest.raises(NotAsked):
            rule.judge(built.stack, {"ledger": documents.ledger})
