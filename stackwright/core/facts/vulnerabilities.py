"""Published vulnerabilities of the Horovod that every image has, and what fixes each.

An image has the fix if the row applied the patches and the checks attacked the installed servers in vain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from stackwright.core.model.row import Check, Outcome


class Status(StrEnum):
    """The words of VEX. Whoever has the vulnerable code without the whole fix is affected."""

    FIXED = "fixed"
    AFFECTED = "affected"
    UNDER_INVESTIGATION = "under_investigation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vulnerability:
    """``patches`` are files of patches/horovod; ``checks`` attack what they close."""

    id: str
    description: str
    source: str
    patches: tuple[str, ...]
    checks: tuple[str, ...]

    def status(self, applied: Sequence[str], checks: Sequence[Check]) -> Status:
        """A patch is not enough: the attack has to fail inside the image, too."""
        if set(self.patches) - set(applied):
            return Status.AFFECTED
        outcomes = {check.id: check.outcome for check in checks}
        seen = [outcomes.get(name, Outcome.NOT_RUN) for name in self.checks]
        if Outcome.FAILED in seen:
            return Status.AFFECTED
        return Status.UNDER_INVESTIGATION if Outcome.NOT_RUN in seen else Status.FIXED


AUTHENTICATION = ("kvstore-auth.patch", "kvstore-auth-cxx.patch", "listen-address.patch", "task-key.patch")
"""Requests are signed with the job's key, which no other user of the host can read."""
REFUSALS = (
    "built.unsigned-requests",
    "built.forged-requests",
    "built.replayed-requests",
    "built.launched-job",
)

KNOWN: tuple[Vulnerability, ...] = (
    Vulnerability(
        id="CVE-2024-10190",
        description="The elastic rendezvous server unpickles the body of any PUT to worker_addresses.",
        source="https://nvd.nist.gov/vuln/detail/CVE-2024-10190",
        patches=AUTHENTICATION,
        checks=("built.rendezvous-pickle", *REFUSALS),
    ),
    Vulnerability(
        id="CVE-2026-31234",
        description="A worker unpickles what anyone has PUT under a key of the key-value server.",
        source="https://nvd.nist.gov/vuln/detail/CVE-2026-31234",
        patches=AUTHENTICATION,
        checks=("built.worker-pickle", *REFUSALS),
    ),
)
