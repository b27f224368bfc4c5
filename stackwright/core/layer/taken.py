"""What a layer takes over from the proof of its parent: what was read of the parent's files. Pure.

The layer hides no name of its parent and is below one folder, so that these files are as they were read. Both
readings together are judged as one of the whole image would be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stackwright.core.model.row import Outcome, Verdict, World

READ = ("files", "layers", "ledger")
"""Facts of an image that is read from outside."""
OF_FILES = (
    "static.scan", "static.host-key", "static.private-key", "static.site-ca", "static.pip-cache",
    "static.apt-cache", "static.site-config", "static.site-layers", "static.temporary", "static.nvcc",
    "link.leftover-cuda",
)  # fmt: skip
LEDGER = "ledger."
Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """``facts`` are those of the parent's proof, by their name; ``started`` is when its record begins."""

    parent: str
    started: str
    facts: Facts


def rests_on(check: str) -> bool:
    """Tell whether a check judges what is read of an image's files from outside."""
    return check in OF_FILES or check.startswith(LEDGER)


def usable(facts: Facts, world: World) -> bool:
    """Tell whether facts were read from outside. Of a SIF there are no layers."""
    wanted = READ if world is World.DOCKER else ("files", "ledger")
    found = [facts.get(name) for name in wanted]
    if not all(isinstance(part, dict) and "error" not in part for part in found):
        return False
    return "not_read" not in facts["ledger"] and facts["files"].get("outside") is True


def of_image(facts: Facts, image: str, searched: Iterable[str]) -> bool:
    """Tell whether facts are of an image with this id, which was searched for the same values of the site."""
    described, layers = facts.get("image"), facts["layers"]
    return (
        isinstance(described, dict)
        and described.get("Id") == image
        and layers.get("searched") == list(searched)
    )


def together(parent: Facts, new: Facts) -> dict[str, dict[str, Any]]:
    """Return what was read of the parent, and of the layer on it, as what is read of both."""
    found = {
        "ledger": _ledger(parent["ledger"], new["ledger"]), "files": _files(parent["files"], new["files"])
    }  # fmt: skip
    if "layers" in new:
        left = [*parent["layers"]["left"], *new["layers"]["left"]]
        found["layers"] = {**new["layers"], "left": left}
    return found


def _ledger(parent: Facts, new: Facts) -> dict[str, Any]:
    """A folder is in both: it is counted once for each."""
    problems = {
        kind: sorted(map(list, {
            (path, what) for ledger in (parent, new) for path, what in ledger["problems"].get(kind, ())
        }))
        for kind in sorted(parent["problems"].keys() | new["problems"].keys())
    }  # fmt: skip
    of_parent = {kind: len(every) for kind, every in parent["problems"].items()}
    differs = {"differs": parent["differs"]} if "differs" in parent else {}
    return {
        **differs,
        "names": parent["names"] + new["names"],
        "owners": _sum(parent["owners"], new["owners"]),
        "problems": problems,
        "counts": {
            kind: parent["counts"].get(kind, 0) + len(every) - of_parent.get(kind, 0)
            for kind, every in problems.items()
        },
        "parts": sorted([*parent["parts"], *new["parts"]]),
        "credentials": [*parent["credentials"], *new["credentials"]],
    }


def _files(parent: Facts, new: Facts) -> dict[str, Any]:
    """Authorities are those of the parent: a layer has none, as they are elsewhere."""
    lists = ("unreadable", "private_keys", "host_keys", "nvcc", "cuda_libraries", "driver_libraries")
    leftovers = {name: [*every, *new["leftovers"][name]] for name, every in parent["leftovers"].items()}
    return {
        **parent,
        **{name: sorted([*parent[name], *new[name]], key=str) for name in lists},
        "leftovers": leftovers,
        "sizes": _sum(parent["sizes"], new["sizes"]),
        "files": parent["files"] + new["files"],
    }


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in one.keys() | other.keys()}


def marked(verdict: Verdict, parent: str) -> Verdict:
    """Return the verdict where each check that rests on the parent's proof says so."""
    said = f"as proven for the parent {parent}, and as read now of the new files"
    return replace(verdict, checks=tuple(
        replace(check, detail=f"{check.detail}; {said}" if check.detail else said)
        if rests_on(check.id) and check.outcome is Outcome.PASSED else check
        for check in verdict.checks
    ))  # fmt: skip


def names(verdict: Verdict) -> tuple[str, ...]:
    """Return the checks of a verdict that rest on the parent's proof."""
    return tuple(check.id for check in verdict.checks if rests_on(check.id))
