"""The nvidia provider: what is known of an Ubuntu, what is rendered for it, where its images come from."""

from __future__ import annotations

import hashlib
import lzma
import re
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rows import ROOT, SERIES, SOURCES

from stackwright.core.checks.tables import declared, static
from stackwright.core.config.change import changes
from stackwright.core.config.setting import Question
from stackwright.core.errors import LockError, SiteError
from stackwright.core.model.row import Flavour, Package, Stack
from stackwright.core.model.site import Mirror, Site
from stackwright.core.render import dockerfile as render
from stackwright.core.resolve import lockfile
from stackwright.core.resolve.bases import NVCC, PROVIDERS
from stackwright.core.resolve.explain import explain
from stackwright.core.resolve.requirements import distribution_packages
from stackwright.core.resolve.resolve import resolve
from stackwright.engines import docker
from stackwright.engines.bases import nvidia
from stackwright.engines.bases.table import ENSURE
from stackwright.engines.bases.tools import BaseTools
from stackwright.host.project import Project, cells
from stackwright.host.runner import Completed
from stackwright.host.upstream import mirror as suite
from stackwright.host.upstream.states import STATE

PROJECT = Project(root=ROOT, matrix=ROOT / "matrix.nvidia.yaml", out=ROOT / "out")
ROWS = {cell.id: cell for cell in cells(PROJECT)}
MIRROR = "http://mirror.example/ubuntu"
NAMES = distribution_packages(ROWS["cuda11-ubuntu"])


def stack(row: str, **values: Any) -> Stack:
    found = resolve(ROWS[row], lockfile.read(PROJECT.lock_path(ROWS[row])), SERIES)
    assert isinstance(found, Stack), found
    return replace(found, **values)


def dockerfile(row: str, **values: Any) -> str:
    return render.render(stack(row, **values), SOURCES).text("Dockerfile")


# -- what is known ---------------------------------------------------------------------------------


def test_without_a_mirror_the_tables_say_what_they_know_and_no_more() -> None:
    found = STATE["nvidia"](ROWS["cuda11-ubuntu"], NAMES, None)
    assert (found.os, found.suite, found.release, found.date, found.digest) == (
        "ubuntu-20.04", "focal", "20.04", "", "",
    )  # fmt: skip
    assert {package.name: package.version for package in found.packages} == {
        "gcc-9": "9", "libc6": "2.31", "nvidia-cuda-image": "11.8.0", "openmpi-bin": "4.0.3",
        "python3.9": "3.9",
    }  # fmt: skip


def served(versions: dict[str, dict[str, str]], release_date: str = "Fri, 20 Nov 2026 08:00:00 UTC") -> Any:
    """A mirror: suite -> package -> version. All of it is in main."""
    files: dict[str, bytes] = {}
    for name, packages in versions.items():
        lines = [f" {'0' * 64} 0 nothing"]
        for component in ("main", "universe"):
            listed = packages if component == "main" else {}
            text = "".join(
                f"Package: {package}\nVersion: {version}\n\n" for package, version in listed.items()
            )
            packed = lzma.compress(text.encode())
            files[f"{name}/{component}/binary-amd64/Packages.xz"] = packed
            digest = hashlib.sha256(packed).hexdigest()
            lines.append(f" {digest} {len(packed)} {component}/binary-amd64/Packages.xz")
        head = f"Suite: {name}\nDate: {release_date}\nSHA256:\n"
        files[f"{name}/InRelease"] = (head + "\n".join(lines) + "\n").encode()
    return lambda url: files[url.removeprefix(f"{MIRROR}/dists/")]


def test_a_mirror_tells_the_versions_of_the_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    first = {
        "gcc-9": "9.3.0-10ubuntu2", "libc6": "2.31-0ubuntu9", "openmpi-bin": "4.0.3-0ubuntu1",
        "python3.9": "3.9.5-3ubuntu0~20.04.1",
    }  # fmt: skip
    later = {"gcc-9": "9.4.0-1ubuntu1~20.04.2"}
    mirror = served({"focal": first, "focal-security": {}, "focal-updates": later})
    monkeypatch.setattr(suite, "fetch", mirror)
    found = STATE["nvidia"](ROWS["cuda11-ubuntu"], NAMES, Mirror(address=MIRROR))
    known = {package.name: package.version for package in found.packages}
    assert known == {**first, **later, "nvidia-cuda-image": "11.8.0"}
    assert (found.date, len(found.digest)) == ("20261120T080000Z", 64)


def test_a_package_that_no_suite_of_the_mirror_has_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "fetch", served({"focal": {}, "focal-security": {}, "focal-updates": {}}))
    with pytest.raises(LockError, match="focal has no package gcc-9"):
        STATE["nvidia"](ROWS["cuda11-ubuntu"], NAMES, Mirror(address=MIRROR))


@pytest.mark.parametrize(
    ("locked", "found", "right"),
    [("9", "9.4.0-1ubuntu1~20.04.2", True), ("9.4.0-1", "9.4.0-1ubuntu1~20.04.2", True),
     ("9.3.0-1", "9.4.0-1ubuntu1~20.04.2", False), ("9", "10.1.0-1", False)],
)  # fmt: skip
def test_a_package_is_compared_as_exactly_as_it_is_known(locked: str, found: str, right: bool) -> None:
    row = stack("cuda11-ubuntu")
    row = replace(row, base=replace(row.base, packages=(Package(name="gcc-9", version=locked),)))
    finding = declared.distribution(row, {"system": {"distribution_packages": {"gcc-9": found}}})
    assert (not finding.problems) is right


def test_the_pip_of_a_lock_is_looked_for_in_the_image() -> None:
    row = stack("cuda11-ubuntu")
    packages = {package.name: package.version for package in row.lock.packages}
    assert not declared.packages(row, {"system": {"python_packages": packages}}).problems
    old = {**packages, "pip": "20.0.2"}
    (problem,) = declared.packages(row, {"system": {"python_packages": old}}).problems
    assert problem.startswith("pip is 20.0.2")


def test_ucx_is_missed_only_where_the_distribution_has_it() -> None:
    fabric = {"ibverbs": True, "providers": ["libmlx5-rdmav34.so"], "ucx": [], "drivers": ["mlx5"]}
    facts = {"system": {"fabric": fabric}}
    assert not static.rdma(stack("cuda11-ubuntu"), facts).problems
    assert static.rdma(stack("cuda12-ubuntu"), facts).problems


# -- what is rendered ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "base", "cuda"),
    [("cuda11-ubuntu", "ubuntu:20.04", "nvidia/cuda:11.8.0-devel-ubuntu20.04"),
     ("cuda12-jammy", "ubuntu:22.04", "nvidia/cuda:12.8.1-devel-ubuntu22.04"),
     ("cuda13-ubuntu", "ubuntu:24.04", "nvidia/cuda:13.0.2-devel-ubuntu24.04")],
)  # fmt: skip
def test_both_images_are_of_one_ubuntu(row: str, base: str, cuda: str) -> None:
    text = dockerfile(row)
    assert f"ARG BASE_IMAGE={base}\n" in text
    assert f"ARG CUDA_IMAGE={cuda}\n" in text


def test_nothing_but_the_compilers_folder_is_taken_of_nvidias_image() -> None:
    text = dockerfile("cuda12-ubuntu")
    assert re.findall(r".*(?:FROM|from)[ =](?:cuda|\$\{CUDA_IMAGE\}).*", text) == [
        "FROM ${CUDA_IMAGE} AS cuda",
        "COPY --link --from=cuda /usr/local/cuda-12.8 /usr/local/cuda",
    ]
    assert "CUDA_HOME=/usr/local/cuda " in text
    assert "nvidia-cuda-toolkit" not in text
    assert "non-free" not in text


def test_nvcc_is_on_the_path_of_a_devel_image_alone() -> None:
    assert "PATH=/opt/stack/bin:$PATH" in dockerfile("cuda12-ubuntu")
    assert "PATH=/opt/stack/bin:/usr/local/cuda/bin:$PATH" in dockerfile(
        "cuda12-ubuntu", flavour=Flavour.DEVEL
    )


@pytest.mark.parametrize(
    ("row", "own"),
    [
        ("cuda11-ubuntu", "/etc/apt/sources.list"),
        ("cuda12-ubuntu", "/etc/apt/sources.list.d/ubuntu.sources"),
    ],
)
def test_the_sites_sources_take_the_place_of_the_images_own_and_the_public_ones_are_shipped(
    row: str, own: str
) -> None:
    text = dockerfile(row)
    assert set(re.findall(r"id=apt-sources,target=(\S+)", text)) == {own}
    assert f"install -D --mode=644 /tmp/image/sources {own};" in text


def test_a_python_that_is_not_the_distributions_own_has_packages_of_its_own_name() -> None:
    text = dockerfile("cuda11-ubuntu")
    assert {"python3.9", "python3.9-venv", "python3.9-dev"} <= set(
        re.findall(r"^ +(python\S+?);? ", text, re.M)
    )
    assert "python3.9 -m venv /opt/stack" in text
    assert "python3 -m venv /opt/stack" in dockerfile("cuda12-ubuntu")


@pytest.mark.parametrize(("row", "own"), [("cuda11-ubuntu", True), ("cuda12-jammy", False)])
def test_an_old_pip_is_replaced_by_a_locked_one_first(row: str, own: bool) -> None:
    assert (stack(row).lock.version("pip") is not None) is own
    assert ("/tmp/pip.txt" in dockerfile(row)) is own
    assert ("ucx-utils" in dockerfile(row)) is not own


# -- the oldest row --------------------------------------------------------------------------------


def test_the_nearest_form_of_the_oldest_row_is_what_explain_says() -> None:
    oldest, near = ROWS["oldest"], ROWS["oldest-nearest"]
    way = explain(oldest, Question(cell=oldest), None).ways[0].changes
    assert changes(oldest, near) == way
    assert "gcc 7 instead of 4.9" in way


def test_a_gcc_before_5_is_named_by_two_numbers() -> None:
    assert "gcc-4.9" in distribution_packages(ROWS["oldest"])
    assert "HOST_CC=gcc-4.9 HOST_CXX=g++-4.9" in dockerfile("oldest-nearest", gcc="4.9.3")


# -- the images ------------------------------------------------------------------------------------


class Engine:
    """Has some images, and pulls others from a registry that has them all, or that is not reached."""

    def __init__(self, *there: str, registry: bool = True) -> None:
        self.there, self.registry = set(there), registry
        self.docker = SimpleNamespace(command=lambda *words: ("docker", *words))
        self.pulled: list[str] = []
        self.said: list[str] = []

    def __call__(self, argv: Sequence[str], **_: Any) -> Completed:
        assert tuple(argv[:2]) == ("docker", "pull")
        self.pulled.append(argv[-1])
        error = "" if self.registry else "Error response from daemon\nno such host\n"
        return Completed(argv=tuple(argv), returncode=int(not self.registry), stdout="", stderr=error)

    def means(self) -> BaseTools:
        site = Site(mirror=None, ca=None, pip=(), proxies=())
        return BaseTools(
            docker=cast("Any", self.docker), runner=cast("Any", self), site=site, say=self.said.append
        )


@pytest.fixture
def has(monkeypatch: pytest.MonkeyPatch) -> Any:
    def engine(*there: str, registry: bool = True) -> Engine:
        made = Engine(*there, registry=registry)
        monkeypatch.setattr(nvidia, "image_exists", lambda _, name: name in made.there)
        return made

    return engine


UBUNTU, CUDA = "ubuntu:24.04", "nvidia/cuda:12.8.1-devel-ubuntu24.04"


def test_what_the_engine_has_is_taken_and_the_rest_is_pulled(has: Any) -> None:
    engine = has(UBUNTU)
    images = ENSURE["nvidia"](stack("cuda12-ubuntu"), engine.means())
    assert images == (("BASE_IMAGE", UBUNTU), ("CUDA_IMAGE", CUDA))
    assert engine.pulled == [CUDA]
    assert CUDA in engine.said[0]


def test_where_no_registry_is_reached_the_error_says_how_to_hand_an_image_in(has: Any) -> None:
    with pytest.raises(SiteError) as caught:
        ENSURE["nvidia"](stack("cuda12-ubuntu"), has(UBUNTU, registry=False).means())
    assert caught.value.place == CUDA
    assert caught.value.cause.endswith("no such host")
    assert f"docker tag YOUR_IMAGE {CUDA}" in caught.value.hint
    assert caught.value.exit_code == 11


@pytest.mark.parametrize(
    ("known", "noted"),
    [
        ({"RepoDigests": ["ubuntu@sha256:" + "0" * 64]}, "ubuntu:24.04@sha256:" + "0" * 64),
        ({"RepoDigests": []}, UBUNTU),
        (None, UBUNTU),
    ],
)
def test_the_base_is_noted_with_the_digest_that_a_registry_knows_it_by(
    known: dict[str, Any] | None, noted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker, "inspect", lambda *_: known)
    assert docker.with_digest(cast("Any", None), UBUNTU) == noted


def test_a_row_that_names_no_cuda_is_told_which_there_are() -> None:
    answer = resolve(replace(ROWS["cuda12-ubuntu"], cuda=None), None, SERIES)
    assert not isinstance(answer, Stack)
    assert answer.rule == "nvidia-image"
    assert "names no release of CUDA" in answer.reason


def test_a_row_keeps_the_nvcc_of_its_lock_when_the_table_moves_on() -> None:
    row = stack("cuda13-ubuntu")
    moved = tuple(
        replace(package, version="13.0.1") if package.name == NVCC else package
        for package in row.base.packages
    )
    assert PROVIDERS["nvidia"].images(replace(row, base=replace(row.base, packages=moved)))[1][1] == (
        "nvidia/cuda:13.0.1-devel-ubuntu24.04"
    )
