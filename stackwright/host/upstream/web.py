"""Files of an index or a mirror over HTTP: whole and hashed, or a part of an archive. Input is hostile."""

from __future__ import annotations

import hashlib
import io
import re
import ssl
import urllib.request
import zipfile
from base64 import b64encode
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit, urlunsplit

from stackwright.core.errors import SiteError
from stackwright.host.retry import Again, Patience, retried, transient_answer

TIMEOUT = 60  # seconds without an answer
PATIENCE = Patience(most=3, factor=4.0)
BLOCK = 1 << 18
PAGE_LIMIT, FILE_LIMIT, MEMBER_LIMIT = 64 << 20, 400 << 20, 64 << 20
"""Bytes of a page of an index, of a wheel or package, and of one member of a wheel."""
PARTS_LIMIT = 256 << 20
"""Bytes of all parts of one wheel that are asked for."""


def opened(url: str, headers: dict[str, str], trust: ssl.SSLContext | None = None) -> HTTPResponse:
    """Send a request with retries; a login in the address is sent as a header.

    ``trust`` has other authorities than those of the host.
    """
    request = _request(url, headers)

    def ask() -> HTTPResponse:
        return urllib.request.urlopen(request, timeout=TIMEOUT, context=trust)  # type: ignore[no-any-return]  # noqa: S310

    try:
        return retried(ask, lambda error: Again() if transient_answer(error) else None, PATIENCE)
    except (OSError, HTTPException) as error:
        raise SiteError(f"{urlsplit(url).path.rsplit('/', 1)[-1] or url}: {error}") from error


def _request(url: str, headers: dict[str, str]) -> urllib.request.Request:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise SiteError(f"not an http(s) address: a file of {parts.scheme!r}")
    login, _, host = parts.netloc.rpartition("@")
    if login:
        headers = {**headers, "Authorization": f"Basic {b64encode(unquote(login).encode()).decode()}"}
    address = urlunsplit(parts._replace(netloc=host, fragment=""))
    return urllib.request.Request(address, headers=headers)  # noqa: S310 (checked above)


def page(url: str, accept: str, trust: ssl.SSLContext | None = None) -> bytes:
    with opened(url, {"Accept": accept}, trust) as answer:
        return _limited(answer, PAGE_LIMIT)


def _limited(answer: IO[bytes], limit: int) -> bytes:
    try:
        content = answer.read(limit + 1)
    except (OSError, HTTPException) as error:
        raise SiteError(f"an answer broke off: {error}") from error
    if len(content) > limit:
        raise SiteError(f"an answer has more than {limit} bytes")
    return content


def download(url: str, sha256: str, target: Path) -> None:
    """Write a file whose hash is known; SiteError if it has another one."""
    digest, size = hashlib.sha256(), 0
    with opened(url, {}) as answer, target.open("wb") as file:
        while block := _limited_block(answer):
            size += len(block)
            if size > FILE_LIMIT:
                raise SiteError(f"{target.name} has more than {FILE_LIMIT} bytes")
            digest.update(block)
            file.write(block)
    if digest.hexdigest() != sha256:
        raise SiteError(f"{target.name} is not the file that the index names: its sha256 differs")


def _limited_block(answer: IO[bytes]) -> bytes:
    try:
        return answer.read(BLOCK)
    except (OSError, HTTPException) as error:
        raise SiteError(f"an answer broke off: {error}") from error


class Ranges(io.RawIOBase):
    """A file on a server, read by ranges. SiteError where the server does not serve ranges."""

    def __init__(self, url: str, size: int) -> None:
        super().__init__()
        self._url, self._size, self._at, self._left = url, size, 0, PARTS_LIMIT

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence] + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        end = min(self._at + len(view), self._size)
        if end <= self._at:
            return 0
        self._left -= end - self._at
        if self._left < 0:
            raise SiteError(
                f"more than {PARTS_LIMIT} bytes would be needed of {self._url.rsplit('/', 1)[-1]}"
            )
        with opened(self._url, {"Range": f"bytes={self._at}-{end - 1}"}) as answer:
            if answer.status != 206:
                raise SiteError("the index does not serve parts of files")
            content = _limited(answer, end - self._at)
        view[: len(content)] = content
        self._at += len(content)
        return len(content)


def _size(url: str) -> int:
    """Return the size of a file whose size the index does not name (PEP 700)."""
    with opened(url, {"Range": "bytes=0-0"}) as answer:
        match = re.fullmatch(r"bytes 0-0/(\d{1,15})", answer.headers.get("Content-Range", ""))
    if match is None:
        raise SiteError("the index does not serve parts of files")
    return int(match[1])


def archive(url: str, size: int) -> zipfile.ZipFile:
    """Return a wheel on a server, of which only what is asked for is fetched; ``size`` 0: not known."""
    try:
        return zipfile.ZipFile(io.BufferedReader(Ranges(url, size or _size(url)), BLOCK))
    except zipfile.BadZipFile as error:
        raise SiteError(f"not a wheel: {error}") from error


def member(wheel: zipfile.ZipFile, name: str) -> bytes:
    """One file of a wheel."""
    try:
        with wheel.open(name) as file:
            content = file.read(MEMBER_LIMIT + 1)
    except (zipfile.BadZipFile, KeyError, NotImplementedError) as error:
        raise SiteError(f"{name} cannot be read: {error}") from error
    if len(content) > MEMBER_LIMIT:
        raise SiteError(f"{name} has more than {MEMBER_LIMIT} bytes")
    return content
