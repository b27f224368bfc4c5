"""skopeo, oras and cosign answer, on a host that has none of them, and reach a registry with a login."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from host_tools import bin_folder
from registry_server import PASSWORD, StartRegistry

from stackwright.engines import oci_tools
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.host.site import settings

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("name", tuple(oci_tools.Name))
def test_each_says_its_version(name: oci_tools.Name, runner: Runner, docker: Docker) -> None:
    tool = oci_tools.find(name, runner, docker, mirror=settings.apt_mirror(runner))
    assert tool("version" if name != "skopeo" else "--version", timeout=60).ok


def test_a_file_goes_to_a_registry_with_a_login_and_back(
    start_registry: StartRegistry, runner: Runner, docker: Docker, tmp_path: Path
) -> None:
    server = start_registry()
    assert server.ca
    oras = oci_tools.find(oci_tools.Name.ORAS, runner, docker, mirror=settings.apt_mirror(runner))
    config = server.docker_config(tmp_path / "docker")
    env = {"DOCKER_CONFIG": str(config), "SSL_CERT_FILE": str(server.ca)}
    (tmp_path / "x").write_text("what is sent")
    folders = (tmp_path, server.ca.parent)
    name = f"{server.address}/files:1"
    sent = f"{tmp_path}/x:text/plain"
    done = oras("push", "--disable-path-validation", name, sent, folders=folders, env=env)
    assert done.ok, done.stderr
    assert PASSWORD not in " ".join(done.argv)
    assert server.tags("files") == ["1"]
    (tmp_path / "x").unlink()
    assert oras("pull", "--allow-path-traversal", name, folders=folders, env=env).ok
    assert (tmp_path / "x").read_text() == "what is sent"
    refused = oras("pull", name, env={"SSL_CERT_FILE": str(server.ca)}, folders=(server.ca.parent,))
    assert not refused.ok and "basic credential not found" in refused.stderr


def test_stdin_reaches_it(runner: Runner, docker: Docker, tmp_path: Path) -> None:
    cosign = oci_tools.find(oci_tools.Name.COSIGN, runner, docker, mirror=settings.apt_mirror(runner))
    env = {"COSIGN_PASSWORD": "p"}
    done = cosign("generate-key-pair", "--output-key-prefix", tmp_path / "k", folders=(tmp_path,), env=env)
    assert done.ok, done.stderr
    blob = ("sign-blob", "--tlog-upload=false", "--key", tmp_path / "k.key", "--yes", "-")
    assert cosign(*blob, folders=(tmp_path,), env=env, stdin="text").ok


def test_the_host_s_own_leaves_nothing_in_the_folder_of_the_caller(
    start_registry: StartRegistry, docker: Docker, runner: Runner, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """What is pulled gets the names that the registry says."""
    monkeypatch.setenv("PATH", str(bin_folder(runner, docker)), prepend=os.pathsep)
    server = start_registry(login=False)
    assert server.ca
    env = {"SSL_CERT_FILE": str(server.ca)}
    oras = oci_tools.find(oci_tools.Name.ORAS, runner, None)
    (tmp_path / "x").write_text("what is sent")
    name = f"{server.address}/files:1"
    assert oras("push", "--disable-path-validation", name, f"{tmp_path / 'x'}:text/plain", env=env).ok
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    title = '{"x": {"org.opencontainers.image.title": "planted"}}'
    (tmp_path / "titles").write_text(title.replace('"x"', json.dumps(str(tmp_path / "x"))))
    words = ("--annotation-file", tmp_path / "titles", "--disable-path-validation", name)
    assert oras("push", *words, f"{tmp_path / 'x'}:text/plain", env=env).ok
    done = oras("pull", name, env=env)
    assert done.ok and "planted" in done.stdout, done.stderr
    assert list((tmp_path / "here").iterdir()) == []
