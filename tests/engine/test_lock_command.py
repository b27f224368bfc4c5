"""`build.py lock` against a package index on loopback: what it cannot find ends with an error."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import small_project
from command import call
from hostile_wheels import wheel
from upstream_server import UpstreamServer

from stackwright.core.resolve import lockfile
from stackwright.host.project import Project, cells
from stackwright.host.runner import Runner
from stackwright.host.site import settings
from stackwright.nightly.upstream import Upstream, fresh_locks


def test_a_version_that_does_not_exist_is_an_error_and_the_other_rows_are_locked(
    upstream: UpstreamServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_project.write_matrix(tmp_path, {"small-a": ""})
    path = tmp_path / "matrix.yaml"
    path.write_text(path.read_text() + '  - id: small-b\n    torch: "99.0"\n')
    code, out, err = call(capsys, "--matrix", str(path), "lock", "--format", "json")
    assert code == 5
    assert "error: small-b (matrix.yaml:" in err
    assert "torch" in err.partition("error: small-b")[2].partition("next: ")[0]
    assert f"./build.py --matrix {path} plan small-b" in err.partition("next: ")[2]
    assert '"small-a"' in out
    assert lockfile.read(tmp_path / "locks" / "small-a.txt").refused == ""
    assert lockfile.read(tmp_path / "locks" / "small-b.txt").refused


def project(folder: Path, pip: str) -> Path:
    small_project.write_matrix(folder, {"small-a": ""})
    path = folder / "matrix.yaml"
    path.write_text(path.read_text() + f"    pip: {pip}\n")
    return path


def test_additions_are_locked_together_with_the_frameworks(
    upstream: UpstreamServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upstream.package("thing", "1.5", ("helper>=1", "numpy", "packaging"))
    upstream.package("helper", "2.0")
    plain = tmp_path / "plain"
    plain.mkdir()
    small_project.write_matrix(plain, {"small-a": ""})
    assert call(capsys, "--matrix", str(plain / "matrix.yaml"), "lock")[0] == 0
    alone = lockfile.read(plain / "locks" / "small-a.txt")
    code, _, err = call(capsys, "--matrix", str(project(tmp_path, '["thing>=1"]')), "lock")
    assert code == 0, err
    found = lockfile.read(tmp_path / "locks" / "small-a.txt")
    assert [(package.name, package.version) for package in found.added] == [
        ("helper", "2.0"),
        ("thing", "1.5"),
    ]
    assert dict(found.asked_by) == {"helper": ("thing",)}
    assert lockfile.pins(found) == lockfile.pins(alone) and lockfile.added_pins(alone) == ""
    assert lockfile.added_pins(found).count("--hash=sha256:") == 2
    rows = cells(Project(root=tmp_path, matrix=tmp_path / "matrix.yaml", out=tmp_path / "out"))
    plain_row = replace(rows[0], id="plain", pip=())
    site = settings.site(Runner())
    night = Upstream(site=site, runner=Runner(), kept=tmp_path / "kept", digest=str)
    answers = fresh_locks(night, (*rows, plain_row))
    assert answers["small-a"] == found, "a night asks the same"
    assert getattr(answers["plain"], "packages", ()) == alone.packages


@pytest.fixture
def extra(upstream: UpstreamServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[UpstreamServer]:
    """A second index, whose address has a login in it."""
    server = UpstreamServer()
    server.start()
    address = server.address.replace("://", "://ci:xK39fjDk20fkQ@")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{address}/simple")
    yield server
    server.stop()


CONFUSED = {
    "ours-of-a-stranger": ("[{name: gone, index: extra}]", "gone", "no extra index of the site has gone"),
    "public-name-of-ours": ("[thing]", "thing", "write {name: thing, index: extra}"),
}
"""Only a public index has the first name; an extra one has the second as well."""


@pytest.mark.long
def test_a_name_of_two_indexes_is_of_the_one_that_the_row_says(
    upstream: UpstreamServer, extra: UpstreamServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Dependency confusion, both ways. A login of an index is in no lock and in no message."""
    for server, version in ((upstream, "99.0"), (extra, "1.0+cu124")):
        server.package("ours", version)
        server.package("thing", version)
    upstream.package("gone", "99.0")
    small_project.write_matrix(tmp_path, {"small-a": ""})
    path = tmp_path / "matrix.yaml"
    rows = "".join(f"  - id: {row}\n    pip: {pip}\n" for row, (pip, _, _) in CONFUSED.items())
    path.write_text(path.read_text() + "    pip: [{name: ours, index: extra}]\n" + rows)
    code, out, err = call(capsys, "--matrix", str(path), "lock")
    assert code == 5
    found = lockfile.read(tmp_path / "locks" / "small-a.txt")
    assert [(package.name, package.version) for package in found.added] == [("ours", "1.0+cu124")]
    assert found.extra == ("ours",) and lockfile.added_pins(found).count("--hash=sha256:") == 1
    code, plan, more = call(capsys, "--matrix", str(path), "plan")
    told = " ".join(f"{plan} {more}".split())
    for row, (_, who, why) in CONFUSED.items():
        assert row in told and who in told and why in told, told
    assert "pip-index" in told and "small-a" in told
    texts = [path.read_text() for path in (tmp_path / "locks").iterdir()]
    assert not any(
        "xK39fjDk20fkQ" in text or extra.address in text for text in (out, err, plan, more, *texts)
    )


def test_a_wheel_of_the_folder_is_that_very_file(
    upstream: UpstreamServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the index has under its name: a newer version, and other content of the same one."""
    file, content = wheel("ours", {"ours/__init__.py": b""}, "1.0+cu124")
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / file).write_bytes(content)
    for version in ("99.0", "1.0+cu124"):
        upstream.package("ours", version)
    path = project(tmp_path, "[ours]\n    wheels: dist")
    code, _, err = call(capsys, "--matrix", str(path), "lock")
    assert code == 0, err
    found = lockfile.read(tmp_path / "locks" / "small-a.txt")
    digest = hashlib.sha256(content).hexdigest()
    assert lockfile.added_pins(found) == f"ours==1.0+cu124 \\\n    --hash=sha256:{digest}\n"
    code, out, _ = call(capsys, "--matrix", str(path), "plan")
    assert code == 0 and file in out.replace("\n", "").replace(" ", "")
    (tmp_path / "dist" / file).write_bytes(wheel("ours", {"ours/__init__.py": b"1"}, "1.0+cu124")[1])
    code, out, _ = call(capsys, "--matrix", str(path), "plan")
    assert code == 4 and "changed after it was locked" in " ".join(out.split())
    (tmp_path / "dist" / file).unlink()
    (tmp_path / "dist" / "numpy-2.2.3-py3-none-any.whl").write_bytes(wheel("numpy", {}, "2.2.3")[1])
    path.write_text(path.read_text().replace("[ours]", "[numpy]"))
    code, _, err = call(capsys, "--matrix", str(path), "lock")
    assert code == 5 and "pip-wheels" in err and "frameworks bring numpy" in err


def test_an_addition_that_moves_numpy_is_told_by_plan(
    upstream: UpstreamServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upstream.package("numpy", "2.1.0")
    upstream.package("older", "1.0", ("numpy<2.2",))
    path = project(tmp_path, "[older]")
    assert call(capsys, "--matrix", str(path), "lock")[0] == 0
    code, out, err = call(capsys, "--matrix", str(path), "plan")
    told = " ".join(f"{out} {err}".split())
    assert code == 0 and "small-a: warning: pip-shared" in told
    assert "numpy is 2.1.0 instead of 2.2.3" in told


HOSTILE = {
    "torch-pinned-elsewhere": ("[wants-torch]", "wants-torch", "torch==2.7.0"),
    "second-nccl": ("[wants-nccl]", "wants-nccl → nvidia-nccl-cu13", "a second nccl"),
    "second-cuda": ("[wants-cuda]", "wants-cuda → between → nvidia-cuda-runtime", "a second cuda-runtime"),
    "numpy-1-for-a-torch-that-needs-2": ('["numpy<2"]', "numpy<2", "numpy>=2"),
    "no-wheel": ("[only-source]", "only-source", "only wheels are installed"),
    "no-such-package": ("[no-such-package]", "no-such-package", "was not found"),
    "package-of-a-field": ('["nvidia-nccl-cu12==2.27.7"]', "nvidia-nccl-cu12", "field nccl"),
}
"""By row: what it adds, who asks for what is refused, and why."""


def hostile(upstream: UpstreamServer) -> None:
    upstream.package("torch", "2.7.0")
    upstream.files["/simple/torch/"] = b"<!DOCTYPE html>\n"
    requires = ("nvidia-cuda-runtime-cu12==12.4.127", "nvidia-cudnn-cu12==9.1.0.70", "numpy>=2",
                "nvidia-nccl-cu12==2.21.5")  # fmt: skip
    upstream.package("torch", "2.6.0", requires)
    upstream.package("torch", "2.7.0", requires)
    upstream.package("numpy", "1.26.4")
    upstream.package("wants-torch", "1.0", ("torch==2.7.0",))
    upstream.package("wants-nccl", "1.0", ("nvidia-nccl-cu13",))
    upstream.package("nvidia-nccl-cu13", "2.29.7")
    upstream.package("wants-cuda", "1.0", ("between",))
    upstream.package("between", "1.0", ("nvidia-cuda-runtime",))
    upstream.package("nvidia-cuda-runtime", "13.0.96")
    upstream.files["/simple/only-source/"] = (
        b'<!DOCTYPE html>\n<a href="/files/only-source-1.0.tar.gz#sha256=' + b"0" * 64 + b'">'
        b"only-source-1.0.tar.gz</a><br>\n"
    )


@pytest.mark.long
def test_hostile_additions_are_refused_by_name(
    upstream: UpstreamServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile(upstream)
    small_project.write_matrix(tmp_path, {})
    path = tmp_path / "matrix.yaml"
    rows = "".join(f"  - id: {row}\n    pip: {pip}\n" for row, (pip, _, _) in HOSTILE.items())
    path.write_text(path.read_text() + rows)
    code, _, err = call(capsys, "--matrix", str(path), "lock")
    assert code == 5
    told = " ".join(err.split())
    for row, (_, who, why) in HOSTILE.items():
        said = max(told.split(f" {row}: ")[1:], key=len).partition(": asking for ")[0]
        assert who in said and why in said, (row, said)
    code, out, _ = call(capsys, "--matrix", str(path), "plan")
    assert code == 5
    assert all(row in out for row in HOSTILE) and "pip-second" in out and "resolver" in out


PROJECT = '[build-system]\nrequires = ["setuptools", "maker>=1"]\n'
METADATA = "Metadata-Version: 2.2\nName: fast-op\nVersion: 1.5\nRequires-Dist: helper\nRequires-Dist: numpy\n"
RUNS = "raise SystemExit(open('/tmp/fast-op-was-run', 'w'))\n"


def test_what_is_compiled_is_locked_by_its_source_and_nothing_of_it_is_run(
    upstream: UpstreamServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upstream.source("fast-op", "1.5", {"PKG-INFO": METADATA, "pyproject.toml": PROJECT, "setup.py": RUNS})
    upstream.package("fast-op", "2.0")
    for name in ("helper", "maker", "of-maker"):
        upstream.package(name, "1.0", ("of-maker",) if name == "maker" else ())
    path = project(tmp_path, "[]\n    compile: [fast-op]")
    code, _, err = call(capsys, "--matrix", str(path), "lock")
    assert code == 0, err
    found = lockfile.read(tmp_path / "locks" / "small-a.txt")
    assert [f"{package.name} {package.version}" for package in found.compiled] == ["fast-op 1.5"], (
        "2.0 has no source"
    )
    assert [package.name for package in found.added] == ["helper"]
    assert [builder.name for builder in found.builders] == ["maker", "of-maker"]
    assert not Path("/tmp/fast-op-was-run").exists()
    (row,) = cells(Project(root=tmp_path, matrix=path, out=tmp_path / "out"))
    night = Upstream(site=settings.site(Runner()), runner=Runner(), kept=tmp_path / "kept", digest=str)
    assert fresh_locks(night, (row,))["small-a"] == found, "a night asks the same"


COMPILED = {
    "no-source": ("helper", "helper has no source on the index"),
    "builder-moves-numpy": ("wants-numpy", "cannot be compiled with its packages, which needs numpy<2"),
    "runs-with-a-second-nccl": ("wants-nccl", "a second nccl: wants-nccl → nvidia-nccl-cu13"),
    "not-a-source": ("broken", "the source of broken 1.0 cannot be read"),
    "not-what-was-named": ("changed", "is not the file that the index names: its sha256 differs"),
}


@pytest.mark.long
def test_what_cannot_be_compiled_is_refused_by_name(
    upstream: UpstreamServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("helper", "nvidia-nccl-cu13"):
        upstream.package(name, "2.29.7")
    upstream.package("numpy", "1.26.4")
    none = '[build-system]\nrequires = ["setuptools"]\n'
    legacy = '[build-system]\nrequires = ["numpy<2"]\n'
    upstream.source("wants-numpy", "1.0", {"PKG-INFO": "", "pyproject.toml": legacy})
    upstream.source(
        "wants-nccl", "1.0", {"PKG-INFO": "Requires-Dist: nvidia-nccl-cu13\n", "pyproject.toml": none}
    )
    upstream.source("broken", "1.0", {"pyproject.toml": "[build-system"})
    upstream.source("changed", "1.0", {"PKG-INFO": ""})
    upstream.files["/files/changed-1.0.tar.gz"] += b"more"
    small_project.write_matrix(tmp_path, {})
    path = tmp_path / "matrix.yaml"
    rows = "".join(f"  - id: {row}\n    compile: [{name}]\n" for row, (name, _) in COMPILED.items())
    path.write_text(path.read_text() + rows)
    code, _, err = call(capsys, "--matrix", str(path), "lock")
    assert code
    told = " ".join(err.split())
    for row, (_, why) in COMPILED.items():
        said = max(told.split(f" {row}: ")[1:], key=len).partition(": asking for ")[0]
        assert why in said, (row, said)
