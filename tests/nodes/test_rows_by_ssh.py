"""The same on hosts of a file, through a real SSH connection to each, with Dask's own over TLS."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import node_pair
import pytest
from node_pair import CACHE, ROWS, Nodes, wait_for
from rows_run import complete, ended

from stackwright.core.errors import NodesError

pytest_plugins = ("node_fixtures",)
pytestmark = pytest.mark.engine
SOME = ROWS[:3]


@pytest.fixture
def home(tmp_path: Path, nodes: Nodes) -> Iterator[Path]:
    """A user's, whose ssh knows node-a and node-b."""
    folder, port = tmp_path / "home", node_pair.free_port()
    keys = folder / ".ssh"
    keys.mkdir(parents=True, mode=0o700)
    mine, host = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    mine.write_private_key(str(keys / "id_ed25519"))
    host.write_private_key(str(keys / "host"))
    mine.write_public_key(str(keys / "authorized_keys"))
    known = host.export_public_key().decode()
    (keys / "known_hosts").write_text(f"[127.0.0.1]:{port} {known}")
    named = zip("ab", nodes.engines, strict=True)
    (keys / "nodes.json").write_text(
        json.dumps({name: {"DOCKER_HOST": engine.docker.host} for name, engine in named})
    )
    hosts = (f"Host node-{name}\n HostName 127.0.0.1\n Port {port}\n User {name}\n" for name in "ab")
    (keys / "config").write_text("".join(hosts) + f"Host *\n IdentityFile {keys}/id_ed25519\n")
    server: list[str | Path] = [
        sys.executable,
        Path(node_pair.__file__).with_name("ssh_server.py"),
        str(port),
        keys,
    ]
    with node_pair.process(server, log=tmp_path / "ssh.log"):
        wait_for(lambda: _listens(port), "SSH server")
        yield folder


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def start(project: Path, home: Path, hosts: str) -> subprocess.Popen[str]:
    (home / "hosts.txt").write_text(hosts)
    given = {"HOME": str(home), "DOCKER_HOST": "unix:///nowhere", "STACKWRIGHT_CACHE": CACHE}
    return subprocess.Popen(
        ["./build.py", "probe", *SOME, "--cluster", f"ssh:{home}/hosts.txt"], cwd=project, text=True,
        env={**os.environ, **given}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def test_rows_are_done_on_hosts_that_ssh_knows(project: Path, home: Path) -> None:
    said = ended(start(project, home, "node-a\nnode-b\n"))
    assert complete(project) == set(SOME), said
    assert "not encrypted" not in said
    assert list((project / "out" / "cluster").glob("**/*.pem")) == []


def test_a_host_that_ssh_does_not_know_ends_it(project: Path, home: Path) -> None:
    said = ended(start(project, home, "node-a\nnode-c.invalid\n"), NodesError.exit_code)
    assert "the cluster cannot be used" in said
