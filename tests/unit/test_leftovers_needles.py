"""What of a site is looked for in images; that it is found there is in tests/engine/test_leftovers.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackwright.core.model.site import RegistryAddress, Site
from stackwright.host.runner import Runner
from stackwright.probe import site_leaks


def site(index: str = "", registry: RegistryAddress | None = None) -> Site:
    pip = (("index-url", index),) if index else ()
    return Site(mirror=None, ca=None, pip=pip, proxies=(), registry=registry)


@pytest.mark.parametrize(
    ("index", "wanted"),
    [
        ("https://glpat-planted-0123456789@pypi.planted.example/simple", b"glpat-planted-0123456789"),
        ("https://reader:planted%2FPassw0rd@pypi.planted.example/simple", b"planted/Passw0rd"),
        ("https://PyPI.Planted.Example/simple", b"PyPI.Planted.Example"),
        ("https://PyPI.Planted.Example/simple", b"pypi.planted.example"),
    ],
)
def test_it_is_looked_for_as_it_is_written_and_as_it_is_meant(index: str, wanted: bytes) -> None:
    assert wanted in site_leaks.needles(site(index))["index (index-url)"]


def test_the_name_of_a_user_is_no_secret_and_found_everywhere() -> None:
    assert (
        b"anonymous"
        not in site_leaks.needles(site("https://anonymous@pypi.planted.example/"))["index (index-url)"]
    )


def test_the_authority_of_the_registry_is_looked_for_too(tmp_path: Path) -> None:
    own = tmp_path / "registry.pem"
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=registry"]
    assert Runner()([*new, "-keyout", tmp_path / "x", "-out", own]).ok
    address = RegistryAddress(host="registry.planted.example", repository="hpc", ca=own)
    found = site_leaks.needles(site(registry=address))
    lines = own.read_text().splitlines()
    assert found[f"{site_leaks.CERTIFICATE}0"][0].decode() in lines
    assert found["ca"]
