"""Answer a build from the site's mirror and index, and keep every file that it was given.

What a build asks for is all that it downloads, so what is kept is complete, whatever apt and pip decide.
A file that was asked for once is given from what is kept: a mirror that moves meanwhile does not mix two
states.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit, urlunsplit

from stackwright.build.bundle.manifest import PACKAGES, PYTHON, is_path
from stackwright.build.bundle.serve import Answer, Readable, page, project_of
from stackwright.core.errors import DiskError, SiteError, StackwrightError
from stackwright.host.upstream import web

SIMPLE = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
PROJECT = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
ABSENT = (404, 410)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """Where files come from: ``mirrors`` by the name of the distribution, and ``indexes``."""

    mirrors: Mapping[str, str]
    indexes: Sequence[str]
    ca: Path | None = None


@dataclass(slots=True)
class Recording:
    """``folder`` receives the files, by their paths in a bundle. ``problems``: answers that did not come."""

    upstream: Upstream
    folder: Path
    problems: list[StackwrightError] = field(default_factory=list)
    _known: dict[str, tuple[str, str]] = field(default_factory=dict)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)

    @contextmanager
    def find(self, path: str) -> Iterator[Answer | None]:
        """Answer a request as ``serve.Find`` has it."""
        try:
            with self._locks.setdefault(path, threading.Lock()):
                if project := project_of(path):
                    yield self._page(project)
                elif not (url := self._address(path)):
                    yield None
                elif (kept := self.folder / path).is_file():
                    with kept.open("rb") as file:
                        yield Answer(content=file, bytes=kept.stat().st_size)
                else:
                    yield from self._fetched(path, url)
        except StackwrightError as problem:
            self.problems.append(problem)
            raise
        except ConnectionError:  # of the step, which asks again
            raise
        except OSError as error:
            unkept = DiskError(f"cannot be kept: {error.strerror}", place=path)
            self.problems.append(unkept)
            raise unkept from error

    def _address(self, path: str) -> str:
        """Return where a file comes from; "" where no mirror and no page of an index names it."""
        head, _, rest = path.partition("/")
        name, _, rest = rest.partition("/")
        if not is_path(path) or not rest:
            return ""
        if head == PACKAGES and name in self.upstream.mirrors:
            return f"{self.upstream.mirrors[name].rstrip('/')}/{quote(rest, safe='/~+:@!,=')}"
        return self._known.get(path, ("", ""))[0]

    # -- files -------------------------------------------------------------------------------------

    def _fetched(self, path: str, url: str) -> Iterator[Answer | None]:
        try:
            answer = web.opened(url, {}, self._trust())
        except SiteError as error:
            if _absent(error):
                yield None
                return
            raise
        kept = self.folder / path
        draft = kept.with_name(f".{kept.name}.part")
        kept.parent.mkdir(parents=True, exist_ok=True)
        length = answer.headers.get("Content-Length", "")
        try:
            with answer, draft.open("wb+") as file:
                copy = _Copy(answer, file, self._known.get(path, ("", ""))[1], kept)
                if length.isdigit():
                    yield Answer(content=copy, bytes=int(length))
                    copy.require_whole(int(length))
                else:
                    yield Answer(content=copy.whole(), bytes=copy.bytes)
            draft.replace(kept)
        finally:
            draft.unlink(missing_ok=True)

    def _trust(self) -> ssl.SSLContext | None:
        return ssl.create_default_context(cafile=self.upstream.ca) if self.upstream.ca else None

    # -- pages of an index -------------------------------------------------------------------------

    def _page(self, project: str) -> Answer | None:
        if not PROJECT.fullmatch(project):
            return None
        found: list[tuple[str, str]] = []
        for number, index in enumerate(self.upstream.indexes):
            for name, url, sha256 in self._listed(index, project):
                path = f"{PYTHON}/{number}/{project}/{name}"
                if is_path(path):
                    self._known[path] = (url, sha256)
                    found.append((path, sha256))
        content = page(found)
        return Answer(content=io.BytesIO(content), bytes=len(content), kind="text/html") if found else None

    def _listed(self, index: str, project: str) -> list[tuple[str, str, str]]:
        address = f"{index.rstrip('/')}/{project}/"
        try:
            content = web.page(address, SIMPLE, self._trust())
        except SiteError as error:
            if _absent(error):
                return []
            raise
        try:
            links = _of_json(content) if content.lstrip()[:1] == b"{" else _of_html(content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SiteError(f"the index gives no list of files of {project}") from error
        return [_link(address, *link) for link in links]


def _link(page: str, reference: str, sha256: str) -> tuple[str, str, str]:
    """Return name, address and hash of a file. A login of the index is also that of its own host's files."""
    parts = urlsplit(page)
    login, _, host = parts.netloc.rpartition("@")
    url = urlsplit(urldefrag(urljoin(urlunsplit(parts._replace(netloc=host)), reference)).url)
    if login and url.netloc == host:
        url = url._replace(netloc=f"{login}@{host}")
    return unquote(url.path.rpartition("/")[2]), urlunsplit(url), sha256 if SHA256.fullmatch(sha256) else ""


def _of_json(content: bytes) -> list[tuple[str, str]]:
    files = json.loads(content)["files"]
    return [(str(file["url"]), str(file["hashes"].get("sha256", ""))) for file in files]


def _of_html(content: bytes) -> list[tuple[str, str]]:
    parser = _Links()
    parser.feed(content.decode("utf-8", "replace"))
    return [(link, urldefrag(link).fragment.removeprefix("sha256=")) for link in parser.found]


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        link = dict(attrs).get("href")
        if tag == "a" and link:
            self.found.append(link)


def _absent(error: SiteError) -> bool:
    """Whether the server says that there is no such file, which apt may ask for and can do without."""
    return isinstance(error.__cause__, HTTPError) and error.__cause__.code in ABSENT


class _Copy:
    """What a server sends, kept while it is handed on. SiteError where it breaks off, or is another file."""

    def __init__(self, answer: HTTPResponse, file: BinaryIO, sha256: str, target: Path) -> None:
        self._answer, self._file, self._sha256, self._name = answer, file, sha256, target.name
        self._digest, self.bytes = hashlib.sha256(), 0

    def read(self, size: int, /) -> bytes:
        try:
            block = self._answer.read(size)
        except (OSError, HTTPException) as error:
            raise SiteError(f"{self._name} broke off: {error}") from error
        try:
            self._file.write(block)
        except OSError as error:
            raise DiskError(f"{self._name} cannot be kept: {error.strerror}") from error
        self._digest.update(block)
        self.bytes += len(block)
        return block

    def whole(self) -> Readable:
        """Read to the end first, where the server does not say how much it sends."""
        while self.read(web.BLOCK):
            pass
        self.require_whole(self.bytes)
        self._file.seek(0)
        return self._file

    def require_whole(self, size: int) -> None:
        if self.bytes != size:
            raise SiteError(f"{self._name} broke off: {self.bytes} of {size} bytes")
        if self._sha256 and self._digest.hexdigest() != self._sha256:
            raise SiteError(f"{self._name} is not the file that the index names: its sha256 differs")
