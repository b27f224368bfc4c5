"""A site with a key and a registry, and images that it published: what tests of attestations start from."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from registry_server import RegistryServer
from registry_server import registry as running_registry
from signed_image import SmallRow, small_row
from tampering import Tampered

from stackwright.core.model.site import Site
from stackwright.engines import oci_tools
from stackwright.engines.docker import Docker
from stackwright.engines.oci_tools import Name, Tool
from stackwright.host.runner import Runner
from stackwright.host.site import settings as host
from stackwright.publish.attest import keys, verify
from stackwright.publish.attest import oras as access
from stackwright.publish.attest.attach import Attached, attach
from stackwright.publish.attest.keys import PublicKey
from stackwright.publish.attest.oci_layout import Layout, image_of

NOW = datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What a site has after it published: ``copy`` is the image with all that refers to it."""

    small: SmallRow
    reference: str
    attached: Attached
    copy: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class TheSite:
    cosign: Tool
    oras: Tool
    key: Path
    public: PublicKey
    server: RegistryServer
    settings: Site

    def push(self, small: SmallRow, name: str) -> str:
        """The image alone."""
        target = f"{self.server.address}/{name}:1"
        with self.access(name) as access_:
            done = self.oras(
                "copy", "--from-oci-layout", f"{small.archive}:1", target,
                folders=(*access_.folders, small.archive.parent), env=access_.env,
            )  # fmt: skip
        assert done.ok, done.stderr
        return target

    def publish(self, small: SmallRow, name: str, folder: Path) -> Published:
        target = self.push(small, name)
        with self.access(name) as access_:
            with keys.loaded(self.key, self.cosign) as key:
                attached = attach(
                    target, small.row, small.record, small.facts, key=key, cosign=self.cosign, access=access_
                )
            reference = access.pinned(target, attached.image)
            access_.copy(reference, folder)
        return Published(small=small, reference=reference, attached=attached, copy=folder)

    def access(self, name: str) -> AbstractContextManager[access.Access]:
        return access.to_registry(f"{self.server.address}/{name}:1", self.settings, self.oras, say=print)

    def verify(self, folder: Path, **asked: Any) -> verify.Verified:
        layout = Layout(folder=folder)
        key = asked.pop("key", self.public)
        image = asked.pop("image", None) or image_of(layout, access.COPIED)
        return verify.verify(layout, image, key, self.cosign, at=NOW, **asked)


def made_key(folder: Path, name: str, runner: Runner) -> Path:
    path = folder / f"{name}.pem"
    assert runner(["openssl", "genpkey", "-algorithm", "ed25519", "-out", path]).ok
    return path


def certificate(key: Path, runner: Runner, *, since: timedelta, until: timedelta) -> Path:
    """Self-signed over the key; the dates are counted from now."""
    path = key.with_suffix(".crt")
    dates = ((NOW + moment).strftime("%Y%m%d%H%M%SZ") for moment in (since, until))
    folder = key.with_suffix(".ca")
    folder.mkdir(exist_ok=True)
    (folder / "index").write_text("")
    (folder / "ca.cnf").write_text(
        "[ca]\ndefault_ca=x\n[x]\nnew_certs_dir=.\ndatabase=index\nrand_serial=yes\ndefault_md=default\n"
        "policy=p\n[p]\ncommonName=supplied\n"
    )
    request = folder / "request"
    assert runner(["openssl", "req", "-new", "-key", key, "-subj", "/CN=site", "-out", request]).ok
    begin, end = dates
    done = runner(
        ["openssl", "ca", "-batch", "-config", "ca.cnf", "-selfsign", "-keyfile", key, "-in", request,
         "-startdate", begin, "-enddate", end, "-notext", "-out", path],
        cwd=folder,
    )  # fmt: skip
    assert done.ok, done.stderr
    return path


@pytest.fixture(scope="module")
def attest_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("attest")


@pytest.fixture(scope="module")
def the_site(runner: Runner, docker: Docker, attest_folder: Path, host_tools: None) -> Iterator[TheSite]:
    mirror = host.apt_mirror(runner)
    cosign, oras = (oci_tools.find(name, runner, docker, mirror=mirror) for name in (Name.COSIGN, Name.ORAS))
    key = made_key(attest_folder, "site", runner)
    until = certificate(key, runner, since=timedelta(days=-1), until=timedelta(days=365))
    with (
        running_registry(attest_folder / "registry", runner) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("DOCKER_CONFIG", str(server.docker_config(attest_folder / "docker")))
        yield TheSite(
            cosign=replace(cosign, offline=True), oras=oras, key=key, server=server,
            public=keys.public_key(until, runner),
            settings=Site(mirror=None, ca=server.ca, pip=(), proxies=()),
        )  # fmt: skip


@pytest.fixture(scope="module")
def small(tiny: str, docker: Docker, runner: Runner, attest_folder: Path) -> Iterator[SmallRow]:
    (attest_folder / "small").mkdir()
    with small_row("cuda12-torch", tiny, docker, runner, attest_folder / "small") as made:
        yield made


@pytest.fixture(scope="module")
def published(the_site: TheSite, small: SmallRow, attest_folder: Path) -> Published:
    return the_site.publish(small, "hpc/cuda12-torch", attest_folder / "copy")


@pytest.fixture(scope="module")
def twin(
    the_site: TheSite, tiny: str, docker: Docker, runner: Runner, attest_folder: Path
) -> Iterator[Published]:
    """Another image of the same row."""
    (attest_folder / "twin").mkdir()
    with small_row("cuda12-torch", tiny, docker, runner, attest_folder / "twin") as made:
        yield the_site.publish(made, "hpc/twin", attest_folder / "copy-of-twin")


@pytest.fixture
def tampered(published: Published, the_site: TheSite, tmp_path: Path) -> Tampered:
    """A copy to be changed, and the site's own key to sign lies with."""
    shutil.copytree(published.copy, tmp_path / "copy")
    return Tampered(folder=tmp_path / "copy", cosign=the_site.cosign, key=the_site.key)
