"""Releases that exist: those with a wheel for Linux on x86-64 on the package index, none for testing.

The lists themselves are in data/releases.json, which ``build.py facts --update`` writes.
"""

from __future__ import annotations

from stackwright.core.facts import entries
from stackwright.core.facts.provenance import read

PACKAGES = (
    # field of a row, package, the first release that the tables speak of
    ("torch", "torch", "1.0"),
    ("tensorflow", "tensorflow", "1.12"),
    ("tensorflow", "tensorflow-gpu", "1.12"),
    *(("mxnet", f"mxnet-cu{cuda}", "1.4") for cuda in ("90", "92", "100", "101", "102", "110", "112")),
    ("keras", "keras", "2.0"),
    *(
        (field, f"nvidia-{field}-cu{major}", "0")
        for field in ("nccl", "cudnn")
        for major in ("11", "12", "13")
    ),
)

_ENTRIES = {entry.key: entry for entry in entries.load("releases")}

RELEASES_READ = read(
    "the package index: releases with a wheel for Linux", max(entry.fact.when for entry in _ENTRIES.values())
)

RELEASES = tuple((field, package, " ".join(_ENTRIES[package].value)) for field, package, _ in PACKAGES)
"""Field of a row, package, its releases in their order."""
