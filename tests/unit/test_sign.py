"""A SIF that is to be signed by a key is done only when the record says that this key signed it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from report_samples import built

from stackwright import phases
from stackwright.job import Job
from stackwright.record import SifFile
from stackwright.sign import Signer

OURS, OTHER = (Signer(key=Path("k.pem"), public=text) for text in (b"ours", b"other"))


def done(folder: Path, signer: Signer | None, tools: dict[str, str]) -> bool:
    (folder / "x.sif").write_text("12345")
    known = replace(built(), sif=SifFile(path="x.sif", bytes=5, sha256="0" * 64), tools=tuple(tools.items()))
    job = SimpleNamespace(signer=signer, project=SimpleNamespace(out=folder / "out"))
    return phases._sif_done(cast("Job", cast("Any", job)), known)


def test_it_is_made_again_where_another_key_signed_it_or_none(tmp_path: Path) -> None:
    signed = {phases.SIGNED_BY: OURS.fingerprint}
    assert done(tmp_path, None, {})
    assert done(tmp_path, None, signed)
    assert done(tmp_path, OURS, signed)
    assert not done(tmp_path, OTHER, signed)
    assert not done(tmp_path, OURS, {})


def test_a_fingerprint_is_that_of_the_public_key() -> None:
    assert OURS.fingerprint != OTHER.fingerprint
    assert len(OURS.fingerprint) == 16
