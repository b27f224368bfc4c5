"""The shapes of credentials, as tables: private keys, tokens of services, logins, passwords that are set.

``credentials`` searches by them. A pattern begins with letters where it can: ``re`` then finds it at 2 GB/s,
and at a tenth of that where it cannot.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

compiled = lru_cache(maxsize=None)(re.compile)
"""Compiled with the first use: all of them take as long as a whole `build.py plan`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """``source`` has a group "value" where the secret is but a part of it. ``is_real`` refuses examples.

    ``word``: it begins where a word begins. ``hints``: each match has one of them, and most texts have none.
    """

    kind: str
    source: bytes
    hints: tuple[bytes, ...]
    is_real: Callable[[bytes], bool] = lambda value: True
    word: bool = False

    @property
    def pattern(self) -> re.Pattern[bytes]:
        return compiled(self.source)


def shape(
    kind: str, source: bytes, is_real: Callable[[bytes], bool] = lambda value: True, *hints: bytes
) -> Shape:
    """Without ``hints``: what the pattern begins with."""
    return Shape(kind=kind, source=source, is_real=is_real, hints=hints or (_begin(source),))


def token(kind: str, source: bytes) -> Shape:
    """One that a service gives out, known by the letters that it begins with."""
    return Shape(kind=kind, source=source, is_real=is_random, word=True, hints=(_begin(source),))


def _begin(source: bytes) -> bytes:
    """The characters before the first that means something else than itself."""
    plain = re.match(rb"(?:[A-Za-z0-9_:/\" -]|\\[.$])+(?![?*{])", source)
    assert plain and len(plain[0]) > 1, source
    return plain[0].replace(b"\\", b"")


# -- what is an example -----------------------------------------------------------------------------

EXAMPLE = (
    rb"(?i)(?:(?:my|your|the|a|some|user|users?|test|db|new|old|no|super|top|an?y)[-_ ]?)?"
    rb"(?:pass(?:word|wd|phrase)?|pwd|pw|secrets?|token|key|login|username|user|foo|bar|baz|foobar|example|dummy"
    rb"|fake|changeme|change[-_]?(?:it|me)|placeholder|redacted|hidden|none|null|nil|true|false|yes|no|on|off|prompt"
    rb"|required|optional|empty|undefined|str|string|bytes|bool|int|self|x+|\*+|\.+|-+|_+)"
    rb"(?:[-_ ]?(?:here|value|file|path|goes[-_ ]here|ref|string|name|id|\d))?"
)
"""A word instead of the secret."""

NO_VALUE = (
    rb"^(\d+:)?\d+(\.\d+)+[\w.+~-]*$|^[/~.*@]|[${}<>()\[\]]|%[sr(]|\.\.\."
    rb"|REDACTED|\[redacted|EXAMPLE|[xX*]{6}"
)
"""A version, a variable, a format, a call, a name of a file; what was made unreadable."""


def is_secret(value: bytes) -> bool:
    return not (compiled(EXAMPLE).fullmatch(value) or compiled(NO_VALUE).search(value))


def is_random(value: bytes) -> bool:
    """Of many different characters, digits among them."""
    return is_secret(value) and len(set(value)) > 8 and re.search(rb"\d", value) is not None


def is_key(value: bytes) -> bool:
    """Not one letter again and again, as in an example."""
    return len(set(value)) > 6


def is_login(value: bytes) -> bool:
    """Base64 of "user:password", as HTTP and Docker's configuration have it."""
    try:
        text = base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    user, colon, secret = text.partition(b":")
    return bool(colon and user and secret) and text.isascii() and is_secret(secret)


def is_jwt(value: bytes) -> bool:
    """Its first part is a JSON object that names an algorithm."""
    head = value.partition(b".")[0]
    try:
        text = base64.urlsafe_b64decode(head + b"=" * (-len(head) % 4))
    except (binascii.Error, ValueError):
        return False
    return text.lstrip().startswith(b"{") and b'"alg"' in text


def is_stored_login(value: bytes) -> bool:
    return is_login(value) or is_jwt(value)


# -- keys -------------------------------------------------------------------------------------------

END_OF_LINE = rb"(?:\r?\n|\\r\\n|\\n)"
"""In JSON, and in a line of the history, the end of a line is two letters."""

PEM = (
    rb"-----BEGIN (?:[A-Z0-9]{2,12} ){0,2}PRIVATE KEY(?: BLOCK)?-----[ \t]*" + END_OF_LINE
    + rb"(?:[A-Za-z-]{2,20}:[^\r\n\\]{0,100}" + END_OF_LINE + rb"|[ \t]*" + END_OF_LINE + rb"){0,6}"
    + rb"[ \t]*(?P<value>[A-Za-z0-9+/=]{32,}(?:" + END_OF_LINE + rb"[A-Za-z0-9+/=]{1,76})*)"
)  # fmt: skip
"""With the begin of the key itself: a library has the first line alone, as text that it compares."""

KEYS = (
    shape("private key", PEM, is_key, b"PRIVATE KEY"),
    shape("private key", rb"PuTTY-User-Key-File-\d: [ -~]{4,40}\r?\nEncryption: [\s\S]{0,4000}"),
    shape("private key", rb"AGE-SECRET-KEY-1[A-Z0-9]{58}", is_random),
    shape("private key", rb"PrivateKey[ \t]*=[ \t]*(?P<value>[A-Za-z0-9+/]{43}=)", is_random),  # WireGuard
)

FIRST_BYTES = (
    ("private key", rb"(?s)\x30\x82..\x02\x01\x00\x02\x82.."),  # PKCS #1
    ("private key", rb"(?s)\x30(?:\x82..|\x81.|[\x20-\x7f])\x02\x01\x00\x30[\x05-\x20]\x06"),  # PKCS #8
    ("private key", rb"(?s)\x30(?:\x81.|[\x20-\x7f])\x02\x01\x01\x04[\x18-\x42]"),  # SEC 1
    ("private key", rb"(?s)\x30\x82..\x02\x01\x03\x30"),  # PKCS #12
    ("private key", rb"(?s)\xfe\xed\xfe\xed\x00\x00\x00[\x01\x02].{4}\x00\x00\x00\x01"),  # Java's key store
    ("private key", rb"(?s)\((?:\d+:)?(?:protected-|shadowed-)?private-key"),  # GnuPG
    ("Kerberos keytab", rb"(?s)\x05\x02\x00\x00[\x00-\x0f].\x00[\x01-\x08]\x00"),
)
"""Of files that are a key as a whole."""

# -- tokens and logins ------------------------------------------------------------------------------

TOKENS = (
    token("AWS key", rb"AKIA[A-Z2-7]{16}(?![A-Za-z0-9])"),
    shape("AWS key", rb"(?i:secret_?access_?key)[\"']?\s{0,3}[=:]\s{0,3}[\"']?"
          rb"(?P<value>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])", is_random,
          b"ecret_access_key", b"ECRET_ACCESS_KEY", b"ecretAccessKey"),
    token("GitHub token", rb"gh[pousr]_[A-Za-z0-9]{36,255}"),
    token("GitHub token", rb"github_pat_[A-Za-z0-9_]{36,255}"),
    token("GitLab token", rb"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat)-[A-Za-z0-9_-]{20,64}"),
    token("Slack token", rb"xox[abeprs]-[A-Za-z0-9-]{16,250}"),
    shape("Slack hook", rb"hooks\.slack\.com/services/(?P<value>T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]{20,})",
          is_random),
    token("Google key", rb"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    token("Google token", rb"ya29\.[A-Za-z0-9_-]{30,}"),
    token("Google secret", rb"GOCSPX-[A-Za-z0-9_-]{28}"),
    token("Stripe key", rb"sk_live_[A-Za-z0-9]{20,}"),
    token("Hugging Face token", rb"hf_[A-Za-z0-9]{34,40}(?![A-Za-z0-9_])"),
    token("API key", rb"sk-(?:proj-|svcacct-|ant-)?[A-Za-z0-9_-]{40,}"),
    token("NVIDIA key", rb"nvapi-[A-Za-z0-9_-]{40,}"),
    token("PyPI token", rb"pypi-AgE[A-Za-z0-9_-]{50,}"),
    token("npm token", rb"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9_])"),
    token("Docker token", rb"dckr_[po]at_[A-Za-z0-9_-]{24,}"),
    token("DigitalOcean token", rb"dop_v1_[a-f0-9]{64}"),
    token("SendGrid key", rb"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    token("Vault token", rb"hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    token("Databricks token", rb"dapi[a-f0-9]{32}(?![a-f0-9])"),
    token("Atlassian token", rb"ATATT3[A-Za-z0-9_=-]{40,}"),
    token("Artifactory key", rb"AKCp[A-Za-z0-9]{60,}"),
    token("Terraform token", rb"\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    shape("Azure key", rb"AccountKey=(?P<value>[A-Za-z0-9+/]{43,88}={0,2})", is_random),
    shape("Azure key", rb"SharedAccessKey=(?P<value>[A-Za-z0-9+/]{43,88}={0,2})", is_random),
    shape("JWT", rb"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{16,}", is_jwt),
)  # fmt: skip

AUTHORIZATION = rb"uthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?"

LOGINS = (
    shape("login in an address",  # names like example.com are reserved (RFC 2606)
          rb"://[^\s/:@\"'<>|,;`\\]{0,64}:(?P<value>[^\s/:@\"'<>|,;`\\]{3,200})@(?!example\.(?:com|org|net)\b)[\w.\[-]",
          is_secret),
    shape("login in an address", rb"://(?P<value>[A-Za-z0-9_-]{20,200})@[\w.-]", is_random),
    shape("netrc", rb"machine[ \t]+\S+\s+(?:account\s+\S+\s+)?login\s+\S+\s+(?:account\s+\S+\s+)?"
          rb"password\s+(?P<value>\S{3,})", is_secret),
    shape("netrc", rb"default[ \t]+login\s+\S+\s+password\s+(?P<value>\S{3,})", is_secret),
    shape("login of a registry",
          rb"\"(?:auth|identitytoken|registrytoken)\"\s*:\s*\"(?P<value>[A-Za-z0-9+/=_.-]{8,})\"",
          is_stored_login, b'"auth"', b'tytoken"', b'rytoken"'),
    shape("npm token", rb"_auth(?:Token)?[ \t]*=[ \t]*[\"']?(?P<value>[A-Za-z0-9+/=_-]{8,})", is_random),
    shape("HTTP login", AUTHORIZATION + rb"[Bb]asic (?P<value>[A-Za-z0-9+/=]{8,})", is_login),
    shape("HTTP token", AUTHORIZATION + rb"[Bb]earer (?P<value>[A-Za-z0-9+/=_.~-]{16,})", is_random),
    shape("hash of a password", rb":(?P<value>\$(?:1|2[abxy]|5|6|7|y|gy|apr1)\$[A-Za-z0-9./$=,_-]{20,})",
          lambda value: True, b":$"),
)  # fmt: skip

# -- what sets a password ---------------------------------------------------------------------------

NAME = (
    rb"(?i:(?:pass(?:word|wd|phrase|wort)?|pwd|secret|token|credentials?|(?:api|access|auth|private|encryption)[-_]?key)"
    rb"(?:[-_](?:key|value|base64|b64|string|\d{1,2}))?)"
)
"""How the name of a variable ends that holds a secret. One that ends with _FILE or _LENGTH holds none."""

IN_NAMES = tuple(
    word
    for name in (b"ass", b"pwd", b"ecret", b"oken", b"redential", b"key")
    for word in (name, name.upper())
)  # fmt: skip

SETS = (
    shape("password", NAME + rb"[\"']?[ \t]{0,20}(?:=|:[ \t])[ \t]{0,20}"
          rb"(?:\"(?P<value>[^\"\r\n]{4,200})\"|'(?P<single>[^'\r\n]{4,200})'"
          rb"|(?P<bare>[^\s\"',;|&#=][^\s\"',;|&]{3,200})(?=[\s,;|&\"'}\]]|$))", is_secret, *IN_NAMES),
    shape("password", rb"(?<!\bbase)-(?i:password|passwd|token|api-key|secret)[\"', \t]+"
          rb"(?!(?:id|type)=[\w-]{1,32},)"  # BuildKit's --secret names a file, and a person pastes that line
          rb"(?P<value>[^\s\"',;|&-][^\s\"',;|&]{3,200})", is_secret, *IN_NAMES),
    shape("password", rb" (?:-u|--user)[ \t]+[\"']?[\w.@-]{1,64}:(?P<value>[^\s\"',;|&]{4,200})", is_secret,
          b" -u", b" --user"),
    shape("password", rb"echo[ \t]+[\"']?(?:[\w-]{1,32}:)?(?P<value>[^\s\"'|]{4,200})[\"']?[ \t]*\|[ \t]*"
          rb"(?:[\w/]*/)?(?:chpasswd|passwd|(?:docker|podman|oras|helm|skopeo) )", is_secret),
)  # fmt: skip
"""In text that is no source code: NAME=value, NAME: value, "NAME": "value", and words of commands.

base-passwd is a package of Debian.
"""
