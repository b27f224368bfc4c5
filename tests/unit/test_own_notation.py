"""The notation of what a row adds to its image: what is read, and what is one clear error."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml
from own_parts import FULL, ROW, folder_of, read
from rows import CELL

from stackwright.core.config import own
from stackwright.core.config.expand import expand, select
from stackwright.core.config.load import load
from stackwright.core.config.setting import question
from stackwright.core.errors import MatrixError, UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folder_of(tmp_path)


# ------------------------------------------------------------------------------------- notation


def test_all_of_it_is_read(folder: Path) -> None:
    row = read(folder, FULL)
    assert (row.apt, row.ports) == (("git", "libgl1"), ("8888/tcp", "53/udp"))
    assert list(map(str, row.env)) == ["HF_HOME=/data", "OURS=a b"], "in the order of their names"
    assert row.entrypoint == ("/opt/ours/start", "--quiet")
    assert [path for path, _ in row.files[0].placed()] == ["/opt/ours/lib/ours.py", "/opt/ours/start"]
    assert read(folder, {name: {} if name == "env" else [] for name in FULL}) == read(folder, {})


REFUSED = [
    ({"apt": ["git=1:2"]}, "the lock decides on the version"),
    ({"apt": ["git; id"]}, "is not a value for 'apt'"),
    ({"apt": ["$(id)"]}, "is not a value for 'apt'"),
    ({"apt": ["-o=x"]}, "is not supported for 'apt'"),
    ({"apt": ["Git"]}, "is not a value for 'apt'"),
    ({"apt": "git"}, "must be a list"),
    ({"apt": ["a1"] * 101}, "more than 100"),
    ({"env": ["A=b"]}, "must be a mapping"),
    ({"env": {"A B": "c"}}, "is not the name of a variable"),
    ({"env": {"A=B": "c"}}, "is not the name of a variable"),
    ({"env": {"A": 'x"y'}}, "the value of A has a character"),
    ({"env": {"A": "$HOME"}}, "the value of A has a character"),
    ({"env": {"A": "`id`"}}, "the value of A has a character"),
    ({"env": {"A": "x\\"}}, "the value of A has a character"),
    ({"env": {"A": "{{ x }}"}}, "the value of A has a character"),
    ({"env": {"A": "x\nRUN id"}}, "the value of A has a character"),
    ({"env": {"A": " x"}}, "the value of A has a character"),
    ({"env": {"A": ""}}, "the value of A has a character"),
    ({"env": {"A": 1}}, "must be a string"),
    ({"env": {"A": ["b"]}}, "must be a string"),
    ({"build-env": {"a": "b"}}, "is not the name of a variable"),
    ({"build-env": {"A": "b="}}, "the value of A has a character"),
    ({"build-env": {"A": "$(id)"}}, "the value of A has a character"),
    ({"build-env": {"A": 'x" id "'}}, "the value of A has a character"),
    ({"build-env": {"A": 2}}, "must be a string"),
    ({"build-env": ["A=b"]}, "must be a mapping"),
    ({"build_env": {"A": "b"}}, "did you mean 'build-env'?"),
    ({"files": [{"from": "ours"}]}, "'files.to' is missing"),
    ({"files": [{"from": "ours", "to": "/opt/ours", "mode": "777"}]}, "unknown key 'mode' in 'files'"),
    ({"files": [{"from": "../ours", "to": "/opt/ours"}]}, "is not a value for 'files.from'"),
    ({"files": [{"from": "/etc", "to": "/opt/ours"}]}, "is not a value for 'files.from'"),
    ({"files": [{"from": "ours", "to": "/opt/stack/lib"}]}, "each file there is proven"),
    ({"files": [{"from": "ours", "to": "/opt/stack"}]}, "each file there is proven"),
    ({"files": [{"from": "ours", "to": "/opt/cuda"}]}, "each file there is proven"),
    ({"files": [{"from": "ours", "to": "/etc/ld.so.conf.d"}]}, "belongs to the distribution's packages"),
    ({"files": [{"from": "ours", "to": "/usr/local/bin"}]}, "belongs to the distribution's packages"),
    ({"files": [{"from": "ours", "to": "/opt"}]}, "belongs to"),
    ({"files": [{"from": "ours", "to": "/opt/../etc"}]}, "belongs to"),
    ({"files": [{"from": "ours", "to": "opt/ours"}]}, "is not a value for 'files.to'"),
    ({"files": [{"from": "none", "to": "/opt/ours"}]}, "no such folder"),
    ({"files": [{"from": "ours", "to": "/opt/a"}, {"from": "ours", "to": "/opt/a"}]}, "two folders"),
    ({"user": "root"}, "is root by default"),
    ({"user": "0:0"}, "is root by default"),
    ({"user": "20001:0"}, "what root's group may write"),
    ({"user": "33"}, "the distribution's own users"),
    ({"user": "65534:65534"}, "the distribution's own users"),
    ({"user": "20001:users"}, "another number on each cluster"),
    ({"user": 20001}, "in quotes"),
    ({"user": "4294967296"}, "is not a value for 'user'"),
    ({"user": "alice"}, "another number on each cluster"),
    ({"user": "1; id"}, "is not a value for 'user'"),
    ({"ports": ["65536"]}, "is not a value for 'ports'"),
    ({"ports": [8888]}, "in quotes"),
    ({"ports": ["0"]}, "is not a value for 'ports'"),
    ({"ports": ["22/sctp"]}, "is not a value for 'ports'"),
    ({"entrypoint": "/opt/ours/start"}, "must be a list"),
    ({"entrypoint": ["sh", "-c", "a; b"]}, "is not a value for 'entrypoint'"),
]


@pytest.mark.parametrize(("values", "says"), REFUSED)
def test_what_is_no_plain_value_is_one_error(values: dict[str, Any], says: str, folder: Path) -> None:
    with pytest.raises(MatrixError) as caught:
        read(folder, values)
    assert says in str(caught.value) and "\n  next: " in str(caught.value), str(caught.value)


SECRET = "xK39fjDk20fkQ7"
BODY = "\n".join(b64encode(sha256(bytes([line])).digest()).decode() for line in range(5))
KEY = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{BODY}\n-----END OPENSSH PRIVATE KEY-----\n"


@pytest.mark.parametrize("name", ["HF_TOKEN", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "API_KEY"])
def test_a_credential_is_refused_by_its_shape_and_never_shown(name: str, folder: Path) -> None:
    with pytest.raises(MatrixError) as caught:
        read(folder, {"env": {"A": "b", name: SECRET}})
    assert f"the value of {name} has the shape of a credential" in str(caught.value)
    assert SECRET not in str(caught.value)
    with pytest.raises(MatrixError) as caught:
        read(folder, {"env": {name: f"{SECRET}$"}})
    assert SECRET not in str(caught.value)
    for text in (f"{name}={SECRET}", f"{name}={SECRET}$", f"{name}='{SECRET}"):
        with pytest.raises(UsageError) as wrong:
            question(CELL, [f"env={text}"])
        assert SECRET not in str(wrong.value)


def odd(ours: Path, kind: str) -> None:
    if kind == "link":
        (ours / "x").symlink_to("/etc/passwd")
    elif kind == "folder that is a link":
        (ours / "x").symlink_to(ours)
    elif kind == "hidden":
        (ours / ".netrc").write_text("x")
    elif kind == "blank":
        (ours / "a b").write_text("x")
    elif kind == "key":
        (ours / "key").write_text(KEY)
    elif kind == "token":
        (ours / "settings.ini").write_text(f"[x]\npassword = {SECRET}\n")
    elif kind == "large":
        (ours / "large").write_bytes(b"\0" * (own.MOST_BYTES + 1))


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("link", "neither a file nor a folder"),
        ("folder that is a link", "neither a file nor a folder"),
        ("hidden", "is a name that is not copied in"),
        ("blank", "is a name that is not copied in"),
        ("key", "holds a private key"),
        ("token", "holds a password"),
        ("large", "more than 1000 files or 16 MiB"),
    ],
)
def test_a_folder_with_anything_but_plain_files_is_refused(kind: str, says: str, folder: Path) -> None:
    odd(folder / "ours", kind)
    with pytest.raises(MatrixError, match=says) as caught:
        read(folder, FULL)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (("x.txt",), "x.txt is not the name of a wheel"),
        (("ours-1.0.tar.gz",), "is not the name of a wheel"),
        (("ours-1.0-py3-none-any.whl", "ours-1.1-py3-none-any.whl"), "two versions of ours: 1.0 and 1.1"),
        ((), "is empty"),
    ],
)
def test_a_folder_of_wheels_has_one_version_of_each(files: tuple[str, ...], says: str, folder: Path) -> None:
    (folder / "dist").mkdir()
    for file in files:
        (folder / "dist" / file).write_bytes(b"")
    with pytest.raises(MatrixError, match=says):
        read(folder, {"pip": ["ours"], "wheels": "dist"})


def test_a_folder_that_is_a_link_or_empty_is_refused(folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "linked").symlink_to(folder / "ours")
    for name, says in (("empty", "is empty"), ("linked", "no such folder"), ("m.yaml", "no such folder")):
        with pytest.raises(MatrixError, match=says):
            read(folder, {"files": [{"from": name, "to": "/opt/ours"}]})


def test_a_user_has_a_group_that_is_not_roots(folder: Path) -> None:
    """USER 20001 alone would give root's group to every process of the image."""
    path = folder / "m.yaml"
    shared = {name: value for name, value in ROW.items() if name != "id"}
    axes = {"user": ["20001", "20001:100", None]}
    path.write_text(yaml.safe_dump({"defaults": {**shared, "user": "3000"}, "axes": axes}))
    rows = expand(load(path))
    assert [row.user for row in rows] == ["20001:20001", "20001:100", None]
    assert [row.id for row in rows] == ["user20001_20001", "user20001_100", "usernone"]
    assert select(rows, [], ["user=*:100"]) == rows[1:2]
    asked = question(CELL, ["user=20001"]).cell
    assert asked.user == "20001:20001" and question(asked, ["user="]).cell == CELL
    for wrong in ("user=root", "user=a", "user=1;id", "user=20001:"):
        with pytest.raises(UsageError):
            question(CELL, [wrong])


def test_axes_selection_and_settings(folder: Path) -> None:
    path = folder / "m.yaml"
    shared = {name: value for name, value in ROW.items() if name != "id"}
    names = [name for name in FULL if name != "entrypoint"]
    axes = {name: [FULL[name], {} if name == "env" else []] for name in names}
    path.write_text(yaml.safe_dump({"defaults": shared, "axes": axes}))
    rows = expand(load(path))
    assert len({row.id for row in rows}) == len(rows) == 2 ** len(names)
    assert rows[-1].id == "aptnone-envnone-filesnone-portsnone"
    assert len(select(rows, [], ["apt=git"])) == len(rows) / 2
    assert len(select(rows, [], ["env=OURS=*"])) == len(rows) / 2
    asked = question(CELL, ["apt=git,libgl1", "env=HF_HOME=/data OURS='a b'", "ports=8888,53/udp", "files="])
    want = read(folder, FULL)
    assert (asked.cell.apt, asked.cell.env, asked.cell.ports) == (want.apt, want.env, want.ports)
    assert question(asked.cell, ["apt=", "env=", "ports=", "files="]).cell == CELL
    for wrong in ("apt=$(id)", "ports=x", "files=ours", "env=A"):
        with pytest.raises(UsageError):
            question(CELL, [wrong])
