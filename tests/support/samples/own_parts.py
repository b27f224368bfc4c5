"""A row that adds to its image what is no Python package, and the folder next to its matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from stackwright.core.config.expand import expand
from stackwright.core.config.load import load
from stackwright.core.model.row import Cell

ROW: dict[str, Any] = {
    "id": "one", "provider": "debian", "os": "debian-13", "python": "3.13", "horovod": "0.28.1",
    "mpi": {"flavour": "openmpi", "version": "5.0"}, "gpu_arch": ["8.0"], "torch": "2.6.0",
}  # fmt: skip
FULL: dict[str, Any] = {
    "apt": ["git", "libgl1"], "env": {"OURS": "a b", "HF_HOME": "/data"},
    "files": [{"from": "ours", "to": "/opt/ours"}], "ports": ["8888", "53/udp"],
    "entrypoint": ["/opt/ours/start", "--quiet"],
}  # fmt: skip


def folder_of(tmp_path: Path) -> Path:
    ours = tmp_path / "ours"
    (ours / "lib").mkdir(parents=True)
    (ours / "start").write_text('#!/bin/sh\nexec "$@"\n')
    (ours / "lib" / "ours.py").write_text("ANSWER = 42\n")
    return tmp_path


def read(folder: Path, values: dict[str, Any]) -> Cell:
    path = folder / "m.yaml"
    path.write_text(yaml.safe_dump({"include": [{**ROW, **values}]}))
    (row,) = expand(load(path))
    return row
