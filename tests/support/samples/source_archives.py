"""Archives of sources as git makes them of a tag, and what the script that compiles one says of it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

from rows import ROOT


def archive(tree: Mapping[str, bytes], name: str, commit: str = "c0" * 20) -> bytes:
    """The commit in its head, one folder, a link."""
    written = io.BytesIO()
    with tarfile.open(
        fileobj=written, mode="w:gz", format=tarfile.PAX_FORMAT, pax_headers={"comment": commit}
    ) as tar:
        for path, content in tree.items():
            member = tarfile.TarInfo(f"{name}-1/{path}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo(f"{name}-1/src/err.h")
        link.type, link.linkname = tarfile.SYMTYPE, "error.h"
        tar.addfile(link)
    return written.getvalue()


def built(
    script: str, name: str, folder: Path, content: bytes | None, sha256: str, **settings: str | Path
) -> str:
    """Return what the script says that runs in the image; without a compiler it ends behind the hash."""
    folder.mkdir()
    (folder / "archive.txt").write_text(f"{name}-1.tar.gz http://127.0.0.1:1/none.tar.gz {sha256}\n")
    if content is not None:
        (folder / f"{name}-1.tar.gz").write_bytes(content)
    every = {
        "SOURCE": folder, "OUT": folder / "out", "PYTHON": sys.executable, "WORK": folder / "work",
        "PATH": os.environ["PATH"], **settings,
    }  # fmt: skip
    done = subprocess.run(
        ["bash", ROOT / script], capture_output=True, text=True, check=False,
        env={key: str(value) for key, value in every.items()},
    )  # fmt: skip
    assert done.returncode != 0 and not (folder / "work").exists()
    return done.stdout + done.stderr
