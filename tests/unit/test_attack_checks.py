"""Each attack that succeeds turns its own check red; tests/patches fires them at the real servers."""

from __future__ import annotations

from typing import Any

import pytest
from image_facts import ROW, docker_facts, failed

from stackwright.core.checks.judge import rules
from stackwright.core.components.horovod import attack
from stackwright.core.components.horovod.attack import FORGED, JOBS, SERVERS, SERVICES, UNSIGNED

Facts = dict[str, Any]


def facts() -> Facts:
    return docker_facts(ROW)


def change(found: Facts, path: str, value: object) -> None:
    """``path`` is written with slashes, and its last part is set."""
    *place, last = path.split("/")
    for name in place:
        found = found[name]
    assert last in found, path
    found[last] = value


SERVICE = "services/task/attacks"
FLAWS: tuple[tuple[str, object, str, str], ...] = (
    ("servers/rendezvous/served", {"value": None, "error": "RuntimeError: 403"}, "served", "RuntimeError"),
    ("servers/key-value/served", {"value": "wrong", "error": None}, "served", "another value"),
    ("servers/elastic/replayed/first", 403, "served", "answered 403, not 200"),
    ("servers/elastic/joined/error", "TypeError: x", "served", "could not join: TypeError"),
    ("servers/elastic/joined/registered", [], "served", "could not join"),
    ("servers/elastic/joined/told", [], "served", "could not join"),
    ("services/worker/served", {"value": False, "error": None}, "served", "worker"),
    ("servers/elastic/forged/unsigned rank", 200, "unsigned-requests", "unsigned rank: answered 200"),
    ("servers/key-value/strange/files", 200, "unsigned-requests", "files: answered 200"),
    ("servers/key-value/strange/long path", 0, "unsigned-requests", "long path: answered 0"),
    ("servers/key-value/kept", "wrong", "forged-requests", "changed after all was refused"),
    ("servers/rendezvous/replayed/replayed", 200, "replayed-requests", "replayed: answered 200"),
    ("servers/rendezvous/replayed/held back", 200, "replayed-requests", "held back: answered 200"),
    (f"{SERVICE}/replayed/answer", 32, "replayed-requests", "an answer of 32 bytes"),
    (f"{SERVICE}/replayed/answer", None, "replayed-requests", "task"),
    (f"{SERVICE}/replayed/recorded", 0, "replayed-requests", "task"),
    ("servers/rendezvous/oversized/signed", 408, "oversized-requests", "answered 408, not 413"),
    ("servers/rendezvous/oversized/unsigned", None, "oversized-requests", "answered None"),
    ("servers/rendezvous/strange/negative length", 408, "oversized-requests", "negative length"),
    (f"{SERVICE}/other key, too long/answer", None, "oversized-requests", "waits for as many bytes"),
    ("servers/elastic/pickles/unsigned/executed", True, "rendezvous-pickle", "executed (unsigned)"),
    ("servers/elastic/pickles/signed/executed", True, "rendezvous-pickle", "executed (signed)"),
    ("servers/elastic/pickles/signed/status", 200, "rendezvous-pickle", "answered 200, not 400"),
    ("servers/elastic/pickles/other key/status", None, "rendezvous-pickle", "answered None"),
    ("servers/elastic/registered", [["node", 0]], "rendezvous-pickle", "the address of a stranger"),
    ("servers/key-value/pickles/unsigned/executed", True, "worker-pickle", "executed (unsigned)"),
    ("servers/key-value/pickles/other key/status", 200, "worker-pickle", "answered 200"),
    ("servers/key-value/pickles/imposter/executed", True, "worker-pickle", "executed (imposter)"),
    ("servers/key-value/pickles/imposter/executed", None, "worker-pickle", "executed (imposter)"),
    (f"{SERVICE}/other key/executed", True, "service-messages", "executed (other key)"),
    (f"{SERVICE}/signed pickle/executed", True, "service-messages", "executed (signed pickle)"),
    (f"{SERVICE}/other key/answer", 32, "service-messages", "an answer of 32 bytes"),
    ("servers/elastic/listens", ["0.0.0.0"], "servers-listen", "elastic: listens on 0.0.0.0"),
    ("services/driver/listens", ["127.0.0.1", "172.17.0.2"], "servers-listen", "172.17.0.2"),
    ("services/driver/listens", [], "servers-listen", "no address"),
    ("servers/elastic/joined/listens", ["::"], "servers-listen", "elastic worker"),
    ("jobs/static/attacks/unsigned PUT", 200, "launched-job", "static: unsigned PUT: answered 200"),
    ("jobs/elastic/attacks/other key PUT", 0, "launched-job", "elastic: other key PUT: answered 0"),
    ("jobs/static/served", {"value": None, "error": "RuntimeError: 403"}, "launched-job", "not served"),
    ("jobs/static/listens", ["0.0.0.0"], "launched-job", "listens on 0.0.0.0"),
    ("jobs/static/has key", False, "launched-job", "has no key"),
    ("jobs/static/key in command lines", ["ssh"], "launched-job", "command line of ssh"),
    ("jobs/static/logged", 0, "launched-job", "0 of 3 refusals were logged"),
    ("jobs/static/code", 1, "launched-job", "ended with code 1"),
)


@pytest.mark.parametrize(("path", "value", "red", "says"), FLAWS)
def test_what_is_let_in_is_named_by_its_check(path: str, value: object, red: str, says: str) -> None:
    found = facts()
    change(found["attack"], path, value)
    details = failed(found)
    assert set(details) == {f"built.{red}"}
    assert says in details[f"built.{red}"]


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("status", [200, 404, 0, None, "403", True])
def test_another_answer_than_403_is_no_refusal(server: str, status: object) -> None:
    for names, red in ((UNSIGNED, "built.unsigned-requests"), (FORGED, "built.forged-requests")):
        for name in names:
            found = facts()
            change(found["attack"], f"servers/{server}/forged/{name}", status)
            assert set(failed(found)) == {red}


ATTACKS = {rule.id for rule in attack.RULES}


@pytest.mark.parametrize(
    "path", [f"servers/{name}" for name in SERVERS] + [f"services/{name}" for name in SERVICES]
)
def test_a_server_that_was_not_attacked_did_not_withstand(path: str) -> None:
    found = facts()
    kind, name = path.split("/")
    found["attack"][kind][name] = {"error": "ImportError: no module"}
    details = failed(found)
    assert set(details) == {"built.served"}
    assert "ImportError: no module" in details["built.served"]


@pytest.mark.parametrize("job", JOBS)
def test_a_job_that_did_not_start_did_not_withstand(job: str) -> None:
    found = facts()
    found["attack"]["jobs"][job] = {"error": "the job ended with code 1"}
    assert set(failed(found)) == {"built.launched-job"}
    assert "the job ended with code 1" in failed(found)["built.launched-job"]


def test_each_single_attack_that_was_not_fired_is_missed() -> None:
    """Whatever is left out of the facts, down to the last status, one check at least is red."""

    def without(node: Facts, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        paths = []
        for name, inner in node.items():
            paths.append((*path, name))
            if isinstance(inner, dict):
                paths += without(inner, (*path, name))
        return paths

    optional = {"error", "address"}
    for path in without(facts()["attack"]):
        found = facts()
        node = found["attack"]
        for name in path[:-1]:
            node = node[name]
        del node[path[-1]]
        assert failed(found) or path[-1] in optional, path


def test_a_sif_is_attacked_too() -> None:
    assert {rule.id for rule in rules("sif")} >= ATTACKS
