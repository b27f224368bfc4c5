"""The file of a bundle: what is written is read again, and nothing else is taken for it."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stackwright.build.bundle import file, given, manifest, serve
from stackwright.build.bundle.given import compared
from stackwright.build.bundle.manifest import Base, BundledRow, Manifest
from stackwright.core.errors import BundleError, SiteError, UsageError
from stackwright.core.model.row import Recipe
from stackwright.engines.buildkit.mounts import identities
from stackwright.host.site import archives

KEY, OTHER = "ab" * 32, "cd" * 32
LAYER = "sha256:" + "0" * 64
DEB = "packages/debian/pool/main/p/patch/patch_2.8-2_amd64.deb"
WHEEL = "python/0/small/small-1.0+cu12-py3-none-any.whl"
FILES = {
    "base/stackwright-base-debian-13.tar": b"a base",
    "context/row/.dockerignore": b"*\n",
    "context/row/aws-ofi-nccl/one-1.tar.gz": b"a source",
    "context/row/patches/a.patch": b"--- a\n",
    DEB: b"a package",
    "packages/debian/dists/trixie/InRelease": b"signed",
    WHEEL: b"a wheel",
}


def made(folder: Path) -> Path:
    for path, content in FILES.items():
        (folder / "in" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "in" / path).write_bytes(content)
    base = Base(
        argument="BASE_IMAGE",
        name="stackwright/base:debian-13-1",
        path="base/stackwright-base-debian-13.tar",
        layers=(LAYER,),
    )
    row = BundledRow(row="row", key=KEY, bases=(base,), layers=(LAYER, LAYER), ca=True)
    whole = Manifest(rows=(row,), members=file.members(folder / "in"))
    file.write(folder / "rows.bundle", whole, folder / "in")
    return folder / "rows.bundle"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return made(tmp_path)


def rewritten(path: Path, change: Callable[[dict[str, bytes]], object]) -> Path:
    """The same archive with other members, and a manifest that is not adapted to them."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return path


# -- a whole one -----------------------------------------------------------------------------------


def test_what_was_written_is_read(bundle: Path) -> None:
    found = file.read(bundle)
    assert {member.path for member in found.manifest.members} == set(FILES)
    assert found.row("row", KEY).layers == (LAYER, LAYER)
    assert found.manifest.count("packages") == (2, len(b"a packagesigned"))
    for path, content in FILES.items():
        with found.opened(path) as member:
            assert member.read() == content


def test_the_same_members_make_the_same_bytes(bundle: Path, tmp_path: Path) -> None:
    again = made(tmp_path / "again")
    assert again.read_bytes() == bundle.read_bytes()


def test_the_digest_is_that_of_the_manifest(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        assert archive.namelist()[0] == manifest.NAME
        assert hashlib.sha256(archive.read(manifest.NAME)).hexdigest() == file.read(bundle).digest


def test_one_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(BundleError, match="cannot be written"):
        file.write(tmp_path / "taken" / "rows.bundle", Manifest(rows=(), members=()), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


# -- faults ----------------------------------------------------------------------------------------


def test_a_changed_byte_is_found_wherever_it_is(bundle: Path) -> None:
    """In a member, in its header and in the manifest: any byte of the file but the padding of the archive."""
    whole = bundle.read_bytes()
    for content in FILES.values():
        at = whole.index(content)
        bundle.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(BundleError, match=r"was changed|damaged|manifest"):
            file.read(bundle)
    bundle.write_bytes(whole)
    file.read(bundle)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda members: members.pop(WHEEL), f"it lacks {WHEEL}"),
        (lambda members: members.update({"packages/a/b": b"x"}), "'packages/a/b', which its manifest"),
        (lambda members: members.update({"../../etc/passwd": b"x"}), "which its manifest does not name"),
        (lambda members: members.update({WHEEL: b"another one"}), "another size"),
        (lambda members: members.update({WHEEL: b"A wheel"}), f"{WHEEL} was changed"),
        (lambda members: members.pop(manifest.NAME), "it has no manifest.json"),
        (lambda members: members.update({manifest.NAME: b"{"}), "its manifest is not one"),
    ],
)  # fmt: skip
def test_other_members_than_those_of_the_manifest(
    bundle: Path, change: Callable[[dict[str, bytes]], object], said: str
) -> None:
    with pytest.raises(BundleError) as error:
        file.read(rewritten(bundle, change))
    assert said in str(error.value)
    assert error.value.exit_code == 20 and error.value.hint


def _set(*where: Any, to: Any) -> Callable[[dict[str, Any]], object]:
    def change(document: dict[str, Any]) -> None:
        inner: Any = document
        for name in where[:-1]:
            inner = inner[name]
        inner[where[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_set("members", 0, "path", to="packages/../../etc/passwd"), "not a path in a bundle"),
        (_set("members", 0, "path", to="/etc/passwd"), "not a path in a bundle"),
        (_set("members", 0, "path", to="packages//x"), "not a path in a bundle"),
        (_set("members", 0, "path", to="packages/x\n"), "not a path in a bundle"),
        (_set("members", 0, "path", to="other/x"), "not a path in a bundle"),
        (_set("members", 0, "sha256", to="0" * 63), "members.0.sha256"),
        (_set("members", 0, "sha256", to="0" * 64 + "\n"), "members.0.sha256"),
        (_set("members", 0, "bytes", to=-1), "members.0.bytes"),
        (_set("rows", 0, "key", to="x"), "rows.0.key"),
        (_set("rows", 0, "row", to="../row"), "rows.0.row"),
        (_set("rows", 0, "bases", 0, "name", to="--help:1"), "rows.0.bases.0.name"),
        (_set("rows", 0, "bases", 0, "path", to="base/none.tar"), "is a base, and no member"),
        (_set("rows", to=[]), "it names no row"),
        (_set("version", to=2), "version"),
        (lambda document: document["rows"].append(document["rows"][0]), "the row row is in it twice"),
        (lambda document: document["members"].append(document["members"][0]), "is in it twice"),
    ],
)  # fmt: skip
def test_a_manifest_that_is_none(bundle: Path, change: Callable[[dict[str, Any]], object], said: str) -> None:
    document = json.loads(manifest.write(file.read(bundle).manifest))
    change(document)
    content = json.dumps(document).encode()
    with pytest.raises(BundleError) as error:
        file.read(rewritten(bundle, lambda members: members.update({manifest.NAME: content})))
    assert said in str(error.value)


def test_a_member_that_is_there_twice(bundle: Path) -> None:
    with zipfile.ZipFile(bundle, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(WHEEL, FILES[WHEEL])
    with pytest.raises(BundleError, match="twice"):
        file.read(bundle)


def test_members_that_are_packed(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(BundleError, match="is packed"):
        file.read(bundle)


@pytest.mark.parametrize("length", [0, 10, -1, -30])
def test_a_part_of_one(bundle: Path, length: int) -> None:
    bundle.write_bytes(bundle.read_bytes()[:length])
    with pytest.raises(BundleError, match="not a bundle, or a damaged one"):
        file.read(bundle)


def test_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        file.read(tmp_path / "none")


def test_another_row_and_another_key(bundle: Path) -> None:
    found = file.read(bundle)
    with pytest.raises(BundleError, match="it has no other; it has row"):
        found.row("other", KEY)
    with pytest.raises(BundleError, match="the key abababababab, and the row has the key cdcdcdcdcdcd here"):
        found.row("row", OTHER)


# -- small parts -----------------------------------------------------------------------------------


def recipe(archive: str) -> Recipe:
    return Recipe(id="row", key=KEY, files=(("aws-ofi-nccl/archive.txt", f"{archive} https://x 0".encode()),))


def test_archives_of_sources_come_out_of_it(bundle: Path, tmp_path: Path) -> None:
    whole = file.read(bundle)
    folder = given.sources(recipe("one-1.tar.gz"), whole, tmp_path)
    assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [("one-1.tar.gz", b"a source")]
    (tmp_path / "other").mkdir()
    with pytest.raises(BundleError, match=r"it lacks context/row/aws-ofi-nccl/two-1\.tar\.gz"):
        given.sources(recipe("two-1.tar.gz"), whole, tmp_path / "other")


def test_none_is_made_without_an_archive_of_a_source(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match=r"one-1\.tar\.gz is not in the site's folder of sources"):
        archives.place(recipe("one-1.tar.gz"), tmp_path, tmp_path / "context", all_of_them=True)


def test_layers_are_compared() -> None:
    assert compared(("a", "b"), ("a", "b")).startswith("all 2 layers have the digests")
    assert compared(("a", "c"), ("a", "b")).startswith("1 of 2 layers differ")
    assert "their order" in compared(("b", "a"), ("a", "b"))


def test_the_page_of_a_project_names_paths_that_come_back() -> None:
    said = serve.page([(WHEEL, KEY)]).decode()
    assert 'href="../../python/0/small/small-1.0%2Bcu12-py3-none-any.whl#sha256=' + KEY in said
    assert serve.project_of("simple/small/") == "small"
    assert [serve.project_of(path) for path in ("simple/small", "simple/a/b/", "small/")] == ["", "", ""]
    assert serve.is_of(WHEEL, "small") and not serve.is_of(WHEEL, "smal")


LISTED = """\
ID:		abc
Type:		exec.cachemount
Description:	cached mount /root/.cache/pip from exec /bin/bash -c export PIP=1

pip install with id "bundle-1/none" of its own
 with id "bundle-1/pip"

ID:		def*
Type:		exec.cachemount
Description:	cached mount /var/lib/apt from exec /bin/bash with id "/apt-lists"

ID:		ghi*
Type:		exec.cachemount
Description:	cached mount /var/lib/apt from exec /bin/bash with id "//bundle-1/apt"
"""


def test_the_folders_of_one_build_are_told_from_those_of_others() -> None:
    assert identities(LISTED, "bundle-1") == ("abc", "ghi")
    assert identities(LISTED, "bundle") == ()
