"""What the wheels own, by the RECORD of each: files with their SHA-256, and byte code of their sources."""

from __future__ import annotations

import base64
import binascii
import csv
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

RECORD = re.compile(r"(?P<site>/opt/stack/lib/python3\.\d+/site-packages)/(?P<info>[^/]+)\.dist-info/RECORD")
ENVIRONMENT = "/opt/stack/"
"""What wheels may own: a RECORD may name any file of the system."""

BYTE_CODE = re.compile(r"(?P<folder>.*)/__pycache__/(?P<name>[^/]+?)\.cpython-\d+(\.opt-[12])?\.pyc")
WITHOUT_HASH = re.compile(r".*(/__pycache__/[^/]+\.pyc|\.dist-info/RECORD(\.jws|\.p7s)?)")
"""What a RECORD lists without a hash (packaging.python.org, recording-installed-packages)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Of each wheel that lists the file: its name, its RECORD, and the hash in it, or none."""

    wheels: tuple[str, ...]
    lists: tuple[str, ...]
    sha256: tuple[str, ...]


def read(texts: Mapping[str, str]) -> Mapping[str, Listed]:
    """Of all wheels whose RECORD is among the texts."""
    found: dict[str, Listed] = {}
    for path, text in texts.items():
        if record := RECORD.fullmatch(path):
            wheel = record["info"]
            for name, digest in _lines(text):
                where = posixpath.normpath(posixpath.join(record["site"], name))
                if not where.startswith(ENVIRONMENT):
                    continue
                before = found.get(where)
                found[where] = Listed(
                    wheels=(*(before.wheels if before else ()), wheel),
                    lists=(*(before.lists if before else ()), path),
                    sha256=(*(before.sha256 if before else ()), digest),
                )
    return found


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in csv.reader(text.splitlines()):
        if line and line[0]:
            yield line[0], _hexadecimal(line[1]) if len(line) > 1 else ""


def _hexadecimal(digest: str) -> str:
    name, _, text = digest.partition("=")
    try:
        return base64.urlsafe_b64decode(f"{text}==").hex() if name == "sha256" else ""
    except (binascii.Error, ValueError):
        return ""


def source_of(path: str) -> str | None:
    """The source of byte code, by its place."""
    match = BYTE_CODE.fullmatch(path)
    return f"{match['folder']}/{match['name']}.py" if match else None
