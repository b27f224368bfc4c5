"""The comparison of two SIFs' contents sees a difference of each kind, planted in real squashfs files."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bench import contents
from stackwright.engines import apptainer
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.host.site import settings

pytestmark = pytest.mark.engine


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    kind: bytes = tarfile.REGTYPE
    content: bytes = b"content"
    mode: int = 0o644
    owner: tuple[int, int] = (1, 2)
    link: str = ""
    device: tuple[int, int] = (0, 0)
    xattr: str = ""
    time: int = 1_000_000_000


LABELS = b'{"org.label-schema.build-date": "%b", "a": "%b"}'
BASE: Mapping[str, File] = {
    "folder": File(kind=tarfile.DIRTYPE, content=b"", mode=0o755),
    "folder/file": File(),
    "folder/with space\nand line break": File(content=b"\n#\nx R 0 644 0 0 1 0 0\n" * 1000),
    "folder/empty": File(content=b""),
    "folder/capable": File(xattr="one"),
    "folder/soft": File(kind=tarfile.SYMTYPE, content=b"", link="to a place"),
    "folder/zhard": File(kind=tarfile.LNKTYPE, content=b"", link="folder/file"),
    "null": File(kind=tarfile.CHRTYPE, content=b"", device=(1, 3)),
    "pipe": File(kind=tarfile.FIFOTYPE, content=b""),
    ".singularity.d/labels.json": File(content=LABELS % (b"today", b"b")),
    ".singularity.d/Singularity": File(content=b"bootstrap: docker-archive\nfrom: here.tar\n"),
}
FILE = BASE["folder/file"]
PLANTED: Mapping[str, tuple[str, File | None, str]] = {
    "a path that is not there": ("folder/empty", None, "path"),
    "a path that was not there": ("folder/new", FILE, "path"),
    "another mode": ("folder/file", replace(FILE, mode=0o755), "mode"),
    "a mode of a folder": ("folder", replace(BASE["folder"], mode=0o1755), "mode"),
    "another owner": ("folder/file", replace(FILE, owner=(3, 2)), "owner"),
    "another group": ("folder/file", replace(FILE, owner=(1, 3)), "owner"),
    "another kind": ("pipe", replace(BASE["pipe"], kind=tarfile.DIRTYPE), "kind"),
    "a link elsewhere": ("folder/soft", replace(BASE["folder/soft"], link="to another"), "link"),
    "a hard link elsewhere": ("folder/zhard", replace(BASE["folder/zhard"], link="folder/capable"), "link"),
    "another device": ("null", replace(BASE["null"], device=(1, 5)), "device"),
    "another attribute": ("folder/capable", replace(BASE["folder/capable"], xattr="two"), "xattr"),
    "no attribute": ("folder/capable", replace(BASE["folder/capable"], xattr=""), "xattr"),
    "other content of the same length": ("folder/file", replace(FILE, content=b"c0ntent"), "content"),
    "longer content": ("folder/file", replace(FILE, content=b"content\n"), "content"),
    "another time": ("folder/file", replace(FILE, time=1_000_000_001), "time"),
    "another label": (".singularity.d/labels.json", File(content=LABELS % (b"today", b"c")), "content"),
    "another bootstrap": (".singularity.d/Singularity", File(content=b"bootstrap: x\n"), "content"),
}
NO_DIFFERENCE: Mapping[str, tuple[str, File]] = {
    "the date": (".singularity.d/labels.json", File(content=LABELS % (b"tomorrow", b"b"))),
    "the origin": (".singularity.d/Singularity", File(content=b"bootstrap: docker-archive\nfrom: there\n")),
}


def squashfs(docker: Docker, files: Mapping[str, File]) -> dict[str, contents.Entry]:
    """The files written by sqfstar and read again; nothing stays on the disk."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, file in files.items():
            member = tarfile.TarInfo(name)
            member.type, member.mode, member.linkname, member.mtime = (
                file.kind,
                file.mode,
                file.link,
                file.time,
            )
            member.uid, member.gid = file.owner
            member.devmajor, member.devminor = file.device
            member.size = len(file.content) if member.isreg() else 0
            member.pax_headers = {"SCHILY.xattr.user.note": file.xattr} if file.xattr else {}
            tar.addfile(member, io.BytesIO(file.content))
    quiet = "-quiet -no-progress"
    script = f"sqfstar {quiet} -default-mode 755 /tmp/x >&2 && unsquashfs {quiet} -pf - /tmp/x"
    argv = docker.command("run", "--rm", "-i", "--network", "none", apptainer.IMAGE, "sh", "-c", script)
    done = subprocess.run(argv, input=content.getvalue(), capture_output=True, check=True)
    found = contents.read(io.BytesIO(done.stdout))
    return {
        path: replace(entry, time=0) if path in ("/", ".singularity.d") else entry
        for path, entry in found.items()
    }


@pytest.fixture(scope="module")
def base(runner: Runner, docker: Docker) -> dict[str, contents.Entry]:
    apptainer.find(runner, docker, mirror=settings.apt_mirror(runner))
    return squashfs(docker, BASE)


def test_everything_is_read(base: dict[str, contents.Entry]) -> None:
    assert set(base) == {"/", ".singularity.d", *BASE}
    assert base["folder/capable"].xattrs == {"user.note=one"}
    assert base["folder/soft"].link == "to a place"
    assert base["null"].device == "1 3"
    assert base["folder/file"].sha256 != base["folder/empty"].sha256


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_difference_is_seen(name: str, base: dict[str, contents.Entry], docker: Docker) -> None:
    path, file, what = PLANTED[name]
    changed = {**BASE, path: file} if file else {key: entry for key, entry in BASE.items() if key != path}
    found = list(contents.differences(base, squashfs(docker, changed)))
    assert [(difference.path, difference.what) for difference in found][:1] == [(path, what)]
    assert {difference.path for difference in found} == {path}


@pytest.mark.parametrize("name", NO_DIFFERENCE)
def test_what_each_conversion_has_of_its_own_is_none(
    name: str, base: dict[str, contents.Entry], docker: Docker
) -> None:
    path, file = NO_DIFFERENCE[name]
    assert list(contents.differences(base, squashfs(docker, {**BASE, path: file}))) == []


def test_an_empty_or_shortened_listing_is_no_content(docker: Docker) -> None:
    for listing in (b"", b"/ D 0 755 0 0\n", b"/ D 0 755 0 0\n#\n# START OF DATA - DO NOT MODIFY\n"[:-5]):
        with pytest.raises(ValueError, match=r"ends|read"):
            contents.read(io.BytesIO(listing))
    short = b"/ D 0 755 0 0\na R 0 644 0 0 5 0 0\n#\n# START OF DATA - DO NOT MODIFY\n#\n1234"
    with pytest.raises(ValueError, match="ends within a file"):
        contents.read(io.BytesIO(short))


def test_a_damaged_sif_is_an_error(tmp_path: Path, docker: Docker) -> None:
    (tmp_path / "x.sif").write_bytes(b"no SIF")
    with pytest.raises(Exception, match="no SIF"):
        contents.of_sif(docker, tmp_path / "x.sif")
