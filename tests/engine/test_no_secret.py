"""What a site keeps to itself is in nothing that a published night leaves: neither here nor at the registry.

The secrets are planted; each of them is used on the way, and the steps of the build read those that they get.
"""

from __future__ import annotations

import base64
import gzip
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
import small_repository
from attested import made_key
from gh_runner import host_environment
from own_engine import forget
from registry_server import PASSWORD, USER, RegistryServer, registry

from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner

pytestmark = [pytest.mark.engine, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
ROW, BASE = "cuda12-torch", "team/images"
TOKEN, PROXY = "planted-token", "planted-proxy"
READS = """\
RUN --mount=type=secret,id=pip-conf,target=/etc/pip.conf --mount=type=secret,id=ca \\
    --mount=type=secret,id=apt-sources \\
    grep -q planted /etc/pip.conf && test $(grep -c BEGIN /run/secrets/ca) = 2 \\
    && test -s /run/secrets/apt-sources \\
    && env | grep -q reader: && : {night} && {then}
"""
"""``night`` is of its own each time: a step that the engine has from before reads nothing.

The site's bundle has two authorities, and the host's own has many.
"""
GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """``secrets`` by name, and all that was left by place: names and bytes, unpacked."""

    secrets: Mapping[str, tuple[bytes, ...]]
    places: Mapping[str, bytes]

    def leaks(self) -> set[tuple[str, str]]:
        """Which secret is where."""
        return {
            (secret, place)
            for secret, forms in self.secrets.items()
            for place, content in self.places.items()
            if any(form in content for form in forms)
        }


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, runner: Runner, host_tools: None
) -> Iterator[RegistryServer]:
    """After a night with nothing planted, which made the base and the tools: for them the mirror is asked."""
    folder = tmp_path_factory.mktemp("registry")
    with registry(folder, runner) as running:
        key = made_key(folder, "signing", runner)
        _nightly(_repository(folder), {**host_environment(), **_published_to(running, folder, key)})
        yield running


def _repository(folder: Path) -> Path:
    root = small_repository.make(folder / "repository", (ROW,))
    (root / ".venv").symlink_to(ROOT / ".venv")
    return root


def _published_to(server: RegistryServer, folder: Path, key: Path) -> dict[str, str]:
    return {
        "STACKWRIGHT_REGISTRY": f"{server.address}/{BASE}", "STACKWRIGHT_REGISTRY_CA": str(server.ca),
        "STACKWRIGHT_SIGNING_KEY": str(key),
        "DOCKER_CONFIG": str(server.docker_config(folder / "docker")), "HOME": str(folder),
    }  # fmt: skip


def _nightly(root: Path, environment: Mapping[str, str]) -> bytes:
    said = b""
    for words in (["nightly", "--locked", "--publish"], ["report"], ["history"]):
        argv = ["./build.py", *words]
        done = subprocess.run(argv, cwd=root, env=environment, capture_output=True, check=False)
        said += done.stdout + done.stderr
        assert done.returncode == 0, said.decode()
    return said


def a_night(folder: Path, then: str, server: RegistryServer, docker: Docker, runner: Runner) -> Night:
    """``then`` is what the build's step does besides reading its secrets."""
    root = _repository(folder)
    template = root / "dockerfiles" / "Dockerfile.j2"
    last = " > /toolchain\n"
    assert template.read_text().count(last) == 1
    template.write_text(template.read_text().replace(last, last + READS.format(then=then, night=uuid4().hex)))
    key, authority = made_key(folder, "signing", runner), _authority(folder, runner)
    bundle = folder / "bundle.pem"
    assert server.ca
    bundle.write_text(server.ca.read_text() + authority.read_text())
    environment = {
        **host_environment(),
        **dict.fromkeys(("http_proxy", "https_proxy"), f"http://reader:{PROXY}@127.0.0.1:9"),
        "no_proxy": "*", "PIP_INDEX_URL": f"http://reader:{TOKEN}@127.0.0.1:9/simple",
        "STACKWRIGHT_CA_BUNDLE": str(bundle), **_published_to(server, folder, key),
    }  # fmt: skip
    said = _nightly(root, environment)
    places = {"terminal": said, **_files(root / "out", "out"), **_files(server.data, "registry")}
    return Night(
        places={**places, **_image(root, folder, docker, runner)},
        secrets={
            "password of the registry": _forms(PASSWORD, f"{USER}:{PASSWORD}"),
            "token of the index": _forms(TOKEN, f"reader:{TOKEN}"),
            "password of the proxy": _forms(PROXY, f"reader:{PROXY}"),
            "authority": (authority.read_bytes().splitlines()[2],),
            "signing key": (key.read_bytes().splitlines()[1],),
        },
    )


def _authority(folder: Path, runner: Runner) -> Path:
    path = folder / "authority.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=planted authority"]
    assert runner([*made, "-keyout", folder / "authority.key", "-out", path]).ok
    return path


def _forms(secret: str, login: str) -> tuple[bytes, ...]:
    """As it is, and as a header of HTTP or a file of Docker's would have it."""
    return secret.encode(), base64.b64encode(login.encode())


def _files(folder: Path, place: str) -> dict[str, bytes]:
    return {
        f"{place}/{path.relative_to(folder)}": _unpacked(path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def _unpacked(content: bytes) -> bytes:
    """With what is in an archive, and in the envelope of a signed statement."""
    if content.startswith(GZIP):
        return gzip.decompress(content)
    try:
        payload = json.loads(content)["payload"]
        return content + base64.b64decode(payload)
    except (ValueError, LookupError, TypeError):
        return content


def _image(root: Path, folder: Path, docker: Docker, runner: Runner) -> dict[str, bytes]:
    """The image as the engine gives it away, which is then removed."""
    record = json.loads(max((root / "out" / "records" / ROW).glob("*.json")).read_text())
    reference, archive = record["image"]["reference"], folder / "image.tar"
    assert runner(docker.command("save", "--output", archive, reference)).ok
    forget(docker, reference)
    with tarfile.open(archive) as opened:
        files = ((file.name, opened.extractfile(file)) for file in opened if file.isfile())
        return {f"image/{name}": _unpacked(content.read()) for name, content in files if content}


@pytest.fixture(scope="module")
def night(
    tmp_path_factory: pytest.TempPathFactory, server: RegistryServer, docker: Docker, runner: Runner
) -> Night:
    return a_night(tmp_path_factory.mktemp("night"), "true", server, docker, runner)


def test_no_secret_of_the_site_is_in_what_a_night_leaves(night: Night) -> None:
    assert night.leaks() == set()


@pytest.mark.parametrize(
    ("begins", "holds"),
    [
        ("terminal", b"signed: "),
        ("out/records/", b'"verdicts"'),
        ("out/report/", b"<html"),
        ("out/history.sqlite", ROW.encode()),
        (f"out/{ROW}/", b"[toolchain "),  # the log of the build
        ("image/", b"org.stackwright.stack"),  # configuration and history
        ("image/", b"etc/stackwright/row.json"),  # a layer
        ("registry/", b"etc/stackwright/row.json"),
        ("registry/", b"https://slsa.dev/provenance/"),
        ("registry/", b"https://cyclonedx.org/"),
    ],
)
def test_all_that_it_leaves_was_looked_into(night: Night, begins: str, holds: bytes) -> None:
    assert any(place.startswith(begins) and holds in content for place, content in night.places.items())


@pytest.mark.parametrize(
    ("then", "place", "secret"),
    [
        ("cp /etc/pip.conf /toolchain", "registry/", "token of the index"),
        pytest.param("cp /run/secrets/ca /toolchain", "registry/", "authority", marks=pytest.mark.nightly),
        # In an address it would be redacted; alone it has no shape that tells it.
        ("tr :@ '  ' < /etc/pip.conf", f"out/{ROW}/", "token of the index"),
    ],
    ids=["layer", "authority", "log"],
)
def test_one_that_leaks_is_found(
    tmp_path: Path, server: RegistryServer, docker: Docker, runner: Runner, then: str, place: str, secret: str
) -> None:
    shutil.rmtree(server.data)
    found = a_night(tmp_path, then, server, docker, runner).leaks()
    assert {name for name, _ in found} == {secret}
    assert any(where.startswith(place) for _, where in found), found
