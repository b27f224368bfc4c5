"""What is attached to an image, with a registry and a cosign that only take what they are given."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import image_facts
import report_samples
import rows

from stackwright import attest, record, render
from stackwright.attest import provenance
from stackwright.attest.access import Access
from stackwright.attest.keys import Loaded
from stackwright.attest.statement import Kind
from stackwright.engines.oci import Tool
from stackwright.found import found
from stackwright.project import Planned
from stackwright.record import Record
from stackwright.runner import Completed, Runner

STACK = rows.stack(patches=("cxx17.patch",))
ROW = Planned(stack=STACK, recipe=render.render(STACK, rows.SOURCES))
FACTS = image_facts.docker_facts(STACK)
MANIFEST = b'{"config": {"digest": "sha256:1"}}'


@dataclass
class Taken:
    """The registry; ``statements`` by the type of their predicates."""

    statements: dict[str, Any] = field(default_factory=dict)

    def manifest(self, reference: str) -> bytes:
        return MANIFEST

    def attached(self, reference: str, kind: str) -> tuple[dict[str, str], ...]:
        return ()

    def attach(self, reference: str, kind: str, file: Path, annotations: dict[str, str]) -> None:
        statement = json.loads(base64.b64decode(json.loads(file.read_bytes())["payload"]))
        self.statements[statement["predicateType"]] = statement["predicate"]


def cosign(argv: list[str | Path], **_: object) -> Completed:
    Path(argv[argv.index("--output-signature") + 1]).write_text("c2ln")
    return Completed(argv=(), returncode=0, stdout="", stderr="")


def proven(**changes: Any) -> Record:
    built = report_samples.built(row=STACK.id)
    assert built.image
    image = replace(built.image, digest=f"sha256:{hashlib.sha256(MANIFEST).hexdigest()}")
    return replace(
        built, key=ROW.recipe.key, found=found(STACK, FACTS), image=image,
        declared=record.flatten(render.declared(STACK)), **changes,
    )  # fmt: skip


def test_why_something_else_failed_is_not_published() -> None:
    """The image is proven, and then its .sif could not be made: the site's mirror did not answer."""
    taken = Taken()
    reason = "apt-get: http://mirror.planted.example/debian does not answer"
    known = proven(status=record.Status.FAILED, phase=record.Phase.SIF, reason=reason)
    attest.attach(
        "host.example/hpc:1", ROW, known, FACTS, key=Loaded(path=Path("key"), public=b"", env={}),
        cosign=Tool(name="cosign", runner=cast("Runner", cosign)), access=cast("Access", taken),
    )  # fmt: skip
    assert set(taken.statements) == set(Kind)
    assert "planted" not in json.dumps(taken.statements)
    told = replace(known, reason="")
    assert taken.statements[Kind.VERDICT] == provenance.test_result(told)
    assert taken.statements[Kind.RECORD] == record.as_json(told)
