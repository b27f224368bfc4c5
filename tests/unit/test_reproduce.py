"""Two images that should be the same, with a difference planted in one: it is found, and its cause named."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench import reproduce

Members = dict[str, tuple[bytes, dict[str, Any]]]


def members() -> Members:
    """Path to content and fields of the tar's member."""
    return {
        "etc/passwd": (b"root", {"mode": 0o644}),
        "etc/machine-id": (b"1234", {}),
        "var/log/apt.log": (b"log", {}),
        "opt/stack/lib/__pycache__/a.pyc": (b"code", {}),
        "opt/stack/lib/a.py": (b"source", {"mtime": 1000}),
    }


def layer(files: Members) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, (content, fields) in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for field, value in fields.items():
                setattr(member, field, value)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def image(folder: Path, *layers: bytes, packed: Callable[[bytes], bytes] = bytes) -> Path:
    """In the OCI layout."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    history = [{"created_by": f"RUN {number}"} for number, _ in enumerate(layers)]
    ids = [f"sha256:{hashlib.sha256(content).hexdigest()}" for content in layers]
    config = {"history": [*history, {"empty_layer": True}], "rootfs": {"diff_ids": ids}}
    manifest = {
        "config": put(json.dumps(config).encode()), "layers": [put(packed(content)) for content in layers]
    }  # fmt: skip
    index = {"manifests": [put(json.dumps(manifest).encode())]}
    (folder / "index.json").write_text(json.dumps(index))
    return folder


def found(first: Path, second: Path) -> list[reproduce.Difference]:
    return list(reproduce.compare(list(reproduce.layers(first)), list(reproduce.layers(second))))


def test_the_same_image_has_no_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = (image(tmp_path / name, layer(members())) for name in "ab")
    assert found(one, other) == []
    assert reproduce.main([str(one), str(other)]) == 0
    assert "layer 1: same, 5 entries: RUN 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("path", "change", "what", "cause"),
    [
        ("opt/stack/lib/a.py", {"mtime": 2000}, ("time",), "the time of the build"),
        ("opt/stack/lib/a.py", {"mode": 0o600}, ("mode",), "not known"),
        ("opt/stack/lib/a.py", {"uid": 5}, ("owner",), "not known"),
        ("opt/stack/lib/a.py", {"pax_headers": {"SCHILY.xattr.user.a": "b"}}, ("attributes",), "not known"),
        ("opt/stack/lib/__pycache__/a.pyc", b"EDOC", ("content",), "byte code"),
        ("etc/machine-id", b"4321", ("content",), "the machine's own number"),
        ("var/log/apt.log", b"longer", ("content", "size"), "a log"),
        ("etc/passwd", b"toor", ("content",), "an account"),
    ],
)
def test_a_planted_difference_is_found_alone(
    path: str, change: dict[str, Any] | bytes, what: tuple[str, ...], cause: str, tmp_path: Path
) -> None:
    files = members()
    content, fields = files[path]
    files[path] = (change, fields) if isinstance(change, bytes) else (content, {**fields, **change})
    one, other = image(tmp_path / "a", layer(members())), image(tmp_path / "b", layer(files))
    (difference,) = found(one, other)
    assert (difference.layer, difference.path, difference.what) == (1, path, what)
    assert difference.cause.startswith(cause)


def test_a_file_of_one_side_alone_another_order_and_another_packing_are_told(tmp_path: Path) -> None:
    less = dict(list(members().items())[1:])
    turned = dict(reversed(members().items()))
    whole = image(tmp_path / "whole", layer(members()))
    (missing,) = found(whole, image(tmp_path / "less", layer(less)))
    assert (missing.path, missing.what) == ("etc/passwd", ("only in the first",))
    (order,) = found(whole, image(tmp_path / "turned", layer(turned)))
    assert (order.what, order.cause) == (("order",), "the order of the files")
    packed = [
        image(
            tmp_path / f"gzip{level}",
            layer(members()),
            packed=partial(gzip.compress, compresslevel=level, mtime=0),
        )
        for level in (1, 9)
    ]
    (packing,) = found(*packed)
    assert packing.what == ("packing",)


def test_the_layer_is_named_and_the_exit_code_says_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = members() | {"etc/machine-id": (b"4321", {})}
    one = image(tmp_path / "a", layer(members()), layer(members()))
    other = image(tmp_path / "b", layer(members()), layer(changed))
    assert reproduce.main([str(one), str(other)]) == 1
    out = capsys.readouterr().out
    assert "layer 1: same" in out and "layer 2: DIFFERENT" in out and "etc/machine-id (content)" in out
    assert reproduce.main([str(one), str(other), "--json"]) == 1
    assert [line["layer"] for line in json.loads(capsys.readouterr().out)] == [2]


def test_another_number_of_layers_is_a_difference(tmp_path: Path) -> None:
    one = image(tmp_path / "a", layer(members()))
    (difference,) = found(one, image(tmp_path / "b", layer(members()), layer(members())))
    assert difference.what == ("1 and 2 layers",)


def test_what_is_no_image_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "index.json").write_text("{}")
    assert reproduce.main([str(tmp_path), str(tmp_path)]) == 2
    assert "not an image" in capsys.readouterr().err
    assert reproduce.main([str(tmp_path)]) == 2
