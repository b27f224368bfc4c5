"""A SIF is done only when its record names the key and the compression that are asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from report_samples import built

from stackwright.build import phases
from stackwright.build.job import Job
from stackwright.build.sif import convert
from stackwright.build.sif.convert import Made
from stackwright.core.model.compression import compression
from stackwright.core.model.record import SifFile
from stackwright.engines.sif.sign import Signer

OURS, OTHER = (Signer(key=Path("k.pem"), public=text) for text in (b"ours", b"other"))


def done(folder: Path, signer: Signer | None, tools: dict[str, str], made_with: str = "zstd:3") -> bool:
    (folder / "x.sif").write_text("12345")
    sif = SifFile(path="x.sif", bytes=5, sha256="0" * 64, compression=made_with)
    known = replace(built(), sif=sif, tools=tuple(tools.items()))
    project = SimpleNamespace(out=folder / "out")
    job = SimpleNamespace(signer=signer, compression=compression("zstd"), project=project)
    return phases._sif_done(cast("Job", cast("Any", job)), known)


def test_it_is_made_again_where_another_key_signed_it_or_none(tmp_path: Path) -> None:
    signed = {convert.SIGNED_BY: OURS.fingerprint}
    assert done(tmp_path, None, {})
    assert done(tmp_path, None, signed)
    assert done(tmp_path, OURS, signed)
    assert not done(tmp_path, OTHER, signed)
    assert not done(tmp_path, OURS, {})


def test_it_is_made_again_where_another_compression_is_asked_for(tmp_path: Path) -> None:
    assert done(tmp_path, None, {}, made_with="zstd:3")
    assert not done(tmp_path, None, {}, made_with="zstd:1")
    assert not done(tmp_path, None, {}, made_with="")


def test_a_file_made_anew_is_not_yet_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict on the one before it is not one on it."""
    made = Made(bytes=5, sha256="1" * 64)
    monkeypatch.setattr(convert, "to_sif", lambda *_, **__: made)
    project = SimpleNamespace(out=tmp_path / "out", room=tmp_path / "room")
    job = SimpleNamespace(
        id="row", reference="row:1", folder=tmp_path / "out" / "row", project=project, signer=None,
        docker=None, runner=None, apptainer=lambda: None, compression=compression("lz4"),
    )  # fmt: skip
    known = built()
    assert known.verdict("sif")
    new = phases._sif(cast("Job", cast("Any", job)), known)
    assert new.verdict("sif") is None
    assert new.verdict("docker") == known.verdict("docker")
    assert new.sif == SifFile(path="out/row/row.sif", bytes=5, sha256="1" * 64, compression="lz4")


def test_a_fingerprint_is_that_of_the_public_key() -> None:
    assert OURS.fingerprint != OTHER.fingerprint
    assert len(OURS.fingerprint) == 16
