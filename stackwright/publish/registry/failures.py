"""Errors of a registry: transient ones, and final ones with their cause."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import requests
from dxf.exceptions import (
    DXFAuthInsecureError,
    DXFDigestMismatchError,
    DXFUnauthorizedError,
    DXFUnexpectedError,
)
from urllib3.exceptions import InvalidHeader
from urllib3.util import Retry

from stackwright.core.errors import PublishError
from stackwright.host.retry import NO_SUCH_NAME, transient_status

KINDS = (DXFAuthInsecureError, DXFUnauthorizedError, DXFUnexpectedError, KeyError, ValueError)
"""What python-dxf raises besides the exceptions of requests; the last two where an answer lacks a header."""

PASSING = (requests.Timeout, requests.exceptions.ChunkedEncodingError)
CUT = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""The other side went away in the middle of TLS, which says nothing about its certificate."""

TUNNEL = re.compile(r"Tunnel connection failed: (\d{3})")
"""The message of http.client for a proxy that does not lead to the registry, and the proxy's answer."""

FULL = re.compile(r'"Err": ?28\b|no space left|disk full|ENOSPC|XMinioStorageFull', re.IGNORECASE)
"""28 is ENOSPC in docker-registry's messages about its driver."""

QUOTA = re.compile(r"quota|exceed[^.]*(limit|storage)|storage limit|insufficient storage", re.IGNORECASE)
TITLE = re.compile(r"<title>(.*?)</title>", re.IGNORECASE | re.DOTALL)
PROXY = "correct 'proxy' of the site, or http_proxy and https_proxy"
MOST_SHOWN = 300
"""Characters of what a registry says."""


def final(error: Exception, host: str, repository: str, *, login: bool) -> PublishError | None:
    """Return the final error, or None where a retry may help.

    ``login``: whether a login for this registry was there to be sent.
    """
    place = f"{host}/{repository}"
    if isinstance(error, (DXFUnauthorizedError, DXFAuthInsecureError)):
        return _unauthorized(error, host, place, login=login)
    if isinstance(error, DXFDigestMismatchError):
        return PublishError(f"it gave other bytes: {error}", place=place, hint="check its storage")
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return _answered(error.response, host, place, login=login)
    if isinstance(error, requests.ConnectionError):
        return _not_reached(error, host)
    if isinstance(error, PASSING):
        return None
    said = f"no {error.args[0]!r}" if isinstance(error, KeyError) else str(error)
    return stranger(said, place)


def stranger(said: str, place: str) -> PublishError:
    """``said``: what was wrong with its answer, or the head of it."""
    hint = "is it a registry? is a proxy, or a page for people to log in, before it?"
    title = TITLE.search(said)
    cause = f"the answer is not a registry's: {_short(title[1] if title else said)}"
    return PublishError(cause, place=place, hint=hint)


def _not_reached(error: requests.ConnectionError, host: str) -> PublishError | None:
    if isinstance(error, requests.exceptions.ProxyError):
        return _by_proxy(error, host)
    if isinstance(error, requests.exceptions.SSLError):
        return None if isinstance(root(error), CUT) else _certificate(error, host)
    if _no_such_name(error):
        asked = _asked(error) or host
        hint = (
            "correct 'registry' of the site" if host.startswith(asked) else f"{host} sends its clients there"
        )
        return PublishError("there is no host of this name", place=asked, hint=hint)
    return None


def _no_such_name(error: Exception) -> bool:
    deepest = root(error)
    return isinstance(deepest, socket.gaierror) and deepest.errno in NO_SUCH_NAME


def _asked(error: Exception) -> str:
    """Return the host that was asked: a registry may send its clients to another one, for a token or a
    layer."""
    request = getattr(error, "request", None)
    return urlsplit(request.url or "").hostname or "" if request is not None else ""


def _by_proxy(error: requests.exceptions.ProxyError, host: str) -> PublishError | None:
    if _no_such_name(error):
        return PublishError("the proxy's name is that of no host", place=host, hint=PROXY)
    answer = TUNNEL.search(str(root(error)))
    if answer is None or transient_status(int(answer[1])):
        return None
    if answer[1] == "407":
        return _no_login_at_proxy(host)
    return PublishError(f"the proxy does not lead there ({answer[1]})", place=host, hint=PROXY)


def _no_login_at_proxy(host: str) -> PublishError:
    cause = "407: the proxy asks for a login, or does not take the one that it was given"
    return PublishError(cause, place=host, hint=f"{PROXY}: the login stands in its address")


def _unauthorized(error: Exception, host: str, place: str, *, login: bool) -> PublishError:
    if isinstance(error, DXFAuthInsecureError):
        cause = "it asks for a login, and a password is not sent over plain http"
        return PublishError(cause, place=place, hint="give the registry a certificate, and leave out 'plain'")
    if login:
        cause = "401: the registry does not accept the user or the password of Docker's configuration"
        hint = f"docker login {host}; or may this user not write there?"
        return PublishError(cause, place=place, hint=hint)
    cause = "401: the registry asks for a login, and Docker's configuration has none for it"
    return PublishError(cause, place=place, hint=f"docker login {host}")


def _certificate(error: requests.exceptions.SSLError, host: str) -> PublishError:
    said = str(root(error))
    if "WRONG_VERSION_NUMBER" in said or "record layer failure" in said:
        cause = "no TLS is spoken there"
        return PublishError(
            cause, place=host, hint="is the port right? 'plain: true' of the site is for http"
        )
    reason = re.search(r"certificate verify failed: ([^(]*)", said)
    if not reason:
        hint = f"openssl s_client -connect {host}"
        return PublishError(f"TLS fails: {_short(said)}", place=host, hint=hint)
    cause = f"its certificate is not trusted: {reason[1].strip()}"
    return PublishError(cause, place=host, hint="name the CA that signed it: 'ca' of the site's registry")


def _answered(response: requests.Response, host: str, place: str, *, login: bool) -> PublishError | None:
    said, status = message(response), response.status_code
    if status == 407 or _is_page(response):
        return _answered_before_it(status, said, host)
    if status == 507 or FULL.search(response.text):
        return PublishError(f"the registry's disk is full ({status})", place=host, hint="free space there")
    if status == 413 or (status != 429 and QUOTA.search(said)):
        hint = "delete what is not needed there, or ask for more"
        return PublishError(f"the quota is used up ({status}): {said}", place=place, hint=hint)
    if transient_status(status):
        return None
    if status == 403:
        cause = "the login is right, and may not do this" if login else "without a login this may not be done"
        hint = "ask for the right to push to this repository" if login else f"docker login {host}"
        return PublishError(f"403: {cause}: {said}", place=place, hint=hint)
    return PublishError(f"the registry refuses ({status}): {said}", place=place, hint="read its log")


def _is_page(response: requests.Response) -> bool:
    """A registry speaks JSON, or plain words: pages are of proxies, and their words are no registry's."""
    return "html" in response.headers.get("Content-Type", "") or response.text.lstrip().startswith("<")


def _answered_before_it(status: int, said: str, host: str) -> PublishError | None:
    if transient_status(status):
        return None
    if status == 407:
        return _no_login_at_proxy(host)
    hint = "look at the proxy before the registry"
    if status == 413:
        hint += ": a layer has GBs, and it limits a request's size"
    cause = f"the proxy in front of the registry refuses ({status}): {said}"
    return PublishError(cause, place=host, hint=hint)


def message(response: requests.Response) -> str:
    """Return what the registry says, as the specification of OCI has it, else the head of its answer."""
    try:
        errors: list[dict[str, Any]] = response.json()["errors"]
        texts = [f"{error.get('code', '')} {error.get('message') or ''}".strip() for error in errors]
    except (ValueError, LookupError, TypeError, AttributeError):
        text = TITLE.search(response.text) if _is_page(response) else None
        texts = [text[1] if text else response.text or response.reason or ""]
    return _short("; ".join(texts))


def why(error: Exception) -> str:
    """Return a transient error in a few words."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"{error.response.status_code}: {message(error.response)}"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    deepest = root(error)
    if isinstance(deepest, OSError) and deepest.strerror:
        return deepest.strerror.lower()
    if isinstance(error, requests.exceptions.ProxyError):
        return f"the proxy: {_short(str(deepest))}"
    return _short(str(deepest)) or type(deepest).__name__


def asked_to_wait(error: Exception) -> float:
    """Seconds of the header Retry-After, which may also be a date; 0 where there is none."""
    if not isinstance(error, requests.HTTPError) or error.response is None:
        return 0.0
    header = error.response.headers.get("Retry-After")
    try:
        return float(Retry().parse_retry_after(header)) if header else 0.0
    except InvalidHeader:
        return 0.0


def root(error: BaseException) -> BaseException:
    """Return the innermost of the exceptions that requests and urllib3 wrap around each other."""
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        error = next(_inner(error), error)
    return error


def _inner(error: BaseException) -> Iterator[BaseException]:
    for inside in (getattr(error, "reason", None), *error.args, error.__cause__, error.__context__):
        if isinstance(inside, BaseException):
            yield inside


def _short(text: str) -> str:
    """One line without control characters: what a registry says must not steer the terminal."""
    words = "".join(letter if letter.isprintable() else " " for letter in text).split()
    return " ".join(words)[:MOST_SHOWN]
