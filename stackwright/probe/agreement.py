"""Whether the tests that look at an image by other means (testinfra) agree with the verdict of the probes.

A test names the checks that it doubles. One that fails with such a check tells nothing new: only a test
that fails where all that it doubles passed is a disagreement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from stackwright.core.checks.judge import NOT_ASKED
from stackwright.core.credentials import redact
from stackwright.core.model.row import Check, Outcome, Tier, Verdict

ID = "static.image-tests"
WHY = "Tests that look at the image without our probes (testinfra) agree with them."
OURS = "test_witness"
"""The tests that look themselves; tests/images has others, which repeat the verdict for JUnit."""

DOUBLES = "doubles"
"""The property of a test that names checks, with commas between them."""

SHOWN = 200
"""Letters of a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``message`` is empty where the test passed."""

    name: str
    message: str
    doubles: tuple[str, ...]


def cases(junit: Path) -> tuple[Case, ...]:
    """The tests of a JUnit file that look at the image themselves, without those that were skipped."""
    return tuple(_case(case) for case in _parsed(junit).iter("testcase") if _is_ours(case))


def _parsed(junit: Path) -> ElementTree.ElementTree[ElementTree.Element]:
    return ElementTree.parse(junit)  # noqa: S314 (pytest wrote it: it has no entities)


def _is_ours(case: ElementTree.Element) -> bool:
    return OURS in case.get("classname", "") and case.find("skipped") is None


def _case(case: ElementTree.Element) -> Case:
    bad = next((found for kind in ("failure", "error") if (found := case.find(kind)) is not None), None)
    named = (entry.get("value", "") for entry in case.iter("property") if entry.get("name") == DOUBLES)
    message = "" if bad is None else _told(bad.get("message") or bad.text or "it failed")
    doubles = tuple(name.strip() for names in named for name in names.split(",") if name.strip())
    return Case(name=case.get("name", "?"), message=message, doubles=doubles)


def _told(message: str) -> str:
    """The first line; that it is an AssertionError is known."""
    line = next((line for line in message.splitlines() if line.strip()), "it failed")
    return redact(line.strip().removeprefix("AssertionError: "))[:SHOWN]


def judged(found: Sequence[Case], verdict: Verdict, said: str) -> Check:
    """``said`` is the last line of pytest, for where it left no case."""
    nothing = [f"no test looked at the image: {redact(said)}"]
    problems = list(_disagreements(found, verdict)) if found else nothing
    failed = sum(bool(case.message) for case in found)
    agreed = f"{len(found)} tests" + (f", {failed} of them fail where a check fails" if failed else "")
    return Check(
        id=ID, tier=Tier.STATIC, why=WHY, outcome=Outcome.FAILED if problems else Outcome.PASSED,
        detail="; ".join(problems) or agreed,
    )  # fmt: skip


def _disagreements(found: Sequence[Case], verdict: Verdict) -> Iterator[str]:
    red = {check.id for check in verdict.checks if _is_red(check)}
    for case in found:
        if case.message and not red & set(case.doubles):
            doubled = ", ".join(case.doubles) or "no check"
            yield f"{case.name} fails ({case.message}), and what it doubles passed: {doubled}"


def _is_red(check: Check) -> bool:
    return check.outcome is Outcome.FAILED or (
        check.outcome is Outcome.NOT_RUN and check.detail.startswith(NOT_ASKED)
    )


def clean(junit: Path) -> None:
    """A test's message can hold what it saw: the file is kept next to the record."""
    tree = _parsed(junit)
    for element in tree.iter():
        element.text, element.tail = redact(element.text or "") or None, redact(element.tail or "") or None
        element.attrib.update({name: redact(value) for name, value in element.attrib.items()})
    tree.write(junit, encoding="utf-8", xml_declaration=True)
