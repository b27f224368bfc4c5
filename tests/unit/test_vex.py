"""What a VEX document says of an image follows from the patches and the attacks in its record."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import report_samples
import rows

from stackwright.core.components.horovod import attack
from stackwright.core.components.shared.vulnerability import Status
from stackwright.core.components.table import KNOWN
from stackwright.core.errors import AttestError
from stackwright.core.model.record import Record, flatten
from stackwright.core.model.row import Check, Outcome, Stack, Tier
from stackwright.core.render import dockerfile
from stackwright.publish.attest.statements import sbom, vex

IMAGE = f"sha256:{'1' * 64}"
SCHEMA = json.loads((Path(__file__).parent / "openvex-0.2.0.schema.json").read_text())
"""From github.com/openvex/spec at d29fab0, in the public domain (CC0)."""
FOLDER = rows.ROOT / "patches" / "horovod"
SERIES = rows.SOURCES.series
ALWAYS = tuple(patch.file for patch in SERIES.select({}))
STACK = rows.stack(patches=ALWAYS)
PATCHES = sbom.patches_of(dict(dockerfile.render(STACK, rows.SOURCES).files))
BOTH = [known.id for known in KNOWN]


def checks(outcome: Outcome = Outcome.PASSED, **others: Outcome) -> tuple[Check, ...]:
    """The attacks, with one outcome but for ``others``: names without the tier, and with underscores."""
    return tuple(
        Check(
            id=rule.id, tier=Tier.BUILT, why=rule.why, detail="",
            outcome=others.get(rule.id.removeprefix("built.").replace("-", "_"), outcome),
        )
        for rule in attack.RULES
    )  # fmt: skip


def of_row(stack: Stack = STACK, judged: tuple[Check, ...] | None = None) -> Record:
    whole = report_samples.built(row=stack.id)
    (docker,) = (verdict for verdict in whole.verdicts if verdict.world == "docker")
    return replace(
        whole, declared=flatten(dockerfile.declared(stack)),
        found=(("horovod", "0.28.1"), ("patches", " ".join(stack.patches))),
        verdicts=(replace(docker, checks=checks() if judged is None else judged),),
    )  # fmt: skip


def made(stack: Stack = STACK, judged: tuple[Check, ...] | None = None) -> dict[str, Any]:
    return vex.vex(of_row(stack, judged), image=IMAGE, patches=PATCHES)


def valid(document: dict[str, Any]) -> dict[str, Any]:
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    return document


def statuses(document: dict[str, Any]) -> dict[str, str]:
    return dict(vex.statuses_of(valid(document)))


def test_an_image_without_the_component_is_not_affected() -> None:
    row = replace(of_row(), declared=(("torch", "2.6.0"),), found=())
    document = vex.vex(row, image=IMAGE, patches={})
    assert statuses(document) == dict.fromkeys(BOTH, "not_affected")
    assert {statement["justification"] for statement in document["statements"]} == {"component_not_present"}
    assert all("subcomponents" not in statement["products"][0] for statement in document["statements"])
    assert vex.disagreement(document, row, IMAGE) == ""
    assert "is not_affected by the record" in vex.disagreement(made(), row, IMAGE)


def test_a_row_with_the_patches_that_withstood_the_attacks_is_fixed() -> None:
    document = made()
    assert statuses(document) == dict.fromkeys(BOTH, "fixed")
    assert document["statements"][0]["vulnerability"]["name"] == "CVE-2024-10190"


def test_it_is_of_horovod_in_this_image_and_names_the_patches_by_their_hashes() -> None:
    for statement in made()["statements"]:
        (product,) = statement["products"]
        assert product["hashes"] == {"sha-256": "1" * 64}
        assert product["@id"] == f"pkg:oci/{STACK.id}@sha256:{'1' * 64}"
        assert [part["@id"] for part in product["subcomponents"]] == ["pkg:pypi/horovod@0.28.1"]
        known = next(known for known in KNOWN if known.id == statement["vulnerability"]["name"])
        for name in known.patches:
            digest = hashlib.sha256((FOLDER / name).read_bytes()).hexdigest()
            assert f"{name} sha256:{digest}" in statement["status_notes"]


@pytest.mark.parametrize("missing", sorted({patch for known in KNOWN for patch in known.patches}))
def test_a_row_without_one_of_the_patches_is_affected(missing: str) -> None:
    stack = replace(STACK, patches=tuple(name for name in ALWAYS if name != missing))
    document = made(stack)
    assert statuses(document) == dict.fromkeys(BOTH, "affected")
    assert missing not in document["statements"][0]["status_notes"]


def test_a_row_without_any_patch_or_without_an_answer_is_affected() -> None:
    assert statuses(made(replace(STACK, patches=()))) == dict.fromkeys(BOTH, "affected")
    silent = replace(of_row(), found=(("horovod", "0.28.1"),))
    assert statuses(vex.vex(silent, image=IMAGE, patches=PATCHES)) == dict.fromkeys(BOTH, "affected")


def test_patches_that_did_not_help_are_no_fix() -> None:
    attacked = statuses(made(judged=checks(rendezvous_pickle=Outcome.FAILED)))
    assert attacked == {"CVE-2024-10190": "affected", "CVE-2026-31234": "fixed"}
    attacked = statuses(made(judged=checks(worker_pickle=Outcome.FAILED)))
    assert attacked == {"CVE-2024-10190": "fixed", "CVE-2026-31234": "affected"}
    attacked = statuses(made(judged=checks(unsigned_requests=Outcome.FAILED)))
    assert attacked == dict.fromkeys(BOTH, "affected")


def test_an_image_that_was_not_attacked_is_not_called_fixed() -> None:
    assert statuses(made(judged=())) == dict.fromkeys(BOTH, "under_investigation")
    assert statuses(made(judged=checks(Outcome.NOT_RUN))) == dict.fromkeys(BOTH, "under_investigation")


def test_the_schema_can_refuse() -> None:
    document = made()
    del document["statements"][0]["vulnerability"]
    with pytest.raises(jsonschema.ValidationError):
        valid(document)
    affected = made(replace(STACK, patches=()))
    del affected["statements"][0]["action_statement"]
    with pytest.raises(jsonschema.ValidationError, match="action_statement"):
        valid(affected)


def test_a_patch_that_nobody_can_look_at_is_no_ground() -> None:
    with pytest.raises(AttestError, match="no text of the patch"):
        vex.vex(of_row(), image=IMAGE, patches={})


def test_the_same_record_gives_the_same_document_and_another_one_another() -> None:
    assert made() == made()
    later = replace(of_row(), started="2027-01-01T00:00:00Z")
    assert vex.vex(later, image=IMAGE, patches=PATCHES)["@id"] != made()["@id"]


def test_every_row_has_the_patches_and_every_attack_is_a_check() -> None:
    """Nothing turns them off: no value of a row is asked for."""
    for known in KNOWN:
        assert set(known.patches) <= set(ALWAYS)
        assert set(known.checks) <= {rule.id for rule in attack.RULES}
        assert known.id in "".join(patch.source for patch in SERIES.patches if patch.file in known.patches)


# -- compared with the record ----------------------------------------------------------------------


def changed(**changes: Any) -> dict[str, Any]:
    document = made()
    document["statements"][0] |= changes
    return document


def test_what_says_otherwise_than_the_record_is_seen() -> None:
    assert vex.disagreement(made(), of_row(), IMAGE) == ""
    bare = of_row(replace(STACK, patches=()))
    assert (
        vex.disagreement(made(), bare, IMAGE) == "CVE-2024-10190 is affected by the record, and fixed in it"
    )
    other = f"sha256:{'2' * 64}"
    assert "about another image" in vex.disagreement(made(), of_row(), other)
    assert "about another image" in vex.disagreement(changed(products=[]), of_row(), IMAGE)


@pytest.mark.parametrize("statements", [None, 5, [], [7], [{"products": 5}], [{"vulnerability": []}]])
def test_a_document_of_nonsense_disagrees(statements: object) -> None:
    assert vex.disagreement({"statements": statements}, of_row(), IMAGE)


def test_a_vulnerability_that_this_version_does_not_know_is_passed_on() -> None:
    document = changed(vulnerability={"name": "CVE-2030-1"}, status="affected")
    assert vex.disagreement(document, of_row(), IMAGE) == ""
    assert ("CVE-2030-1", "affected") in vex.statuses_of(document)


def test_the_status_words_are_those_of_the_specification() -> None:
    words = SCHEMA["properties"]["statements"]["items"]["properties"]["status"]["enum"]
    assert set(Status) <= set(words)
