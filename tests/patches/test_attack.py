"""The probe of attacks against Horovod's servers: as released, as patched, and with one defence taken away.

Servers and launchers are Python, so nothing is compiled and no image is needed.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import horovod_source as source
import pytest
from image_facts import docker_facts, stack
from patching import apply, hunks

from stackwright.core.checks.judge import verify
from stackwright.core.components.horovod import attack
from stackwright.core.facts.patches import load_series
from stackwright.host.runner import Runner

PROBE = source.ROOT / "probes" / "attack.py"
SERIES = load_series(source.ROOT / "patches" / "horovod")
ALWAYS = SERIES.select({})
"""The patches of every row."""
ROW = stack()
ATTACKS = {rule.id for rule in attack.RULES}
SERVER, AUTH = "http/http_server.py", "http/http_auth.py"
CLIENT, NETWORK = "http/http_client.py", "common/util/network.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """``old`` is in ``path`` of horovod/runner once, and is replaced; ``red`` are the checks that find it."""

    path: str
    old: str
    new: str
    red: frozenset[str]


def fault(path: str, old: str, new: str, *red: str) -> Fault:
    return Fault(path=path, old=old, new=new, red=frozenset(f"built.{name}" for name in red))


LET_GET_IN = """        if self.command == 'GET' and http_auth.NONCE_HEADER not in self.headers:
            self._scope, self._key = path.groups()
            self._digest = http_auth.digest(b'')
            return act()
        self._scope, self._key = path.groups()
"""
FAULTS = {
    "unsigned-get": fault(SERVER, "        self._scope, self._key = path.groups()\n", LET_GET_IN,
                          "unsigned-requests", "launched-job"),
    "any-signature": fault(AUTH, "if not same(signature, request_signature(", "if False and bool((",
                           "forged-requests", "rendezvous-pickle", "worker-pickle", "launched-job"),
    "any-body": fault(SERVER, "if not http_auth.same(self._digest, http_auth.digest(value)):", "if False:",
                      "forged-requests"),
    "any-nonce": fault(AUTH, "    seen.add(nonce)\n", "", "replayed-requests"),
    "any-size": fault(SERVER, "if length > self.server.max_body:", "if False:", "oversized-requests"),
    "files-of-the-folder": fault(SERVER, "import BaseHTTPRequestHandler, HTTPServer",
                                 "import SimpleHTTPRequestHandler as BaseHTTPRequestHandler, HTTPServer",
                                 "unsigned-requests"),
    "pickled-addresses": fault("elastic/rendezvous.py", "    addresses = json.loads(value.decode('utf-8'))\n",
                               "    import base64, pickle\n"
                               "    addresses = json.loads(value) if value[:1] == b'{' else "
                               "pickle.loads(base64.b64decode(value))\n", "rendezvous-pickle"),
    "any-reply": fault(CLIENT, "if signature is None or not http_auth.same(", "if False and bool(",
                       "worker-pickle"),
    "every-interface": fault("util/network.py", "server_factory((address,", "server_factory(('',",
                             "servers-listen", "launched-job"),
    "any-message": fault(NETWORK, "if not secret.check_digest(self._key, direction +", "if False and bool(",
                         "replayed-requests", "oversized-requests"),
    "pickled-messages": fault("common/util/messages.py", "    message = _decode(json.loads(",
                              "    import pickle\n    if text[:1] != b'{':\n        pickle.loads(text)\n"
                              "    message = _decode(json.loads(", "service-messages"),
    "no-key": fault("gloo_run.py", "env, stdin = secret.add_key_to_env(key), None", "env, stdin = None, None",
                    "launched-job"),
    "key-in-command-line": fault("gloo_run.py", "            env, stdin = secret.add_key_to_env(key), None\n",
                                 "            env, stdin = secret.add_key_to_env(key), None\n"
                                 "            command = 'true ' + key.hex() + '; ' + command + '; true'\n",
                                 "launched-job"),
    "nobody-is-served": fault(AUTH, "    if nonce is None and body_digest is None and signature is None:\n",
                              "    if True:\n", "served"),
}  # fmt: skip


def without(tree: Path, fault: Fault, folder: Path) -> Path:
    shutil.copytree(tree, folder)
    file = folder / "horovod" / "runner" / fault.path
    text = file.read_text()
    assert text.count(fault.old) == 1, f"{fault.path} has it {text.count(fault.old)} times: {fault.old}"
    file.write_text(text.replace(fault.old, fault.new))
    return folder


def found(runner: Runner, tree: Path) -> dict[str, str]:
    """The checks that are red, with what they say, after the probe ran with a tree in front of all else."""
    facts = tree / "attack.json"
    done = runner([sys.executable, "-B", PROBE, facts], env={"PYTHONPATH": str(tree)}, timeout=120)
    assert done.ok, done.stderr
    every = {**docker_facts(ROW), "attack": json.loads(facts.read_text())}
    return {check.id: check.detail for check in verify(ROW, every, "docker", {}).failed}


@pytest.fixture(scope="module")
def red(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, str]]:
    """What is red of each tree; they are attacked at the same time, because most of it is waiting."""
    runner, folder = Runner(), tmp_path_factory.mktemp("attacked")
    whole = source.unpack(source.archive(runner, SERIES), tmp_path_factory.mktemp("horovod"))
    program = source.patch_program(runner, tmp_path_factory.mktemp("patch"))
    touched = {hunk.path for patch in ALWAYS for hunk in hunks(patch.content)}
    patched = source.without_extensions(whole, folder / "patched", *touched)
    apply(runner, program, patched, source.contents(ALWAYS))
    trees = {"released": source.without_extensions(whole, folder / "released"), "patched": patched}
    trees |= {name: without(patched, fault, folder / name) for name, fault in FAULTS.items()}
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(trees, pool.map(lambda tree: found(runner, tree), trees.values()), strict=True))


def test_horovod_as_released_fails_exactly_the_attacks(red: Mapping[str, Mapping[str, str]]) -> None:
    assert set(red["released"]) == ATTACKS - {"built.served"}
    assert "a pickle was executed (unsigned)" in red["released"]["built.rendezvous-pickle"]
    assert "a pickle was executed (unsigned)" in red["released"]["built.worker-pickle"]
    assert "listens on 0.0.0.0" in red["released"]["built.servers-listen"]


def test_horovod_as_every_row_has_it_withstands_them(red: Mapping[str, Mapping[str, str]]) -> None:
    assert red["patched"] == {}


@pytest.mark.parametrize("name", FAULTS)
def test_a_defence_that_is_missing_is_found_by_its_check(
    name: str, red: Mapping[str, Mapping[str, str]]
) -> None:
    assert set(red[name]) == FAULTS[name].red, red[name]


def test_each_check_has_a_defence_that_it_misses() -> None:
    assert {name for fault in FAULTS.values() for name in fault.red} == ATTACKS
