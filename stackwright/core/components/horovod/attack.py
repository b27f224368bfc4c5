"""Checks of what Horovod's servers answer to those who do not have the job's key.

An attack that was not fired, or found no server, is a failure: only an answer shows that it was refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stackwright.core.checks.check import Facts, Finding, Rule, finding, listed, take
from stackwright.core.model.row import Stack, Tier

SERVERS = ("rendezvous", "elastic", "key-value")
"""Of HTTP."""
SERVICES = ("task", "driver", "worker")
"""Of messages."""
JOBS = ("static", "elastic")
"""Started by Horovod's own launchers."""
JOB_ATTACKS = ("unsigned GET", "unsigned PUT", "other key PUT")

REFUSED, TOO_LARGE, BAD = 403, 413, 400
NOT_SERVED = (REFUSED, 405, 501)
"""A method that the protocol does not have."""

UNSIGNED = ("unsigned GET", "unsigned PUT", "unsigned DELETE")
FORGED = (
    "other key GET", "other key PUT", "other key DELETE", "other value", "other value and digest",
    "other scope", "other place", "other method", "other server", "no signature",
)  # fmt: skip
CLOSED = 0
"""The answer of a service that ends the connection without one."""
LOOPBACK = ["127.0.0.1"]
RIGHT = "right"
"""What the job's client stored before the attacks."""


def _of(facts: Facts, kind: str, name: str, *path: str) -> Any:
    return take(facts, "attack", kind, name, *path)


def _answers(
    facts: Facts, group: str, wanted: Mapping[str, Sequence[int | None]], servers: Sequence[str] = SERVERS
) -> Iterator[str]:
    """A problem for each request of a group that was not answered as wanted, by any server."""
    for server in servers:
        for name, statuses in wanted.items():
            seen = _of(facts, "servers", server, group, name)
            if seen not in statuses:
                yield f"{server}: {name}: answered {seen}, not {statuses[0]}"


def _all_refused(names: Sequence[str]) -> dict[str, Sequence[int]]:
    return dict.fromkeys(names, (REFUSED,))


def _found(problems: Iterator[str], seen: str) -> Finding:
    every = list(problems)
    return finding([listed(every)] if every else [], seen)


# -- one judgement each ----------------------------------------------------------------------------


def served(stack: Stack, facts: Facts) -> Finding:
    def problems() -> Iterator[str]:
        for kind, names, value in (("servers", SERVERS, RIGHT), ("services", SERVICES, True)):
            for name in names:
                got = _of(facts, kind, name, "served")
                if got["value"] != value:
                    yield f"{name}: {got['error'] or 'gave another value than the job stored'}"
        yield from _answers(facts, "replayed", {"first": (200,)})
        joined = _of(facts, "servers", "elastic", "joined")
        if joined.get("error") or joined["registered"] != [["node", 0]] or joined["told"] != [1]:
            yield f"an elastic worker could not join: {joined.get('error') or 'it was not registered'}"

    return _found(problems(), "signed requests are answered")


def unsigned(stack: Stack, facts: Facts) -> Finding:
    def problems() -> Iterator[str]:
        yield from _answers(facts, "forged", _all_refused(UNSIGNED))
        yield from _answers(facts, "forged", _all_refused(("unsigned rank",)), ("elastic",))
        yield from _answers(facts, "strange", {"files": NOT_SERVED, "long path": (BAD, REFUSED)})

    return _found(problems(), "403")


def forged(stack: Stack, facts: Facts) -> Finding:
    """A value that changed shows a server that answers 403 and still obeys the request."""

    def problems() -> Iterator[str]:
        yield from _answers(facts, "forged", _all_refused(FORGED))
        if not any(_answers(facts, "forged", _all_refused(UNSIGNED + FORGED))):
            for name in SERVERS:
                stored = _of(facts, "servers", name, "served", "value")
                if stored == RIGHT != _of(facts, "servers", name, "kept"):
                    yield f"{name}: the value changed after all was refused"

    return _found(problems(), "403")


def replayed(stack: Stack, facts: Facts) -> Finding:
    def problems() -> Iterator[str]:
        yield from _answers(facts, "replayed", _all_refused(("replayed", "held back")))
        for name in SERVICES:
            attack = _of(facts, "services", name, "attacks", "replayed")
            if not attack["recorded"] or attack["answer"] != CLOSED:
                yield f"{name}: a message that was sent again had an answer of {attack['answer']} bytes"

    return _found(problems(), "403")


def oversized(stack: Stack, facts: Facts) -> Finding:
    def problems() -> Iterator[str]:
        yield from _answers(facts, "oversized", {"signed": (TOO_LARGE,), "unsigned": (REFUSED, TOO_LARGE)})
        yield from _answers(facts, "strange", {"negative length": (BAD, REFUSED, TOO_LARGE)})
        for name in SERVICES:
            answer = _of(facts, "services", name, "attacks", "other key, too long", "answer")
            if answer != CLOSED:
                yield f"{name}: waits for as many bytes as a stranger says"

    return _found(problems(), "413")


def _pickles(facts: Facts, server: str, wanted: Mapping[str, Sequence[int | None]]) -> Iterator[str]:
    for name, statuses in wanted.items():
        attack = _of(facts, "servers", server, "pickles", name)
        if attack["executed"] is not False:
            yield f"a pickle was executed ({name})"
        elif attack["status"] not in statuses:
            yield f"{name}: answered {attack['status']}, not {statuses[0]}"


def rendezvous_pickle(stack: Stack, facts: Facts) -> Finding:
    def problems() -> Iterator[str]:
        wanted = {"unsigned": (REFUSED,), "other key": (REFUSED,), "signed": (BAD,)}
        yield from _pickles(facts, "elastic", wanted)
        if _of(facts, "servers", "elastic", "registered") != []:
            yield "the driver took the address of a stranger"

    return _found(problems(), "403, not executed")


def worker_pickle(stack: Stack, facts: Facts) -> Finding:
    wanted = {"unsigned": (REFUSED,), "other key": (REFUSED,), "imposter": (None,)}
    return _found(_pickles(facts, "key-value", wanted), "403, not executed")


def messages(stack: Stack, facts: Facts) -> Finding:
    def problems() -> Iterator[str]:
        for service in SERVICES:
            for name in ("other key", "signed pickle"):
                attack = _of(facts, "services", service, "attacks", name)
                if attack["executed"] is not False:
                    yield f"{service}: a pickle was executed ({name})"
                elif attack["answer"] != CLOSED:
                    yield f"{service}: {name}: had an answer of {attack['answer']} bytes"

    return _found(problems(), "closed, not executed")


def listens(stack: Stack, facts: Facts) -> Finding:
    def problems() -> Iterator[str]:
        seen = {name: _of(facts, "servers", name, "listens") for name in SERVERS}
        seen |= {name: _of(facts, "services", name, "listens") for name in SERVICES}
        joined = _of(facts, "servers", "elastic", "joined")
        if not joined["error"]:  # else that it could not join is what is wrong
            seen["elastic worker"] = joined["listens"]
        for name, addresses in seen.items():
            if addresses != LOOPBACK:
                yield f"{name}: listens on {listed(addresses or ['no address'])}, loopback was chosen"

    return _found(problems(), LOOPBACK[0])


def job(stack: Stack, facts: Facts) -> Finding:
    """The servers above have the key that the probe gave them; here the launcher has to give it."""

    def problems() -> Iterator[str]:
        for name in JOBS:
            for attack in JOB_ATTACKS:
                status = _of(facts, "jobs", name, "attacks", attack)
                if status != REFUSED:
                    yield f"{name}: {attack}: answered {status}, not {REFUSED}"
            found = _of(facts, "jobs", name)
            if found["served"]["value"] != RIGHT:
                yield f"{name}: a rank of the job is not served: {found['served']['error']}"
            if found["listens"] != LOOPBACK:
                yield f"{name}: listens on {listed(found['listens'] or ['no address'])}, loopback was chosen"
            if not found["has key"]:
                yield f"{name}: the rank has no key of the job"
            if found["key in command lines"] != []:
                yield f"{name}: the key is in the command line of {listed(found['key in command lines'])}"
            if found["logged"] < len(JOB_ATTACKS):
                yield f"{name}: {found['logged']} of {len(JOB_ATTACKS)} refusals were logged"
            if found["code"] != 0:
                yield f"{name}: the job ended with code {found['code']}"

    return _found(problems(), "403, and logged")


B = Tier.BUILT
SERVED = ("built.served",)
"""A server that does not start withstands nothing, and one that serves no rank refuses everything."""
RULES = (
    Rule(id="built.served", tier=B, judge=served,
         why="Who has the job's key is served: a server that refuses everyone would pass what follows."),
    Rule(id="built.unsigned-requests", tier=B, judge=unsigned, needs=SERVED,
         why="Every host in the network could read and change the data of ranks (CVE-2026-31234)."),
    Rule(id="built.forged-requests", tier=B, judge=forged, needs=SERVED,
         why="A signature is of the job's key, and for one request alone: not for another value or place."),
    Rule(id="built.replayed-requests", tier=B, judge=replayed, needs=SERVED,
         why="Who listens in the network could send a signed request once more."),
    Rule(id="built.oversized-requests", tier=B, judge=oversized, needs=SERVED,
         why="A body of any size would fill the memory of the machine that runs the driver."),
    Rule(id="built.rendezvous-pickle", tier=B, judge=rendezvous_pickle, needs=SERVED,
         why="The elastic driver executed what any host sent as an address (CVE-2024-10190)."),
    Rule(id="built.worker-pickle", tier=B, judge=worker_pickle, needs=SERVED,
         why="A worker executed what any host stored instead of its function (CVE-2026-31234)."),
    Rule(id="built.service-messages", tier=B, judge=messages, needs=SERVED,
         why="The services of driver and tasks start programs, and must not take a message from a stranger."),
    Rule(id="built.servers-listen", tier=B, judge=listens, needs=SERVED,
         why="A server on every interface is open to networks that the job does not use."),
    Rule(id="built.launched-job", tier=B, judge=job, needs=SERVED,
         why="A job that Horovod starts gives its key to its own processes, and puts it in no command line."),
)  # fmt: skip
