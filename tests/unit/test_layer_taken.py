"""What a layer takes over from its parent's proof is judged as if all of the image had been read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import image_facts
import ledger_tree as sample
import pytest

from stackwright.build.layer.parent_proof import ACCOUNTS
from stackwright.core.checks.judge import rules, verify
from stackwright.core.layer import document, taken
from stackwright.core.layer.document import Added, Below
from stackwright.core.layer.taken import READ, Taken
from stackwright.core.ledger.entry import Entry, Layer
from stackwright.core.model.row import Outcome, Package, Tier, Verdict, World
from stackwright.probe.outside.documents import documents
from stackwright.probe.outside.layers import FileFacts, Read

ID = "sha256:" + "5e" * 32
EINOPS = {"einops/__init__.py": b"main = print\n", "einops/data": b"data"}
INFO = f"{sample.SITE}/einops-1.0.dist-info/RECORD"
LOWER = sample.tree()


class Opened(Mapping[str, Any]):
    """Facts that tell which of them were asked for."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts, self.asked = facts, set[str]()

    def __getitem__(self, name: str) -> Any:
        self.asked.add(name)
        return self.facts[name]

    def __contains__(self, name: object) -> bool:
        self.asked.add(str(name))
        return name in self.facts

    def __iter__(self) -> Iterator[str]:
        return iter(self.facts)

    def __len__(self) -> int:
        return len(self.facts)


def test_the_checks_that_rest_on_files_are_those_that_read_them() -> None:
    """By what each of them asks for: a new check of files cannot be forgotten."""
    reading = set()
    for rule in rules(World.DOCKER):
        facts = Opened(image_facts.docker_facts(image_facts.ROW))
        with contextlib.suppress(Exception):  # of a row that it does not apply to
            rule.judge(image_facts.ROW, facts)
        if facts.asked & set(READ):
            reading.add(rule.id)
    assert reading == {rule.id for rule in rules(World.DOCKER) if taken.rests_on(rule.id)}


def layer(files: Mapping[str, bytes] = EINOPS, *more: Entry, seen: tuple[FileFacts, ...] = ()) -> Read:
    """The new layer; folders of its parent are in it as well."""
    listed = sample.record("einops-1.0", EINOPS)
    folders = (sample.folder(path) for path in ("/opt", "/opt/stack", sample.SITE, f"{sample.SITE}/einops"))
    entries = (
        *folders, sample.file(INFO, listed),
        *(sample.file(f"{sample.SITE}/{path}", content) for path, content in files.items()), *more,
    )  # fmt: skip
    made = tuple(replace(entry, layer="two") for entry in entries)
    return Read(layer=Layer(name="two", entries=made, texts={INFO: listed.decode()}), seen=seen)


def below(seen: tuple[FileFacts, ...] = ()) -> Read:
    return Read(layer=Layer(name="one", entries=tuple(LOWER.entries.values()), texts=LOWER.texts), seen=seen)


def said(*reads: Read, row: Any = sample.ROW, searched: tuple[str, ...] = ("mirror",)) -> dict[str, Any]:
    found_in = documents(reads, row)
    left = [
        {"what": "mirror", "path": file.path, "layer": file.layer}
        for r in reads
        for file in r.seen
        if file.left
    ]
    found = {"searched": list(searched), "layers": len(reads), "left": left}
    return {"ledger": found_in.ledger, "files": found_in.files, "layers": found, "image": {"Id": ID}}


def both(upper: Read, lower: Read) -> dict[str, Any]:
    accounts = {path: text for path, text in LOWER.texts.items() if path in ACCOUNTS}
    owned = replace(upper, layer=replace(upper.layer, texts={**accounts, **upper.layer.texts}))
    alone = said(owned, row=replace(sample.ROW, files={}))
    alone["layers"]["layers"] = 2
    return taken.together(said(lower), alone)


KEY = FileFacts(path=f"{sample.SITE}/einops/data", layer="two", shapes=("private key",), sha256="")
SITE_LEFT = FileFacts(path=f"{sample.SITE}/einops/data", layer="two", left=("mirror",))
UPPER = {
    "as its wheel has it": layer(),
    "another line": layer({**EINOPS, "einops/__init__.py": b"import os\n"}),
    "a file of no wheel": layer(EINOPS, sample.file(f"{sample.SITE}/evil.py", b"")),
    "a file is missing": layer({"einops/data": b"data"}),
    "written by all": layer(EINOPS, sample.file(f"{sample.SITE}/evil.py", b"", mode=0o666)),
    "of another user": layer(EINOPS, sample.file(f"{sample.SITE}/evil.py", b"", uid=1000)),
    "a second NCCL": layer(EINOPS, sample.file(f"{sample.SITE}/einops/libnccl.so.2", b"x")),
    "nvcc": layer(EINOPS, sample.file("/opt/stack/bin/nvcc", b"x", mode=0o755)),
    "a host key": layer(EINOPS, sample.file(f"{sample.SITE}/ssh_host_rsa_key", b"x")),
    "pip.conf": layer(EINOPS, sample.file("/opt/stack/.config/pip/pip.conf", b"x")),
    "a value of the site": layer(seen=(SITE_LEFT,)),
    "a private key": layer(seen=(replace(KEY, sha256=sample.file("/x", b"data").sha256),)),
}


@pytest.mark.parametrize("upper", UPPER.values(), ids=UPPER)
@pytest.mark.parametrize("lower", [below(), below((replace(SITE_LEFT, path="/etc/x", layer="one"),))])
def test_both_readings_are_judged_as_one_of_all_files(upper: Read, lower: Read) -> None:
    whole, apart = said(lower, upper), both(upper, lower)
    for name in ("problems", "counts", "credentials"):
        assert apart["ledger"][name] == whole["ledger"][name], name
    assert apart["layers"] == whole["layers"]
    sizes = {name: whole["files"].pop(name) for name in ("sizes", "files")}
    assert {name: apart["files"].pop(name) for name in sizes} == sizes
    assert apart["files"] == whole["files"]
    owners = ("package", "wheel", "byte-code", "alternative", "nothing")  # a folder is counted twice
    counted = [[found["ledger"]["owners"].get(name, 0) for name in owners] for found in (apart, whole)]
    assert counted[0] == counted[1]


def test_a_problem_of_the_parent_stays_one() -> None:
    changed = sample.tree({"/evil": sample.file("/evil", b"")})
    lower = Read(
        layer=Layer(name="one", entries=tuple(changed.entries.values()), texts=changed.texts), seen=()
    )
    found = taken.together(said(lower), said(layer(), row=replace(sample.ROW, files={})))["ledger"]
    assert found["problems"]["undeclared"] == [["/evil", "belongs to nothing"]]


@pytest.mark.parametrize(
    ("changed", "right"),
    [
        ({}, True),
        ({"image": {"Id": "sha256:other"}}, False),
        ({"image": None}, False),
        ({"ledger": {"not_read": "no access"}}, False),
        ({"ledger": {"error": "x"}}, False),
        ({"files": {"outside": False}}, False),
        ({"layers": {"searched": ["mirror", "proxy"]}}, False),
        ({"layers": None}, False),
    ],
)
def test_facts_of_another_image_are_not_taken(changed: dict[str, Any], right: bool) -> None:
    facts = {**said(below()), **changed}
    usable = taken.usable(facts, World.DOCKER) and taken.of_image(facts, ID, ["mirror"])
    assert usable is right
    of_sif = bool(changed.keys() & {"ledger", "files"}) is False
    assert taken.usable({**facts, "layers": None}, World.SIF) is of_sif, "a SIF has no layers"


def test_a_sif_and_its_overlay_are_judged_as_one() -> None:
    parent = said(below())
    parent["ledger"]["differs"] = ["wheel torch-2.6.0"]
    new = said(layer(), row=replace(sample.ROW, files={}))
    found = taken.together({**parent, "layers": None}, {name: new[name] for name in ("ledger", "files")})
    assert found.keys() == {"ledger", "files"}
    assert found["ledger"]["differs"] == ["wheel torch-2.6.0"], "as the SIF alone differs from its image"


def test_nothing_is_called_passed_that_was_not_asked() -> None:
    verdict = verify(
        image_facts.ROW, image_facts.docker_facts(image_facts.ROW), World.DOCKER, {Tier.GPU: "no GPU"}
    )
    made = taken.marked(verdict, ID)
    for before, after in zip(verdict.checks, made.checks, strict=True):
        assert after.outcome is before.outcome
        rests = taken.rests_on(after.id) and after.outcome is Outcome.PASSED
        said = f"as proven for the parent {ID}, and as read now of the new files"
        assert after.detail.endswith(said) == rests and after.detail.startswith(before.detail)
    names = taken.names(verdict)
    assert {"ledger.wheels", "static.site-layers"} <= set(names) and "link.import" not in names
    told = attested(made, Taken(parent=ID, started="2026-11-22T00:00:00Z", facts={}))
    assert told["taken_over"] == list(names)
    assert told["taken_from"] == {"image": ID, "record": "2026-11-22T00:00:00Z"}
    alone = attested(verdict, None)
    assert alone["taken_over"] == [] and "taken_from" not in alone


def attested(verdict: Verdict, parent: Taken | None) -> dict[str, Any]:
    under = Below(row="r", key="k", world="docker", id=ID)
    new = Added(
        digest="d", files=2, bytes=3, wanted=("einops",), there=(), pins="",
        new=(Package(name="einops", version="1"),),
    )  # fmt: skip
    return document.document(under, new, verdict, image="sha256:2", started="now", parent=parent)
