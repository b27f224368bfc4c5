"""What the host's own configuration says: mirror, certificates, package index, proxies, docker program.

Nothing of this may stay in an image. It enters a build only as BuildKit secrets, see ``site_secrets``.
"""

from __future__ import annotations

import configparser
import contextlib
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from stackwright.core.errors import EngineError, SiteError
from stackwright.core.facts.distributions import Distribution
from stackwright.core.model import labels
from stackwright.core.model.site import REPOSITORY, RegistryAddress, Secret, Site
from stackwright.core.model.target import APT
from stackwright.host.runner import Runner

CA_BUNDLES = (
    Path("/etc/ssl/certs/ca-certificates.crt"),  # Debian, Ubuntu, Arch
    Path("/etc/pki/tls/certs/ca-bundle.crt"),  # Fedora, RHEL
    Path("/etc/ssl/ca-bundle.pem"),  # SUSE
    Path("/etc/ssl/cert.pem"),  # Alpine
)
DOCKER_FOLDERS = ("/usr/bin", "/usr/local/bin")
PIP_SECTIONS = ("global", "install")
PIP_URLS = ("index-url", "extra-index-url", "proxy")
PIP_KEYS = (*PIP_URLS, "trusted-host")
PROXIES = ("http_proxy", "https_proxy", "no_proxy")

SIGNING_PASSWORD = "COSIGN_PASSWORD"  # noqa: S105 (the name of cosign's variable)
UV_NAMES = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "SSL_CERT_FILE")

UV = Path(sys.prefix) / "bin" / "uv"
RESOLVER = ("RES_OPTIONS", "timeout:1 attempts:5")
"""resolv.conf(5), for this process and all that it starts. A name server may drop some of many queries that
come at once, as those of a night do, and glibc waits 5 s by default before it asks again."""
IMAGES = "docker.io"
HANDED_IN = "none"

_HOST = re.compile(r"[A-Za-z0-9.*:\[\]_-]+\Z")
_BUILDER = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,100}")

_IMAGE_NAME = re.compile(
    rf"[A-Za-z0-9]([A-Za-z0-9.-]{{0,200}}[A-Za-z0-9])?(:[0-9]{{1,5}})?/{REPOSITORY.pattern}"
)
_VENDOR = re.compile(r"[^\W_]([^\x00-\x1f\x7f-\x9f\u2028\u2029]{0,198}\S)?")
_UNSAFE = re.compile(r"[\s\x00-\x1f\x7f\"'`\\<>|]")


def site(runner: Runner, environ: Mapping[str, str] = os.environ) -> Site:
    """Read all settings. A command does so once, and hands the value on."""
    ca, pip = ca_bundle(environ), pip_config(environ)
    return Site(
        mirror=apt_mirror(runner, environ),
        ca=ca,
        pip=pip,
        proxies=proxies(environ),
        ubuntu=apt_mirror(runner, environ, "ubuntu"),
        registry=registry(environ),
        signing_key=signing_key(environ),
        cache=_cache(environ),
        builders=_builders(environ),
        images=_images(environ),
        labels=_labels(environ),
        uv=_uv(environ, ca, dict(pip)),
        signing_password=environ.get(SIGNING_PASSWORD, ""),
        sources=_folder("STACKWRIGHT_SOURCES", environ),
    )


def registry(environ: Mapping[str, str] = os.environ) -> RegistryAddress | None:
    """Return where images are published; None where no registry is configured."""
    name = "STACKWRIGHT_REGISTRY"
    if not (text := environ.get(name)):
        return None
    server, _, repository = _repository(text, name).partition("/")
    return RegistryAddress(
        host=server, repository=repository, plain=environ.get(f"{name}_PLAIN", "") not in ("", "0", "false"),
        ca=_named_file(f"{name}_CA", environ) or ca_bundle(environ),
    )  # fmt: skip


def _images(environ: Mapping[str, str]) -> RegistryAddress | None:
    """docker.io, or the mirror of it that the site has; None where images are handed in."""
    name, ca = "STACKWRIGHT_IMAGE_MIRROR", ca_bundle(environ)
    text = environ.get(name)
    if text == HANDED_IN:
        return None
    if not text:
        return RegistryAddress(host=IMAGES, repository="", ca=ca)
    parts = urlsplit(checked_url(text, name))
    repository = parts.path.strip("/")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise SiteError("not http(s)://HOST[:PORT][/REPOSITORY]", place=name, hint="the login is docker's")
    if repository:
        _repository(f"{parts.netloc}/{repository}", name)
    return RegistryAddress(host=parts.netloc, repository=repository, ca=ca, plain=parts.scheme == "http")


def _repository(text: str, place: str) -> str:
    if not _IMAGE_NAME.fullmatch(text):
        hint = "as in registry.example:5000/hpc/images, in lower case; a login is `docker login`'s"
        raise SiteError(f"not HOST[:PORT]/REPOSITORY: {_without_login(text)!r}", place=place, hint=hint)
    return text


def _labels(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the labels that name who made an image; one that is not configured is left out."""
    found = {}
    if vendor := environ.get("STACKWRIGHT_VENDOR"):
        if not _VENDOR.fullmatch(vendor):
            hint = "one line of at most 200 printable characters, with no blank at its ends"
            raise SiteError(f"not a name: {vendor[:40]!r}", place="STACKWRIGHT_VENDOR", hint=hint)
        found[labels.VENDOR] = vendor
    if url := environ.get("STACKWRIGHT_URL"):
        if "@" in urlsplit(checked_url(url, "STACKWRIGHT_URL")).netloc:
            hint = "leave it out: everyone who has the image can read its labels"
            raise SiteError("the address has a login", place="STACKWRIGHT_URL", hint=hint)
        found[labels.URL] = url
    return tuple(found.items())


def signing_key(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the file with the site's private key; None where none is configured."""
    return _named_file("STACKWRIGHT_SIGNING_KEY", environ)


def _cache(environ: Mapping[str, str]) -> str:
    name = "STACKWRIGHT_CACHE"
    return _repository(environ[name], name) if environ.get(name) else ""


def _builders(environ: Mapping[str, str]) -> tuple[str, ...]:
    name = "STACKWRIGHT_BUILDERS"
    names = tuple(environ.get(name, "").split())
    for builder in names:
        if not _BUILDER.fullmatch(builder):
            raise SiteError(f"not the name of a builder: {builder!r}", place=name, hint="docker buildx ls")
    return names


def _named_file(name: str, environ: Mapping[str, str]) -> Path | None:
    if not environ.get(name):
        return None
    path = Path(environ[name])
    if not path.is_file():
        raise SiteError(f"no such file: {path}", place=name, hint="correct it, or unset it")
    return path


def _folder(name: str, environ: Mapping[str, str]) -> Path | None:
    path = Path(environ[name]) if environ.get(name) else None
    if path and not path.is_dir():
        raise SiteError(f"no such folder: {path}", place=name, hint="correct it, or unset it")
    return path


def docker_program(runner: Runner, environ: Mapping[str, str] = os.environ) -> str:
    """Return the first docker that has buildx: a bare client without it may stand first on the PATH."""
    folders = (*environ.get("PATH", os.defpath).split(os.pathsep), *DOCKER_FOLDERS)
    candidates = dict.fromkeys(found for folder in folders if (found := shutil.which("docker", path=folder)))
    for program in candidates:
        if runner([program, "buildx", "version"], timeout=20).ok:
            return program
    cause = f"{', '.join(candidates)}: no buildx" if candidates else "no docker program on the PATH"
    raise EngineError(cause, hint="make engine, or scripts/engine.sh")


def checked_url(text: str, place: str) -> str:
    """Return the address itself, which goes into configuration files of apt and pip as it is."""
    try:
        parts = urlsplit(text)
        # A port that is none is of a password with "/" or "#", and requests would show it: "failed to parse".
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or _UNSAFE.search(text):
        cause = f"not an http(s) address: {_without_login(text)!r}"
        raise SiteError(cause, place=place, hint="correct it, or unset it")
    return text


def _without_login(address: str) -> str:
    """As it may be shown: an error is kept in the history of nights, and read by many."""
    return re.sub(r"^([A-Za-z0-9+.-]*://)?.*@", r"\1…@", address, flags=re.DOTALL)


def apt_mirror(runner: Runner, environ: Mapping[str, str] = os.environ, family: str = "debian") -> str | None:
    """Return the address that a host of this family gets its own release from, and other suites."""
    name = {"debian": "STACKWRIGHT_APT_MIRROR", "ubuntu": "STACKWRIGHT_UBUNTU_MIRROR"}[family]
    if mirror := environ.get(name):
        return checked_url(mirror, name)
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return None
    if release.get("ID") != family:
        return None
    done = runner(APT.list_sources, timeout=60)
    return mirror_among(done.stdout, release.get("VERSION_CODENAME", ""))


def mirror_among(listing: str, codename: str) -> str | None:
    """Return the http(s) address that brings the main component of a release: lines
    address|release|component."""
    for line in listing.splitlines():
        address, *rest = line.split("|")
        if rest == [codename, "main"] and address.startswith(("http://", "https://")):
            return checked_url(address.rstrip("/"), "the host's apt sources")
    return None


def ca_bundle(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the file with the certificates that this host trusts; a named file that is missing is an
    error."""
    for name in ("STACKWRIGHT_CA_BUNDLE", "SSL_CERT_FILE"):
        if named := _named_file(name, environ):
            return named
    return next((path for path in CA_BUNDLES if path.is_file()), None)


def pip_files(environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """pip's configuration files, the weakest first (pip's user guide, "Configuration")."""
    if environ.get("PIP_CONFIG_FILE") == os.devnull:
        return ()
    home = Path(environ.get("HOME", "/"))
    user = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf")]
    files += [home / ".pip/pip.conf", user / "pip/pip.conf", Path(sys.prefix) / "pip.conf"]
    if named := environ.get("PIP_CONFIG_FILE"):
        files.append(Path(named))
    return tuple(files)


def pip_config(
    environ: Mapping[str, str] = os.environ, files: tuple[Path, ...] | None = None
) -> tuple[tuple[str, str], ...]:
    """Where this host's pip gets packages from, without local folders, which a build cannot see."""
    found: dict[str, tuple[str, str]] = {}
    for path in pip_files(environ) if files is None else files:
        for key, value in _read_pip_file(path):
            found[key] = (value, str(path))
    for key in PIP_KEYS:
        name = "PIP_" + key.upper().replace("-", "_")
        if environ.get(name):
            found[key] = (environ[name], name)
    checked = ((key, _checked_pip_value(key, *found[key])) for key in PIP_KEYS if key in found)
    return tuple((key, value) for key, value in checked if value)


def _read_pip_file(path: Path) -> list[tuple[str, str]]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except OSError:
        return []
    except (configparser.Error, UnicodeDecodeError) as error:
        raise SiteError(str(error).splitlines()[0], place=str(path), hint="pip config debug") from error
    sections = (section for section in PIP_SECTIONS if parser.has_section(section))
    return [
        (key.replace("_", "-"), value)
        for section in sections
        for key, value in parser.items(section)
        if key.replace("_", "-") in PIP_KEYS and value
    ]


def _checked_pip_value(key: str, value: str, place: str) -> str:
    words = value.split()
    if key in PIP_URLS:
        remote = (word for word in words if not word.startswith(("file:", "/", ".", "~")))
        return " ".join(checked_url(word, f"{place}, {key}") for word in remote)
    for word in words:
        if not _HOST.match(word):
            raise SiteError(
                f"not a host name: {_without_login(word)!r}", place=f"{place}, {key}", hint="correct it"
            )
    return " ".join(words)


def _uv(environ: Mapping[str, str], ca: Path | None, pip: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return uv's variables: uv does not read pip's configuration, so what that says is handed on."""
    found = {"UV_DEFAULT_INDEX": pip.get("index-url"), "UV_INDEX": pip.get("extra-index-url")}
    found["SSL_CERT_FILE"] = str(ca) if ca else None
    known = {name: environ.get(name, found.get(name)) for name in UV_NAMES}
    return tuple((name, value) for name, value in known.items() if value is not None)


def proxies(environ: Mapping[str, str] = os.environ) -> tuple[tuple[str, str], ...]:
    """Return the proxies of the environment. The lower-case name wins, as in curl."""
    found = ((name, environ.get(name) or environ.get(name.upper(), "")) for name in PROXIES)
    return tuple(
        (name, value if name == "no_proxy" else checked_url(value, name)) for name, value in found if value
    )


def free_disk(path: Path) -> int:
    """Bytes that can be written below ``path``, which need not exist yet."""
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    return shutil.disk_usage(existing).free


def used_disk(folder: Path) -> int:
    """Bytes on the disk below ``folder``, as ``du`` counts them; what vanishes meanwhile has none."""
    total = 0
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH118 (60,000 times)
    return total


def same_disk(path: Path, other: Path) -> bool:
    """Return whether two folders take their bytes from the same file system; False where one is gone."""
    try:
        return path.stat().st_dev == other.stat().st_dev
    except FileNotFoundError:
        return False


def apt_sources(mirror: str, release: Distribution, *, a_copy: bool = False) -> str:
    """In deb822 notation, or in lines, as the file of the release that it takes the place of.

    The keys are those that the image's own package of keys brings. ``a_copy``: the mirror keeps what it had
    on one day.
    """
    address = checked_url(mirror, "mirror")
    return APT.sources(
        address, release.suites, release.components, release.key, in_lines=release.in_lines, a_copy=a_copy
    )


def site_secrets(
    directory: Path, found: Site, release: Distribution, *, a_copy: bool = False
) -> tuple[Secret, ...]:
    """Write the sources of a build's secrets into a private folder (mode 0700, files 0600).

    Ids: ``ca`` (PEM bundle), ``apt-sources``, ``pip-conf``. Settings that are not configured are omitted.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    texts: dict[str, bytes] = {}
    if found.ca:
        texts["ca"] = found.ca.read_bytes()
    if mirror := found.mirror_of(release.id):
        texts[APT.secret] = apt_sources(mirror, release, a_copy=a_copy).encode()
    if found.pip:
        lines = (f"{key} = {value}" for key, value in found.pip)
        texts["pip-conf"] = "\n".join(("[global]", *lines, "")).encode()
    return tuple(Secret(id=name, path=_write_private(directory / name, text)) for name, text in texts.items())


def _write_private(path: Path, content: bytes) -> Path:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    return path


def index_address(runner: Runner, site: Site) -> str:
    """Return the address of the index that uv would ask: the site's, or its own default, which it tells."""
    uv = dict(site.uv)
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        if named := uv.get(name):
            return named
    options = ("--emit-index-url", "--offline", "--no-header", "--no-config", "--no-python-downloads")
    told = runner([UV, "pip", "compile", "-", *options], stdin="", timeout=60)
    named = _first_index(told.stdout.splitlines())
    if not named:
        raise SiteError(
            f"uv does not tell its index: {told.stderr.strip()[-300:]}", hint="set UV_DEFAULT_INDEX"
        )
    return named


def _first_index(lines: Iterable[str]) -> str:
    found = (
        line.split(maxsplit=1)[1] for line in lines if line.startswith(("--index-url ", "--default-index "))
    )
    return next(found, "")
