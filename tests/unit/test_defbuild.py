"""How a native apptainer is started, what it is given of the site, and how its failure is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rows import SOURCES, stack

from stackwright.build.sif import from_definition
from stackwright.core.errors import BuildError, SiteError
from stackwright.core.model.row import Base, Package
from stackwright.core.model.site import Site
from stackwright.core.render.definition import render_definition
from stackwright.engines.apptainer import Apptainer
from stackwright.host.runner import Completed, Runner

SITE = Site(
    mirror="http://mirror.site/debian", ca=None, pip=(("index-url", "http://index.site/simple"),), proxies=()
)
NOWHERE = Site(mirror=None, ca=None, pip=(), proxies=())


class Recorder(Runner):
    """Answers for every program, and remembers what it was asked."""

    def __init__(self, code: int = 0, said: str = "") -> None:
        super().__init__()
        self.code, self.said = code, said
        self.calls: list[tuple[list[str], Path | None, Mapping[str, str]]] = []

    def __call__(self, argv: Sequence[str | Path], **options: Any) -> Completed:
        words = [str(word) for word in argv]
        self.calls.append((words, options.get("cwd"), options.get("env") or {}))
        return Completed(argv=tuple(words), returncode=self.code, stdout="", stderr=self.said)


def build(runner: Recorder, target: Path, site: Site = NOWHERE, **values: Any) -> None:
    row = stack(**values)
    native = Apptainer(program=Path("/usr/bin/apptainer"), version="1.4.5", native=True, runner=runner)
    builder = from_definition.Builder(apptainer=native, runner=runner, docker=None, site=site)
    disk = from_definition.Disk(needs=1)
    with from_definition.built(row, render_definition(row, SOURCES), target, builder, disk):
        raise AssertionError("nothing was built")


def test_a_native_apptainer_is_started_in_the_folder_and_sees_it_as_mnt(tmp_path: Path) -> None:
    runner = Recorder(code=255, said="E: no such package\nFATAL:   While performing build: exit status 100\n")
    with pytest.raises(BuildError) as caught:
        build(runner, tmp_path / "x.sif", provider="nvidia", os="ubuntu-24.04", base=_ubuntu())
    (argv, cwd, environment) = runner.calls[-1]
    assert cwd
    assert argv[:4] == ["/usr/bin/apptainer", "build", "--fakeroot", "--bind"]
    assert argv[4] == f"{cwd}:/mnt"
    assert argv[-1] == "cuda12-torch.def"
    assert "--build-arg" not in argv, "without an engine Apptainer asks the registry"
    assert environment["APPTAINER_TMPDIR"] == str(cwd.parent)
    assert caught.value.cause == "E: no such package"
    assert [path.name for path in tmp_path.iterdir()] == ["x.log"]


def _ubuntu() -> Base:
    tag = (Package(name="nvidia-cuda-image", version="12.4.1"),)
    return Base(os="ubuntu-24.04", suite="noble", release="24.04", date="", digest="", packages=tag)


def test_the_site_is_in_files_that_only_the_builder_and_apt_read(tmp_path: Path) -> None:
    row, context = stack(), tmp_path / "context"
    (tmp_path / "bundle").write_text("CERTIFICATE")
    site = Site(mirror=SITE.mirror, ca=tmp_path / "bundle", pip=SITE.pip, proxies=())
    from_definition.lay_out(render_definition(row, SOURCES), context, site, row)
    assert (context / "ca").read_text() == "CERTIFICATE"
    assert "http://mirror.site/debian" in (context / "apt-sources").read_text()
    assert (context / "pip-conf").read_text() == "[global]\nindex-url = http://index.site/simple\n"
    modes = {name: (context / name).stat().st_mode & 0o777 for name in ("ca", "apt-sources", "pip-conf")}
    assert modes == {"ca": 0o644, "apt-sources": 0o600, "pip-conf": 0o600}
    assert "mirror.site" not in (context / "cuda12-torch.def").read_text()


def test_without_a_mirror_and_an_engine_there_is_no_base(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="no mirror"):
        build(Recorder(), tmp_path / "x.sif")
    assert list(tmp_path.iterdir()) == []
