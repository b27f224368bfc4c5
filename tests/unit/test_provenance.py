"""What a fact of each kind may do: warn, refuse unless allowed, refuse."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rows import LOCK, SERIES, SOURCES, cell, lock_with, stack

from stackwright.cli import tables
from stackwright.core.checks.observed import found
from stackwright.core.facts.provenance import How, Provenance, documented, read, unchecked, weakest
from stackwright.core.model.labels import ALLOWED
from stackwright.core.model.record import flatten
from stackwright.core.model.row import Cell, Mpi, Rejection, Stack
from stackwright.core.render import dockerfile
from stackwright.core.resolve.resolve import check, notices, resolve
from stackwright.core.resolve.sweep import Partial
from stackwright.core.rules.hosts import EXTRA_RULES
from stackwright.core.rules.locks import LOCK_RULES
from stackwright.core.rules.rule import (
    About,
    Answer,
    CellRule,
    Clash,
    ExtraRule,
    LockRule,
    Ruling,
    weigh,
)
from stackwright.core.rules.table import CELL_RULES, clashes

OWN = documented("a document", "2026-11-20")
KINDS = {how: Provenance(how=how, source=f"source {how}", when="2026-11-22") for how in How}


def rule(fact: Provenance, entry: Provenance | None = None) -> CellRule:
    def ask(cell: Cell) -> Answer:
        return Clash(values=(("gcc", "14"),), reason="why", fact=entry)

    return CellRule(name="planted", about=About.STACK, fields=("gcc",), says="says", fact=fact, ask=ask)


@pytest.mark.parametrize(
    ("how", "allowed", "said"),
    [
        (How.READ, (), Ruling.REFUSES),
        (How.READ, ("planted",), Ruling.REFUSES),
        (How.DOCUMENTED, (), Ruling.REFUSES),
        (How.DOCUMENTED, ("another",), Ruling.REFUSES),
        (How.DOCUMENTED, ("planted",), Ruling.ALLOWED),
        (How.UNCHECKED, (), Ruling.WARNS),
        (How.UNCHECKED, ("planted",), Ruling.WARNS),
    ],
)
def test_a_clash_counts_as_its_fact_allows(how: How, allowed: tuple[str, ...], said: Ruling) -> None:
    of_rule, of_entry = rule(KINDS[how]), rule(OWN, KINDS[how])
    asked = replace(cell(), allow=allowed)
    for known in (of_rule, of_entry):
        assert weigh(known, known.ask(asked), allowed) is said
        partial = Partial(asked, ("gcc",), (known,))
        assert (partial.clash(["14"]) is known) == (said is Ruling.REFUSES)


def test_a_conclusion_is_as_good_as_its_weakest_fact() -> None:
    assert weakest(read("a", ""), unchecked("b", ""), documented("c", "")).source == "b"


def test_every_rule_says_how_its_fact_was_obtained() -> None:
    rules: tuple[CellRule | LockRule | ExtraRule, ...] = (*CELL_RULES, *LOCK_RULES, *EXTRA_RULES)
    for known in rules:
        assert known.fact.source
        assert known.fact.when.startswith("2026-"), known.name
        assert "unchecked" not in known.fact.source, known.name


# -- --allow ------------------------------------------------------------------------------------------


def documented_clash() -> tuple[Cell, str]:
    """A row of the real tables that one documented fact alone refuses: the cuDNN that TensorFlow is tested
    with is of another major release."""
    row = cell(
        tensorflow="2.13.1", torch=None, python="3.8", cuda="11.8", gcc="9", provider="nvidia",
        os="ubuntu-20.04", mpi=Mpi.of("openmpi", "4.0"), cudnn="9.1", gpu_arch=("8.0",),
    )  # fmt: skip
    refused = [known.name for known, clash in clashes(row) if weigh(known, clash) is Ruling.REFUSES]
    assert refused == ["cudnn"]
    return row, "cudnn"


def test_a_documented_refusal_says_how_to_go_on_and_can_be_allowed() -> None:
    row, name = documented_clash()
    rejection = check(row)
    assert rejection
    assert (rejection.rule, rejection.how) == (name, How.DOCUMENTED)
    assert f"--allow {name}" in str(tables.rejection_text(rejection, "matrix.yaml"))
    allowed = replace(row, allow=(name,))
    assert check(allowed) is None
    assert [(notice.rule, notice.said) for notice in notices(allowed, None)] == [(name, "is allowed")]
    assert notices(row, None) == ()


def test_a_read_refusal_is_final() -> None:
    rejection = check(cell(gcc="14", allow=("cuda-gcc",)))
    assert rejection
    assert (rejection.rule, rejection.how) == ("cuda-gcc", How.READ)
    assert "--allow" not in str(tables.rejection_text(rejection, "matrix.yaml"))


def test_an_unchecked_fact_warns_and_refuses_nothing() -> None:
    row = cell(
        provider="nvidia", os="ubuntu-24.04", cuda="13.2", python="3.12", torch="2.12.1", gcc="13",
        mpi=Mpi.of("openmpi", "4.1"), gpu_arch=("9.0",),
    )  # fmt: skip
    assert check(row) is None
    (notice,) = notices(row, None)
    assert (notice.rule, notice.said, notice.how) == ("nvidia-image", Ruling.WARNS, How.UNCHECKED)
    line = tables.notice_line("row", notice)
    assert line.startswith("row: warning: nvidia-image: it is not checked")
    assert "unchecked 2026-11-22" in line


def test_an_image_keeps_the_rules_that_were_allowed_and_only_then() -> None:
    """The content key of a row without --allow is what it was."""
    plain, allowed = stack(), stack(allowed=("abi-gloo", "one-cuda"))
    assert "allowed" not in dockerfile.declared(plain)
    assert ALLOWED not in dict(dockerfile.labels(plain))
    assert dockerfile.declared(allowed)["allowed"] == ["abi-gloo", "one-cuda"]
    assert dict(dockerfile.labels(allowed))[ALLOWED] == "abi-gloo one-cuda"
    assert dockerfile.render(plain, SOURCES).key != dockerfile.render(allowed, SOURCES).key
    text = dockerfile.render(allowed, SOURCES).text("Dockerfile")
    assert "org.stackwright.allowed='abi-gloo one-cuda'" in text
    assert found(allowed, {"labels": {ALLOWED: "abi-gloo one-cuda"}}) == (("allowed", "abi-gloo one-cuda"),)
    assert ("allowed", "abi-gloo one-cuda") in flatten(dockerfile.declared(allowed))


def test_a_lock_rule_can_be_allowed_too() -> None:
    other = lock_with(nvidia_nccl_cu13="2.29.7")
    refused = resolve(cell(), other, SERIES)
    assert isinstance(refused, Rejection)
    assert refused.rule == "one-cuda"
    made = resolve(cell(allow=("one-cuda", "one-nccl")), other, SERIES)
    assert isinstance(made, Stack)
    assert made.allowed == ("one-cuda", "one-nccl")
    assert resolve(cell(allow=("one-cuda",)), LOCK, SERIES) == stack()
