"""Published vulnerabilities of the Horovod that every image has, and what fixes each."""

from __future__ import annotations

from stackwright.core.components.shared.vulnerability import Vulnerability

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
        description="A worker unpickles what any host has PUT under a key of the key-value server.",
        source="https://nvd.nist.gov/vuln/detail/CVE-2026-31234",
        patches=AUTHENTICATION,
        checks=("built.worker-pickle", *REFUSALS),
    ),
)
