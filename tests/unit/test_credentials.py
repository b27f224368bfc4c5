"""The search for credentials by their shape. Those here are made up; none has ever opened anything."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
from base64 import b64encode
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackwright.core.credentials import EXCEPTIONS, OVERLAP, Search, kinds, redact, redacted

RANDOM = Random(7)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def drawn(length: int, letters: str = LETTERS) -> str:
    return "7" + "".join(RANDOM.choice(letters) for _ in range(length - 1))


BODY = "\n".join(drawn(64) for _ in range(4))
PEM = f"-----BEGIN PRIVATE KEY-----\n{BODY}\n-----END PRIVATE KEY-----\n"
LOCKED = f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB12\n\n{BODY}\n"
JWT = ".".join(("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", "eyJzdWIiOiIxMjM0NTY3ODkwIn0", drawn(43)))
LOGIN = b64encode(b"build:Vq8tGm2x").decode()

PLANTED = (
    ("private key", PEM),
    ("private key", LOCKED),
    ("private key", PEM.replace("PRIVATE", "OPENSSH PRIVATE")),
    ("private key", json.dumps({"private_key": PEM})),
    ("private key", f"PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: x\n{BODY}"),
    ("private key", f"[Interface]\nPrivateKey = {drawn(43)}=\n"),
    ("AWS key", "AKIA" + drawn(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")),
    ("AWS key", f"aws_secret_access_key = {drawn(40)}"),
    ("GitHub token", "ghp_" + drawn(36)),
    ("GitHub token", "github_pat_" + drawn(82)),
    ("GitLab token", "glpat-" + drawn(20)),
    ("Slack token", "xoxb-" + drawn(40)),
    ("Google key", "AIza" + drawn(35)),
    ("Hugging Face token", "hf_" + drawn(34)),
    ("API key", "sk-proj-" + drawn(48)),
    ("NVIDIA key", "nvapi-" + drawn(64)),
    ("PyPI token", "pypi-AgEIcHlwaS5vcmc" + drawn(60)),
    ("npm token", f"//npm.planted.example/:_authToken={drawn(36)}"),
    ("Docker token", "dckr_pat_" + drawn(27)),
    ("Azure key", f"AccountName=a;AccountKey={drawn(86)}=="),
    ("JWT", JWT),
    ("login in an address", "git clone https://build:Vq8tGm2x@git.site.example/a.git"),
    ("login in an address", f"https://{drawn(40)}@index.site.example/simple"),
    ("login in an address", "redis://:Vq8tGm2x@cache.site.example:6379/0"),
    ("netrc", "machine index.site.example login build password Vq8tGm2x"),
    ("netrc", "machine index.site.example\n  login build\n  password Vq8tGm2x\n"),
    ("login of a registry", json.dumps({"auths": {"registry.site.example": {"auth": LOGIN}}})),
    ("HTTP login", f"curl -H 'Authorization: Basic {LOGIN}'"),
    ("HTTP token", f"curl -H 'Authorization: Bearer {drawn(32)}'"),
    ("hash of a password", f"root:$6$saltsalt${drawn(86)}:19000:0:99999:7:::"),
    ("password", "PASSWORD=hunter2"),
    ("password", "ENV DB_PASSWORD=hunter2 LANG=C.UTF-8"),
    ("password", "RUN |1 INDEX_TOKEN=a1b2c3d4 /bin/sh -c true"),
    ("password", "RUN echo 'train:Vq8tGm2x' | chpasswd"),
    ("password", "RUN curl -u build:Vq8tGm2x https://index.site.example"),
    ("password", "RUN skopeo login --username build --password Vq8tGm2x registry.site.example"),
    ("password", f"WANDB_API_KEY={drawn(40, '0123456789abcdef')}"),
    ("password", "password: Vq8tGm2x"),
    ("password", '{"adminPassword": "correct horse battery staple"}'),
)


@pytest.mark.parametrize(
    ("kind", "text"), PLANTED, ids=[f"{n} {kind}" for n, (kind, _) in enumerate(PLANTED)]
)
def test_it_is_found_and_redacted(kind: str, text: str) -> None:
    assert kind in kinds(text)
    clean = redact(text)
    assert kinds(clean) == ()
    assert f"[redacted: {kind}]" in clean
    for word in ("hunter2", "Vq8tGm2x", "a1b2c3d4", LOGIN, BODY[:64], "battery"):
        assert word not in clean


HARMLESS = (
    "PASSWORD_FILE=/run/secrets/db",
    "password=$PASSWORD",
    'password = os.environ["PASSWORD"]',
    "token: ${{ secrets.X }}",
    "the password is asked for",
    "http://user:password@proxy:8080",
    "https://a:b@example.com/",
    "git@github.com:o/r.git",
    "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "pkg:pypi/torch@2.6.0",
    "nvidia/cuda:12.4.1-devel-ubuntu22.04",
    "-----BEGIN PRIVATE KEY-----",
    '"-----BEGIN RSA PRIVATE KEY-----\n" in text',
    "-----BEGIN CERTIFICATE-----\n" + BODY,
    "https://host/path:8080@2x.png",
    "KEY=value",
    "NCCL_SOCKET_IFNAME=eth0",
    "Digest: sha256=abababababababababababababababababababababababababababababababab",
    "SSH_AUTH_SOCK=/tmp/agent",
    "token = get_token()",
    "password: <your password>",
    "api_key=XXXXXXXXXXXX",
    "HOROVOD_SECRET_KEY=",
    "RUN useradd --password '*' train",
    "usermod --password '*' train",
    "ghp_short",
    "--mount=type=secret,id=ca --mount=type=cache,id=pip",
    "docker build --secret id=ca,src=/tmp/site/ca --secret id=apt-sources,src=/tmp/site/sources .",
    "docker build --secret type=env,id=NAME .",
    "mpirun --mca oob_tcp_if_include eth0",
)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert kinds(text) == ()
    assert redact(text) == text


def found(content: bytes, path: str = "/srv/left", size: int = 2**20) -> tuple[str, ...]:
    search = Search(path)
    for start in range(0, len(content), size):
        known = min(start, OVERLAP)
        search.look(content[start - known : start + size], known)
    return search.found()


@pytest.mark.parametrize("size", [512, 600, 2**20])
@pytest.mark.parametrize("before", [0, 400, 511, 5000])
def test_a_file_in_pieces(size: int, before: int) -> None:
    content = b"x" * before + b"\n" + PEM.encode() + b"\n" + b"y" * 5000
    assert found(content, size=size) == ("private key",)


def tar_of(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return file.getvalue()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_in_an_archive(pack: type[bytes]) -> None:
    """A tar, and one that is compressed; the name says nothing."""
    netrc = b"machine index.site.example login build password Vq8tGm2x\n"
    assert found(pack(tar_of("home/train/.netrc", netrc)), "/var/lib/data.bin") == ("netrc",)
    assert found(pack(tar_of("k", PEM.encode())), "/var/lib/data.bin", size=700) == ("private key",)


def test_a_damaged_archive_is_no_error() -> None:
    assert found(b"\x1f\x8b" + b"no gzip at all" * 100) == ()
    assert found(gzip.compress(PEM.encode() * 50)[:200]) == ("private key",)


KEYS_IN_DER = (
    "308204bd020100300d06092a864886f70d0101010500048204a7308204a3020100028201010",
    "308204a40201000282010100c0", "30770201010420", "302e020100300506032b6570042204",
)  # fmt: skip


@pytest.mark.parametrize("head", KEYS_IN_DER)
def test_a_key_without_letters(head: str) -> None:
    content = bytes.fromhex(head + "0" * (len(head) % 2)) + bytes(range(256)) * 4
    assert found(content, "/etc/app/data") == ("private key",)


def test_a_program_is_searched_for_keys_alone() -> None:
    program = b"\x7fELF\x02\x01\x01" + bytes(600)
    assert found(program + b"PASSWORD=hunter2 ghp_" + b"a1" * 18) == ()
    assert found(program + PEM.encode()) == ("private key",)


def test_source_code_that_names_a_password_holds_none() -> None:
    line = b"    token = read_the_token_of_the_site\n    password='s3cr3t-value'\n"
    assert found(line, "/opt/x/client.py") == ()
    assert found(line, "/opt/x/client.conf") == ("password",)
    assert found(b"ghp_" + drawn(36).encode(), "/opt/x/client.py") == ("GitHub token",)


def test_a_large_file_is_no_settings() -> None:
    line = b"password=s3cr3t-value\n"
    assert found(b"x" * 2**19 + b"\n" + line, "/srv/log", size=2**16) == ()
    assert found(line, "/srv/log") == ("password",)


def test_what_a_file_is_known_for_is_not_reported() -> None:
    key = "/opt/stack/lib/python3.13/site-packages/tornado/test/test.key"
    assert found(PEM.encode(), key) == ()
    assert found(PEM.encode() + b"ghp_" + drawn(36).encode(), key) == ("GitHub token",)
    assert found(PEM.encode(), f"/root{key}") == ("private key",)


def test_each_exception_has_a_reason() -> None:
    for exception in EXCEPTIONS:
        assert len(exception.why) > 20
        assert exception.kinds


def test_a_document_is_redacted_by_its_names_too() -> None:
    document = {
        "Env": ["A=1", "DB_PASSWORD=hunter2"], "environment": {"DB_PASSWORD": "hunter2", "LANG": "C.UTF-8"},
        "deep": [{"line": PEM}], "count": 3, "none": None, "headers": {"token": "Vq8tGm2x"},
    }  # fmt: skip
    clean = redacted(document)
    text = json.dumps(clean)
    assert "hunter2" not in text
    assert "Vq8tGm2x" not in text
    assert BODY[:40] not in text
    assert clean["environment"]["LANG"] == "C.UTF-8"
    assert clean["count"] == 3
    assert clean["none"] is None


@given(st.text())
def test_redaction_is_done_after_one_pass(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@given(st.binary(max_size=2000))
def test_any_bytes_can_be_searched(content: bytes) -> None:
    found(content, size=512)
