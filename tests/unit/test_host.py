"""What is read from the host's configuration, and what of it may enter a build."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackwright.core.errors import SiteError
from stackwright.core.facts import distributions
from stackwright.core.model import base_images
from stackwright.core.model.site import Site
from stackwright.host.runner import Runner
from stackwright.host.site import settings

MIRROR = "http://mirror.example/debian"
TRIXIE, FOCAL, NOBLE = (distributions.known(os) for os in ("debian-13", "ubuntu-20.04", "ubuntu-24.04"))


def _site(**values: object) -> Site:
    empty: dict[str, object] = {"mirror": None, "ca": None, "pip": (), "proxies": ()}
    return Site(**{**empty, **values})  # type: ignore[arg-type]


def _pip(tmp_path: Path, text: str, **environ: str) -> dict[str, str]:
    file = tmp_path / "pip.conf"
    file.write_text(text)
    return dict(settings.pip_config(environ, (file,)))


# -- mirror ----------------------------------------------------------------------------------------


def test_the_mirror_is_the_one_of_the_hosts_release() -> None:
    listing = (
        "http://security.example/debian-security/|bookworm-security|main\n"
        "cdrom://disc/|bookworm|main\n"
        "http://other.example/vendor/|bookworm|stable\n"
        f"{MIRROR}/|bookworm|main\n"
        "http://late.example/debian/|bookworm|main\n"
    )
    assert settings.mirror_among(listing, "bookworm") == MIRROR
    assert settings.mirror_among(listing, "trixie") is None
    assert settings.mirror_among("", "bookworm") is None


@pytest.mark.parametrize(
    "address",
    [
        "http://mirror.example/debian\nURIs: http://evil.example",
        "http://mirror.example/debian main",
        "http://mirror.example/`id`",
        "http://mirror.example/\x00",
        "http://mirror.example/'x",
        "ftp://mirror.example/debian",
        "file:///srv/debian",
        "http://",
        "http://[::1",
        "mirror.example/debian",
        "",
    ],
)
def test_what_is_no_plain_address_is_refused(address: str) -> None:
    with pytest.raises(SiteError) as caught:
        settings.checked_url(address, "STACKWRIGHT_APT_MIRROR")
    assert caught.value.place == "STACKWRIGHT_APT_MIRROR"


@given(st.text())
def test_no_text_can_add_a_line_to_apt_sources(text: str) -> None:
    try:
        address = f"http://mirror.example/{text}"
        sources = settings.apt_sources(address, TRIXIE) + settings.apt_sources(address, FOCAL)
    except SiteError:
        return
    assert len(sources.splitlines()) == 5 + 3


def test_apt_sources() -> None:
    assert settings.apt_sources(MIRROR, TRIXIE) == (
        f"Types: deb\nURIs: {MIRROR}\nSuites: trixie\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    )


def test_apt_sources_are_in_the_notation_of_the_file_that_they_stand_for() -> None:
    key = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
    assert FOCAL.sources == "/etc/apt/sources.list"
    assert settings.apt_sources(MIRROR, FOCAL) == "".join(
        f"deb [signed-by={key}] {MIRROR} {suite} main universe\n"
        for suite in ("focal", "focal-security", "focal-updates")
    )
    assert NOBLE.sources.endswith("/ubuntu.sources")
    assert "\nSuites: noble noble-security noble-updates\n" in settings.apt_sources(MIRROR, NOBLE)


def test_each_distribution_has_its_own_mirror(tmp_path: Path) -> None:
    site = _site(mirror=MIRROR, ubuntu="http://mirror.example/ubuntu")
    (secret,) = settings.site_secrets(tmp_path, site, FOCAL)
    assert secret.path.read_text().count("http://mirror.example/ubuntu ") == 3
    assert settings.site_secrets(tmp_path, _site(mirror=MIRROR), FOCAL) == ()
    named = {"STACKWRIGHT_UBUNTU_MIRROR": MIRROR}
    assert settings.apt_mirror(Runner(), named, "ubuntu") == MIRROR


# -- certificates ----------------------------------------------------------------------------------


def test_the_named_bundle_wins_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.pem", tmp_path / "theirs.pem"
    ours.touch()
    theirs.touch()
    both = {"STACKWRIGHT_CA_BUNDLE": str(ours), "SSL_CERT_FILE": str(theirs)}
    assert settings.ca_bundle(both) == ours
    assert settings.ca_bundle({"SSL_CERT_FILE": str(theirs)}) == theirs
    with pytest.raises(SiteError) as caught:
        settings.ca_bundle({"SSL_CERT_FILE": str(tmp_path / "absent")})
    assert caught.value.place == "SSL_CERT_FILE"


# -- pip -------------------------------------------------------------------------------------------


def test_only_remote_indexes_are_taken_from_pips_configuration(tmp_path: Path) -> None:
    text = (
        "[global]\nindex-url = https://user:p%40ss@index.example/simple\nfind-links = /srv/wheels\n"
        "extra_index_url =\n    file:///srv/simple\n    https://more.example/simple\ntimeout = 60\n"
        "trusted-host = index.example more.example:8080\n"
    )
    assert _pip(tmp_path, text) == {
        "index-url": "https://user:p%40ss@index.example/simple",
        "extra-index-url": "https://more.example/simple",
        "trusted-host": "index.example more.example:8080",
    }


def test_only_local_folders_is_no_configuration(tmp_path: Path) -> None:
    assert _pip(tmp_path, "[global]\nextra-index-url = file:///a file:///b\nfind-links = /c\n") == {}


def test_the_environment_wins(tmp_path: Path) -> None:
    text = "[global]\nindex-url = https://file.example/simple\n"
    found = _pip(tmp_path, text, PIP_INDEX_URL="https://env.example/simple")
    assert found == {"index-url": "https://env.example/simple"}


def test_the_section_of_install_wins_over_the_global_one(tmp_path: Path) -> None:
    text = (
        "[install]\nindex-url = https://install.example/s\n[global]\nindex-url = https://global.example/s\n"
    )
    assert _pip(tmp_path, text) == {"index-url": "https://install.example/s"}


def test_a_later_file_wins(tmp_path: Path) -> None:
    files = []
    for name in ("weak", "strong"):
        file = tmp_path / name
        file.write_text(f"[global]\nindex-url = https://{name}.example/simple\n")
        files.append(file)
    assert dict(settings.pip_config({}, tuple(files))) == {"index-url": "https://strong.example/simple"}


def test_pip_can_be_told_to_read_no_file() -> None:
    assert settings.pip_files({"PIP_CONFIG_FILE": "/dev/null"}) == ()
    assert Path("/x/pip.conf") in settings.pip_files({"PIP_CONFIG_FILE": "/x/pip.conf", "HOME": "/home/u"})


@pytest.mark.parametrize(
    "text",
    [
        "index-url = https://no.section/simple\n",
        "[global]\nindex-url = gopher://index.example/\n",
        "[global]\nindex-url = https://index.example/;rm\\ -rf\n",
        "[global]\ntrusted-host = a$(id)\n",
    ],
)
def test_a_broken_configuration_names_its_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(SiteError) as caught:
        _pip(tmp_path, text)
    assert caught.value.place.startswith(str(tmp_path / "pip.conf"))


# -- proxies ---------------------------------------------------------------------------------------


def test_proxies() -> None:
    environ = {
        "HTTP_PROXY": "http://big.example:1",
        "http_proxy": "http://small.example:1",
        "NO_PROXY": ".local",
    }
    assert settings.proxies(environ) == (("http_proxy", "http://small.example:1"), ("no_proxy", ".local"))
    assert settings.proxies({}) == ()
    with pytest.raises(SiteError):
        settings.proxies({"https_proxy": "proxy.example 8080"})


# -- secrets ---------------------------------------------------------------------------------------


def test_secrets_are_private_and_hold_what_the_site_has(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_bytes(b"PEM")
    site = _site(mirror=MIRROR, ca=bundle, pip=(("index-url", "https://index.example/simple"),))
    folder = tmp_path / "private"
    secrets = settings.site_secrets(folder, site, TRIXIE)
    assert {secret.id: secret.path.read_text() for secret in secrets} == {
        "ca": "PEM",
        "apt-sources": settings.apt_sources(MIRROR, TRIXIE),
        "pip-conf": "[global]\nindex-url = https://index.example/simple\n",
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(secret.path.stat().st_mode) for secret in secrets} == {0o600}
    assert secrets[0].argument == f"id=ca,src={folder}/ca"


def test_a_site_without_anything_has_no_secrets(tmp_path: Path) -> None:
    assert settings.site_secrets(tmp_path / "private", _site(), TRIXIE) == ()


def test_a_file_planted_under_a_secrets_name_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    folder = tmp_path / "private"
    folder.mkdir()
    (folder / "apt-sources").symlink_to(victim)
    settings.site_secrets(folder, _site(mirror=MIRROR), TRIXIE)
    assert victim.read_text() == "untouched"


# -- disk ------------------------------------------------------------------------------------------


def test_free_disk_of_a_folder_that_is_yet_to_be(tmp_path: Path) -> None:
    assert settings.free_disk(tmp_path / "a" / "b") > 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("https_proxy", "socks5://user:planted@proxy.example:1080"),
        ("https_proxy", "http://user:plan ted/planted@proxy.example"),
        ("https_proxy", "http://user:planted@proxy.example:99999"),
        ("https_proxy", "http://user:planted#planted@proxy.example:3128"),
        ("http_proxy", "http://user:planted/planted@proxy.example:3128"),
        ("PIP_TRUSTED_HOST", "user:planted@pypi.example"),
        ("STACKWRIGHT_REGISTRY", "user:planted@registry.example/hpc"),
        ("STACKWRIGHT_CACHE", "https://user:planted@registry.example/hpc"),
    ],
)
def test_an_address_that_is_refused_is_shown_without_its_password(name: str, value: str) -> None:
    with pytest.raises(SiteError) as caught:
        settings.site(Runner(), {name: value, "STACKWRIGHT_APT_MIRROR": "http://mirror.example/debian"})
    assert "planted" not in str(caught.value) and "…@" in str(caught.value)


# -- images ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "image", "pulled_as"),
    [
        ("", "ubuntu:24.04", "docker.io/library/ubuntu"),
        ("", "nvidia/cuda:12.8.1-devel", "docker.io/nvidia/cuda"),
        ("http://127.0.0.1:5000", "ubuntu:24.04", "127.0.0.1:5000/library/ubuntu"),
        ("https://mirror.example/hub/", "nvidia/cuda:1", "mirror.example/hub/nvidia/cuda"),
    ],
)
def test_an_image_is_pulled_by_digest_from_what_stands_for_docker_io(
    said: str, image: str, pulled_as: str
) -> None:
    digest = f"sha256:{'a' * 64}"
    source = settings._images({"STACKWRIGHT_IMAGE_MIRROR": said})
    assert source and source.plain == said.startswith("http:")
    assert base_images.reference(_site(images=source), image, digest) == f"{pulled_as}@{digest}"
    assert base_images.local_name(image, digest).endswith("-aaaaaaaaaaaa")


def test_where_images_are_handed_in_none_is_pulled_by_digest() -> None:
    assert settings._images({"STACKWRIGHT_IMAGE_MIRROR": "none"}) is None
    with pytest.raises(SiteError, match="takes images from no registry"):
        base_images.source_of(_site())


@pytest.mark.parametrize(
    "said",
    ["mirror.example", "https://me:secret@mirror.example", "https://mirror.example/Hub", "http://m/?a=b"],
)
def test_what_is_no_address_of_a_registry_is_refused_without_its_password(said: str) -> None:
    with pytest.raises(SiteError) as caught:
        settings._images({"STACKWRIGHT_IMAGE_MIRROR": said})
    assert caught.value.place == "STACKWRIGHT_IMAGE_MIRROR"
    assert "secret" not in str(caught.value)
