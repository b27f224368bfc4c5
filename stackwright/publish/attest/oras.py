"""A registry as oras reaches it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from stackwright.core.errors import AttestError, PublishError, StackwrightError, UsageError
from stackwright.core.model.site import Site
from stackwright.engines.oci_tools import Tool
from stackwright.engines.tool_image import last_line
from stackwright.host.retry import TRANSIENT_MESSAGE, Again, Patience, retried
from stackwright.host.runner import Completed
from stackwright.host.site import credentials
from stackwright.publish.attest.oci_layout import Layout
from stackwright.publish.attest.tools import ran

Words = tuple[str | Path, ...]

TIMEOUT = 7200
"""Seconds for all layers of an image."""

PATIENCE = 300.0
"""Seconds."""

COPIED = "verified"
"""The tag of an image in a folder that was copied here."""

REFERENCE = re.compile(
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*(:\d+)?|\[[0-9A-Fa-f:]+\](:\d+)?)/(?P<name>[a-z0-9._/-]+)"
    r"(:(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """``env`` is what oras needs of the site (DOCKER_CONFIG, SSL_CERT_FILE), ``folders`` where that lies.

    ``plain``: the registry speaks http. ``patience``: seconds that it may be away, which ``say`` reports.
    """

    oras: Tool
    env: Mapping[str, str]
    say: Callable[[str], None]
    folders: tuple[Path, ...] = ()
    plain: bool = False
    patience: float = PATIENCE

    def manifest(self, reference: str) -> bytes:
        """Return the manifest that the registry has under a reference, as it is."""
        with TemporaryDirectory(prefix="stackwright-manifest-") as name:
            path = Path(name) / "manifest.json"
            words: Words = ("--output", path, *self._options(), reference)
            self._must(reference, "manifest", "fetch", *words, folders=(Path(name),), doing="read")
            return path.read_bytes()

    def blob(self, reference: str) -> bytes:
        """Return the bytes under a digest, checked against it."""
        with TemporaryDirectory(prefix="stackwright-blob-") as name:
            path = Path(name) / "blob"
            words: Words = ("--output", path, "--no-tty", *self._options(), reference)
            self._must(reference, "blob", "fetch", *words, folders=(Path(name),), doing="read")
            return path.read_bytes()

    def attached(self, reference: str, artifact_type: str) -> tuple[tuple[str, Mapping[str, str]], ...]:
        """Digest and annotations of what refers to an image, as the registry tells them."""
        words = ("--format", "json", "--artifact-type", artifact_type, *self._options(), reference)
        done = self._must(reference, "discover", *words, folders=(), doing="read")
        listed = json.loads(done.stdout).get("manifests") or []
        return tuple((str(manifest.get("digest")), manifest.get("annotations") or {}) for manifest in listed)

    def attach(self, reference: str, artifact_type: str, file: Path, annotations: Mapping[str, str]) -> None:
        """Attach a referrer of OCI 1.1; where the registry has no such API, under the fallback tag."""
        title = {"org.opencontainers.image.title": file.name}
        with TemporaryDirectory(prefix="stackwright-annotations-") as name:
            path = Path(name) / "annotations.json"
            path.write_text(json.dumps({"$manifest": dict(annotations), str(file): title}))
            words = ("--artifact-type", artifact_type, "--annotation-file", path, "--disable-path-validation")
            folders = (Path(name), file.parent)
            argv: Words = ("attach", *words, *self._options(), reference, f"{file}:{artifact_type}")
            self._must(reference, *argv, folders=folders, doing="attached to")

    def copy(self, reference: str, folder: Path, tag: str = COPIED) -> Layout:
        """Return the image and all that refers to it, under ``tag``.

        AttestError where the registry gives other bytes.
        """
        folder.mkdir(parents=True, exist_ok=True)
        plain = ("--from-plain-http",) if self.plain else ()
        # The image first: oras 1.2 panics where blobs of the image and of a referrer go wrong at once.
        for recursive in ((), ("--recursive",)):
            how = ("--concurrency", "1", "--no-tty", *plain, *recursive)
            words = ("copy", *how, "--to-oci-layout", reference, f"{folder}:{tag}")
            done = self._run(*words, folders=(folder,))
            if not done.ok:
                raise _failure(done, reference, "read")
        return Layout(folder=folder)

    def _options(self) -> tuple[str, ...]:
        return ("--plain-http",) if self.plain else ()

    def _must(self, reference: str, *argv: str | Path, folders: tuple[Path, ...], doing: str) -> Completed:
        done = self._run(*argv, folders=folders)
        if not done.ok:
            raise _failure(done, reference, doing)
        return done

    def _run(self, *argv: str | Path, folders: tuple[Path, ...]) -> Completed:
        """Retry transient failures; oras itself stops after a few seconds."""

        def run() -> Completed:
            done = ran(self.oras, *argv, folders=(*self.folders, *folders), env=self.env, timeout=TIMEOUT)
            if not done.ok and TRANSIENT_MESSAGE.search(done.stderr):
                raise _Transient(done)
            return done

        def transient(error: Exception) -> Again | None:
            if not isinstance(error, _Transient):
                return None
            return Again(why=last_line(error.done).removeprefix("Error: "))

        try:
            return retried(run, transient, Patience(seconds=self.patience), say=self.say)
        except _Transient as error:
            return error.done


class _Transient(Exception):
    """A call of oras that may succeed on a retry."""

    def __init__(self, done: Completed) -> None:
        super().__init__()
        self.done = done


@contextmanager
def to_registry(
    reference: str, site: Site, oras: Tool, *, say: Callable[[str], None], ca: Path | None = None,
    plain: bool = False,
) -> Iterator[Access]:  # fmt: skip
    """The registry of a reference, with ``ca`` or the site's, its proxies, and Docker's login for it.

    The login, which a credential helper may have, goes to oras in a file that only its user can read.
    """
    registry = parsed(reference)["host"]
    with TemporaryDirectory(prefix="stackwright-login-") as name:
        folder = Path(name)
        (folder / "config.json").write_text(json.dumps({"auths": _auths(registry)}))
        env = {"DOCKER_CONFIG": name, **dict(site.proxies)}
        folders = [folder]
        if known := ca or site.ca:
            env["SSL_CERT_FILE"] = str(known.resolve())
            folders.append(known.resolve().parent)
        yield Access(oras=oras, env=env, folders=tuple(folders), plain=plain, say=say)


def _auths(registry: str) -> dict[str, dict[str, str]]:
    """As Docker's configuration has them."""
    known = credentials.of(registry)
    if not known:
        return {}
    pair = f"{known.get('username', '')}:{known.get('password', '')}"
    entry = {"auth": base64.b64encode(pair.encode()).decode()}
    if "identitytoken" in known:
        entry["identitytoken"] = known["identitytoken"]
    return {registry: entry}


CAUSES = (
    (r"credential not found", "the registry asks for a login, and Docker's configuration has none for it",
     "docker login"),
    (r"unauthorized|status code 401", "the registry does not take the login", "docker login"),
    (r"status code 507", "the registry's disk is full", "free space there"),
    (r"denied|status code 403", "the login may not do this", "ask for the right to it"),
    (r"signed by unknown authority", "the registry's certificate is of an unknown authority",
     "name the authority's certificate: 'ca' of the site's registry, or SSL_CERT_FILE"),
    (r"HTTP response to HTTPS client", "no TLS is spoken there",
     "is the port right? 'plain: true' of the site's registry, or --plain-http, is for http"),
    (r'"http://[^"]*": response status code 400', "it takes no plain http",
     "leave out --plain-http, and 'plain' of the site's registry"),
    (r"no such host", "there is no host of this name", "is the name right?"),
    (TRANSIENT_MESSAGE.pattern, "the registry does not answer", "is it running, and is the port right?"),
    (r": not found$|\b(manifest|name|blob) unknown", "it is not there",
     "is the name right, and was it published?"),
)  # fmt: skip
"""What oras says, seen with oras 1.2 before docker-registry 2.8. It prints "not found" for words as well."""


def _failure(done: Completed, reference: str, doing: str) -> StackwrightError:
    if "mismatch" in done.stderr:
        cause = f"the registry sends bytes that do not match the digest: {last_line(done)}"
        return AttestError(cause, place=reference, hint="publish the image again")
    errors = [line for line in done.stderr.splitlines() if line.startswith("Error")]
    words = (errors or [last_line(done)])[0]
    said = "".join(letter if letter.isprintable() else " " for letter in words)  # also of the registry
    for pattern, cause, hint in CAUSES:
        if re.search(pattern, said, re.IGNORECASE):
            return PublishError(f"{cause} ({said})", place=reference, hint=hint)
    hint = "try oras with the same reference by hand"
    return PublishError(f"cannot be {doing}: {said}", place=reference, hint=hint)


def parsed(reference: str) -> re.Match[str]:
    """Raise UsageError where it is no reference of an image in a registry."""
    match = REFERENCE.fullmatch(reference)
    if match is None:
        hint = "HOST/NAME:TAG or HOST/NAME@sha256:…, NAME in lower case; or a folder in the OCI layout"
        raise UsageError("not a reference of an image", place=reference[:200], hint=hint)
    return match


def pinned(reference: str, digest: str) -> str:
    """Return the same image by its digest."""
    match = parsed(reference)
    return f"{match['host']}/{match['name']}@{digest}"
