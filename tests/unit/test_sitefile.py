"""site.yaml: every key means a variable, and what is wrong is said with its line and the nearest key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from stackwright.core.errors import SiteError
from stackwright.core.model.labels import URL, VENDOR
from stackwright.core.model.site import RegistryAddress
from stackwright.host.project import Project, cells, plan
from stackwright.host.runner import Runner
from stackwright.host.site import file, settings

ROOT = Path(__file__).parents[2]
KEYS = (
    "mirrors",
    "index",
    "proxy",
    "ca",
    "registry",
    "signing_key",
    "cache",
    "labels",
    "sources",
    "builders",
)


def example() -> dict[str, Any]:
    """Every key, as the documentation writes it."""
    whole: dict[str, Any] = {}
    for keys, setting in file.SETTINGS.items():
        place = whole
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        place[keys[-1]] = yaml.safe_load(setting.example)
    return whole


def entered(text: str, folder: Path, **environ: str) -> dict[str, str]:
    (folder / "site.yaml").write_text(text)
    file.enter(folder / "site.yaml", environ)
    return environ


def test_every_key_of_the_issue_is_there_and_is_a_variable(tmp_path: Path) -> None:
    assert tuple(example()) == KEYS
    found = entered(yaml.safe_dump(example()), tmp_path)
    assert set(found) == {setting.variable for setting in file.SETTINGS.values()}
    assert found["no_proxy"] == ".example,localhost"
    assert found["STACKWRIGHT_REGISTRY_PLAIN"] == "1"


def test_it_comes_out_as_the_site(tmp_path: Path) -> None:
    for name in ("ca.pem", "registry.pem", "key.pem"):
        (tmp_path / name).write_text("x")
    (tmp_path / "sources").mkdir()
    whole = {**example(), "ca": "ca.pem", "signing_key": "key.pem", "sources": "sources"}
    whole["registry"]["ca"] = "registry.pem"
    site = settings.site(Runner(), entered(yaml.safe_dump(whole), tmp_path, PIP_CONFIG_FILE="/dev/null"))
    assert site.mirror == "http://mirror.example/debian" and site.ubuntu == "http://mirror.example/ubuntu"
    assert dict(site.pip)["index-url"] == "https://pypi.example/simple"
    assert dict(site.proxies)["https_proxy"] == "http://proxy.example:3128"
    assert site.ca == tmp_path / "ca.pem" and site.signing_key == tmp_path / "key.pem"
    assert site.registry == RegistryAddress(
        host="registry.example:5000", repository="hpc/images", ca=tmp_path / "registry.pem", plain=True
    )
    assert site.cache == "registry.example:5000/hpc/cache" and site.builders == ("farm",)
    assert site.sources == tmp_path / "sources"
    assert site.labels == ((VENDOR, "Example University"), (URL, "https://hpc.example/images"))


def test_a_variable_that_is_set_goes_before_the_file(tmp_path: Path) -> None:
    found = entered("{proxy: {http: 'http://file:1'}, cache: a/b}", tmp_path, HTTP_PROXY="http://mine:1")
    assert found == {"HTTP_PROXY": "http://mine:1", "STACKWRIGHT_CACHE": "a/b"}


@pytest.mark.parametrize(
    ("text", "place", "cause", "hint"),
    [
        ("registry: {addres: x/y}", "1:12", "unknown key 'addres' in 'registry'", "did you mean 'address'?"),
        ("cache: a/b\nmirror: {}", "2:1", "unknown key 'mirror'", "did you mean 'mirrors'?"),
        ("zzz: 1", "1:1", "unknown key 'zzz'", "the keys are mirrors, index"),
        ("registry: {plain: 'yes'}", "1:19", "'registry.plain' must be true or false", "plain: true"),
        ("builders: farm", "1:11", "'builders' must be a list", "builders: [farm]"),
        ("cache: 5", "1:8", "'cache' must be a string", "cache: registry.example:5000"),
        ("cache: ''", "1:8", "'cache' must be filled", "cache: "),
        ("- a", "1:1", "no mapping", "the keys are mirrors"),
        ("a: &x [*x]", "1:4", "", ""),
        ("ca: [", "2:1", "", ""),
    ],
)
def test_what_is_wrong_is_said_with_its_line(
    text: str, place: str, cause: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(SiteError) as caught:
        entered(text, tmp_path)
    assert caught.value.place == f"{tmp_path / 'site.yaml'}:{place}"
    assert cause in caught.value.cause and hint in caught.value.hint
    assert "matrix" not in str(caught.value).replace(str(tmp_path), "")


NOTHING_OF_THE_HOST = {
    "PIP_CONFIG_FILE": "/dev/null",
    "STACKWRIGHT_APT_MIRROR": "http://mirror.example/debian",
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STACKWRIGHT_REGISTRY", "registry.example"),
        ("STACKWRIGHT_REGISTRY", "https://registry.example/x"),
        ("STACKWRIGHT_REGISTRY", "registry.example/Upper"),
        ("STACKWRIGHT_REGISTRY", "user:password@registry.example/x"),
        ("STACKWRIGHT_CACHE", "registry.example/x\n"),
        ("STACKWRIGHT_CACHE", "registry.example/x,mode=max"),
        ("STACKWRIGHT_BUILDERS", "--help"),
        ("STACKWRIGHT_VENDOR", "a\nLABEL x=y"),
        ("STACKWRIGHT_VENDOR", " a"),
        ("STACKWRIGHT_URL", "ftp://hpc.example"),
        ("STACKWRIGHT_URL", "https://me:secret@hpc.example"),
        ("STACKWRIGHT_SIGNING_KEY", "/nothing"),
    ],
)
def test_a_value_that_could_be_something_else_is_refused(name: str, value: str) -> None:
    with pytest.raises(SiteError) as caught:
        settings.site(Runner(), {name: value, **NOTHING_OF_THE_HOST})
    assert caught.value.place == name


def test_which_file_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert file.find(None, {}) is None
    (tmp_path / "site.yaml").touch()
    assert file.find(None, {}) == tmp_path / "site.yaml"
    assert file.find(None, {"STACKWRIGHT_SITE": "/a"}) == Path("/a")
    assert file.find(Path("/b"), {"STACKWRIGHT_SITE": "/a"}) == Path("/b")


def test_nothing_of_it_is_in_the_key_or_the_context_of_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=tmp_path)
    (without,) = plan(here, cells(here, ["cuda12-torch"])).rows
    for name, text in entered(yaml.safe_dump(example()), tmp_path).items():
        monkeypatch.setenv(name, text)
    (row,) = plan(here, cells(here, ["cuda12-torch"])).rows
    assert row.recipe == without.recipe
    assert not any(b".example" in content for _, content in row.recipe.files)


def test_git_ignores_it() -> None:
    assert "/site.yaml" in (ROOT / ".gitignore").read_text().split()


def test_the_schema_and_the_table_are_the_committed_ones() -> None:
    schema = json.loads((ROOT / "docs" / "site.schema.json").read_text())
    assert schema == file.json_schema()
    jsonschema.Draft202012Validator(schema).validate(example())
    assert file.table() in (ROOT / "docs" / "site.md").read_text()
