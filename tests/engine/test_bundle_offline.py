"""A bundle, from the mirror and the index that it is recorded from to a build where no network is."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import bundled_row
import pytest
from bundled_row import Cut, build_py
from own_engine import OwnEngine, forget, own_engine
from upstream_server import RUNTIME, UpstreamServer

from stackwright.build.bundle import file, given
from stackwright.build.bundle.given import Given
from stackwright.build.bundle.manifest import BundledRow, Manifest
from stackwright.build.bundle.record import Recording, Upstream
from stackwright.build.bundle.serve import serving
from stackwright.core.errors import BundleError, EngineError, SiteError
from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner

pytestmark = pytest.mark.engine
RELEASE = "packages/debian/dists/trixie/InRelease"
ROW = BundledRow(row="row", key="0" * 64, bases=(), layers=(), ca=True)


def get(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=10) as answer:
        return bytes(answer.read())


def code(address: str) -> int:
    with pytest.raises(urllib.error.HTTPError) as error:
        get(address)
    return error.value.code


def pip(address: str, folder: Path, requirement: str) -> subprocess.CompletedProcess[str]:
    """As a step of a build: everything from one index, and its hash has to fit."""
    (folder / "requirements.txt").write_text(requirement)
    words = ("download", "--disable-pip-version-check", "--no-cache-dir", "--no-deps", "--require-hashes")
    places = ("--index-url", f"{address}/simple", "--dest", folder / "got", "-r", folder / "requirements.txt")
    return subprocess.run(
        [sys.executable, "-m", "pip", *words, *places], capture_output=True, text=True, check=False,
        env={**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "0"},
    )  # fmt: skip


@pytest.fixture
def recording(upstream: UpstreamServer, tmp_path: Path) -> Recording:
    places = Upstream(
        mirrors={"debian": f"{upstream.address}/debian"},
        indexes=(f"{upstream.address}/simple", f"{upstream.address}/empty"),
    )
    return Recording(upstream=places, folder=tmp_path / "kept")


def written(recording: Recording, target: Path) -> file.Bundle:
    file.write(target, Manifest(rows=(ROW,), members=file.members(recording.folder)), recording.folder)
    return file.read(target)


def pin(upstream: UpstreamServer, name: str, version: str) -> str:
    stem = f"/files/{name.replace('-', '_')}-{version}-py3-none-any.whl"
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(upstream.files[stem]).hexdigest()}\n"


# -- recorded, and given from the bundle ------------------------------------------------------------


def test_what_pip_and_apt_ask_for_is_kept_and_given_again(
    upstream: UpstreamServer, recording: Recording, tmp_path: Path
) -> None:
    requirement = pin(upstream, RUNTIME, "12.4.127")
    with serving(recording.find) as address:
        release = get(f"{address}/{RELEASE}")
        first = pip(address, tmp_path, requirement)
    assert first.returncode == 0, first.stderr
    bundle = written(recording, tmp_path / "rows.bundle")
    wheel = f"python/0/{RUNTIME}/{RUNTIME.replace('-', '_')}-12.4.127-py3-none-any.whl"
    assert [member.path for member in bundle.manifest.members] == [RELEASE, wheel]
    upstream.stop()
    answers = Given(bundle)
    (tmp_path / "again").mkdir()
    with serving(answers.find) as address:
        assert get(f"{address}/{RELEASE}") == release
        second = pip(address, tmp_path / "again", requirement)
        assert second.returncode == 0, second.stderr
        assert answers.missed == []
        assert code(f"{address}/simple/numpy/") == 404
    assert answers.needed == "simple/numpy"


def test_a_file_is_asked_for_once_and_stays_what_it_was(
    upstream: UpstreamServer, recording: Recording
) -> None:
    with serving(recording.find) as address:
        before = get(f"{address}/{RELEASE}")
        upstream.files["/debian/dists/trixie/InRelease"] = b"the mirror moved on"
        assert get(f"{address}/{RELEASE}") == before
    assert upstream.asked.count("/debian/dists/trixie/InRelease") == 1


def test_only_the_build_is_answered_and_only_what_the_site_has(
    upstream: UpstreamServer, recording: Recording
) -> None:
    upstream.files["/secret"] = b"not of the mirror"
    with serving(recording.find) as address:
        bare = address.rpartition("/")[0]
        assert code(f"{bare}/{RELEASE}") == 404
        assert code(f"{address}/packages/debian/dists/none") == 404
        assert code(f"{address}/packages/debian/..%2f..%2fsecret") == 404
        assert code(f"{address}/packages/ubuntu/dists/noble/InRelease") == 404
        assert code(f"{address}/python/0/numpy/numpy-2.2.3-py3-none-any.whl") == 404
        assert code(f"{address}/simple/No_Project/") == 404
    assert "/secret" not in upstream.asked
    assert recording.problems == []
    assert not recording.folder.exists() or not list(recording.folder.rglob("*.*"))


@pytest.mark.long
def test_a_file_that_is_not_the_one_of_the_index_is_not_kept(
    upstream: UpstreamServer, recording: Recording, tmp_path: Path
) -> None:
    requirement = pin(upstream, "numpy", "2.2.3")
    upstream.files["/files/numpy-2.2.3-py3-none-any.whl"] += b"more"
    with serving(recording.find) as address:
        assert pip(address, tmp_path, requirement).returncode != 0
    assert not list(recording.folder.rglob("*.whl"))
    assert "its sha256 differs" in str(recording.problems[0])


@pytest.mark.long
def test_a_login_of_the_index_is_in_no_bundle(upstream: UpstreamServer, tmp_path: Path) -> None:
    login = upstream.address.replace("http://", "http://reader:planted-token@")
    places = Upstream(mirrors={"debian": f"{login}/debian"}, indexes=(f"{login}/simple",))
    recording = Recording(upstream=places, folder=tmp_path / "kept")
    with serving(recording.find) as address:
        get(f"{address}/{RELEASE}")
        assert b"planted" not in get(f"{address}/simple/numpy/")
        assert pip(address, tmp_path, pin(upstream, "numpy", "2.2.3")).returncode == 0
    bundle = written(recording, tmp_path / "rows.bundle")
    whole = bundle.path.read_bytes()
    assert len(bundle.manifest.members) == 2
    assert b"planted" not in whole and upstream.address.rpartition("/")[2].encode() not in whole


@pytest.mark.long
def test_a_mirror_that_does_not_answer_is_a_problem_that_is_told(
    upstream: UpstreamServer, recording: Recording
) -> None:
    upstream.stop()
    with serving(recording.find) as address:
        assert code(f"{address}/{RELEASE}") == 502
    assert isinstance(recording.problems[0], SiteError)


def test_an_engine_elsewhere_is_refused_with_what_to_do(docker: Docker) -> None:
    given.require_near(docker)
    with pytest.raises(EngineError, match="a bundle needs an engine on this machine"):
        given.require_near(replace(docker, host="tcp://build.example:2376"))


# -- a row, built where no network is ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundled:
    """A repository with its row's bundle, and what `bundle --json` and `build --json` printed."""

    root: Path
    bundle: Path
    told: dict[str, Any]
    built: dict[str, Any]


@contextmanager
def bundled(folder: Path, docker: Docker, *, python: bool) -> Iterator[Bundled]:
    root, target = bundled_row.repository(folder / "repository", python=python), folder / "rows.bundle"
    built = build_py(root, "build", "--json", environ=os.environ)
    assert built.returncode == 0, built.stderr
    (record,) = json.loads(built.stdout)["records"]
    try:
        made = build_py(root, "bundle", "--to", target, "--json", environ=os.environ)
        assert made.returncode == 0, made.stderr
        assert engine.inspect(docker, record["image"]["reference"])["Id"] == record["image"]["id"]  # type: ignore[index]
        yield Bundled(root=root, bundle=target, told=json.loads(made.stdout), built=record)
    finally:
        forget(docker, record["image"]["reference"])


@pytest.fixture(scope="module")
def small(docker: Docker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bundled]:
    with bundled(tmp_path_factory.mktemp("bundle"), docker, python=False) as made:
        yield made


@pytest.fixture(scope="module")
def apart(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cut, OwnEngine]]:
    """An engine that has no image, in a namespace without a route."""
    folder = tmp_path_factory.mktemp("e")
    with (
        bundled_row.cut_off(runner) as cut,
        own_engine(folder, {}, runner, network=cut.words) as own,
    ):
        yield cut, own


def build(
    apart: tuple[Cut, OwnEngine], small: Bundled, bundle: Path, out: Path
) -> subprocess.CompletedProcess[str]:
    cut, own = apart
    words = ("--out", out, "build", "--from-bundle", bundle, "--json")
    return build_py(small.root, *words, environ=own.environ, within=cut.words)


def require_same(small: Bundled, done: subprocess.CompletedProcess[str]) -> None:
    """The image is the one that was built with the network, to its id."""
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)["records"]
    layers = [[layer["digest"] for layer in told["layers"]] for told in (record, small.built)]
    assert layers[0] == layers[1] and len(layers[0]) > 1
    assert record["image"]["id"] == small.built["image"]["id"]
    assert f"all {len(small.told['rows'][0]['layers'])} layers have the digests" in done.stderr
    assert dict(record["tools"])["bundle"] == small.told["manifest"]


@pytest.mark.long
def test_without_a_route_the_image_is_the_same(
    small: Bundled, apart: tuple[Cut, OwnEngine], tmp_path: Path
) -> None:
    require_same(small, build(apart, small, small.bundle, tmp_path / "out"))
    assert small.told["members"]["packages"]["files"] > 3


@pytest.mark.long
def test_without_one_of_its_packages_it_reports_which(
    small: Bundled, apart: tuple[Cut, OwnEngine], tmp_path: Path
) -> None:
    """A whole bundle, by its own manifest, that somebody made smaller."""
    less = tmp_path / "less"
    with zipfile.ZipFile(small.bundle) as archive:
        archive.extractall(less)
    (package,) = less.rglob("patch_*.deb")
    package.unlink()
    (less / "manifest.json").unlink()
    whole = file.read(small.bundle).manifest
    file.write(tmp_path / "less.bundle", replace(whole, members=file.members(less)), less)
    done = build(apart, small, tmp_path / "less.bundle", tmp_path / "out")
    assert done.returncode == BundleError.exit_code
    assert package.name in done.stderr and "which the bundle lacks" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_of_another_key_nothing_is_built(
    small: Bundled, apart: tuple[Cut, OwnEngine], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(small.root, other, symlinks=True, ignore=shutil.ignore_patterns("out"))
    template = other / "dockerfiles" / "Dockerfile.j2"
    template.write_text(template.read_text() + "\n# a comment\n")
    done = build(apart, replace(small, root=other), small.bundle, tmp_path / "out")
    assert done.returncode == BundleError.exit_code
    assert "and the row has the key" in done.stderr


@pytest.mark.nightly
def test_a_base_that_brings_names_is_refused(
    small: Bundled, apart: tuple[Cut, OwnEngine], runner: Runner, docker: Docker, tmp_path: Path
) -> None:
    """An archive with tags would let them lead to its own images from then on."""
    changed = tmp_path / "changed"
    with zipfile.ZipFile(small.bundle) as archive:
        archive.extractall(changed)
    (changed / "manifest.json").unlink()
    whole = file.read(small.bundle).manifest
    (base,) = whole.rows[0].bases
    engine.save(docker, runner, base.name, changed / base.path)
    file.write(tmp_path / "changed.bundle", replace(whole, members=file.members(changed)), changed)
    with own_engine_apart(apart[0], runner, tmp_path) as own:
        done = build((apart[0], own), small, tmp_path / "changed.bundle", tmp_path / "out")
        assert done.returncode == BundleError.exit_code
        assert "would give names to images of the engine" in done.stderr
        assert engine.inspect(own.docker, base.name) is None


@contextmanager
def own_engine_apart(cut: Cut, runner: Runner, folder: Path) -> Iterator[OwnEngine]:
    (folder / "e").mkdir()
    with own_engine(folder / "e", {}, runner, network=cut.words) as own:
        yield own


@pytest.mark.nightly
def test_a_wheel_and_a_source_come_from_it_as_well(
    apart: tuple[Cut, OwnEngine], docker: Docker, tmp_path: Path
) -> None:
    with bundled(tmp_path, docker, python=True) as made:
        kinds = {member.path.rpartition(".")[2] for member in file.read(made.bundle).manifest.members}
        assert {"deb", "whl", "gz", "tar"} <= kinds
        require_same(made, build(apart, made, made.bundle, tmp_path / "apart"))
