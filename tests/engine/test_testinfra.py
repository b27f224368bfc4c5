"""testinfra looks into a SIF: a whole Debian, and files that it must not take for one."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import testinfra

from stackwright.build.sif import convert
from stackwright.engines import apptainer
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.host.site import settings as site
from stackwright.probe import testinfra_apptainer

pytestmark = [pytest.mark.engine, pytest.mark.long]
testinfra_apptainer.register()


@pytest.fixture(scope="module")
def program(runner: Runner, docker: Docker) -> Apptainer:
    return apptainer.find(runner, docker, mirror=site.apt_mirror(runner))


@pytest.fixture(scope="module")
def sif(program: Apptainer, runner: Runner, docker: Docker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The only Debian that is sure to be there: the image that apptainer itself runs in."""
    target = tmp_path_factory.mktemp("with spaces and 100%") / "debian.sif"
    apptainer.ensure(runner, docker)
    convert.to_sif(
        apptainer.IMAGE, target, docker=docker, runner=runner, apptainer=program, image_bytes=3 * 10**8
    )
    return target


@pytest.fixture
def find(program: Apptainer, sif: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in program.environment(sif.parent).items():
        monkeypatch.setenv(name, value)
    testinfra.host.Host._host_cache.clear()

    def find(hostspec: str, **options: Any) -> Any:
        return testinfra.get_host(
            hostspec, program=str(program.program), exec_options="--containall --no-privs", **options
        )

    return find


@pytest.fixture
def host(find: Any, sif: Path) -> Any:
    return find(str(sif), connection="apptainer")


def test_commands(host: Any) -> None:
    done = host.run("echo %s; echo aside >&2; exit 3", "it's $HOME")
    assert (done.rc, done.stdout, done.stderr) == (3, "it's $HOME\n", "aside\n")
    assert host.run("printf '\\377\\001'").stdout_bytes == b"\xff\x01"
    assert host.check_output("printf %s", "ü") == "ü"


def test_exit_codes_are_the_programs(host: Any) -> None:
    assert [host.run(f"exit {code}").rc for code in (1, 126, 127, 255)] == [1, 126, 127, 255]
    assert host.run("no-such-program").rc == 127
    assert host.run("echo 'FATAL:   of its own' >&2; exit 1").rc == 1
    assert host.run("kill -KILL $$").rc == 137


def test_programs_and_environment(host: Any) -> None:
    assert host.exists("apptainer")
    assert not host.exists("no-such-program")
    assert host.environment()["APPTAINER_CONTAINER"]


def test_files(host: Any) -> None:
    passwd = host.file("/etc/passwd")
    assert (passwd.exists, passwd.is_file, passwd.mode) == (True, True, 0o644)
    assert host.file("/usr").is_directory
    assert host.file("/bin").linked_to == "/usr/bin"
    assert "debian" in host.file("/etc/os-release").content_string
    assert not host.file("/no-such-file").exists


def test_packages(host: Any) -> None:
    assert host.package("squashfs-tools").is_installed
    assert host.package("apptainer").version.startswith("1.")
    assert not host.package("nginx").is_installed


def test_users(host: Any, find: Any, sif: Path) -> None:
    assert host.user().uid == host.user("root").uid == 0
    assert host.user("nobody").shell.endswith("nologin")
    assert not host.user("no-such-user").exists


def test_an_address_with_folders_is_percent_encoded(find: Any, sif: Path, host: Any) -> None:
    from urllib.parse import quote

    addressed = find(f"apptainer://{quote(str(sif), safe='')}")
    assert addressed.backend.name == str(sif)
    assert addressed.system_info.distribution == "debian"


def test_a_path_is_taken_as_it_is(find: Any, sif: Path) -> None:
    other = sif.parent / "a@b%20c" / "x.sif"
    other.parent.mkdir()
    other.symlink_to(sif)
    assert find(str(other), connection="apptainer").backend.name == str(other)
    assert find(f"root@{other}", connection="apptainer").backend.name == str(other)


def test_a_name_beside_us_needs_no_encoding(find: Any, sif: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sif.parent)
    assert find("apptainer://debian.sif").backend.get_pytest_id() == "apptainer://debian.sif"
    assert find("apptainer://debian.sif").run("true").succeeded


@pytest.mark.parametrize("content", [None, b"", b"no SIF", b"#!/usr/bin/env run-singularity\n" + bytes(4096)])
def test_what_is_no_sif_is_no_host_without_programs(content: bytes | None, find: Any, sif: Path) -> None:
    broken = sif.parent / "broken.sif"
    broken.unlink(missing_ok=True)
    if content is not None:
        broken.write_bytes(content)
    with pytest.raises(RuntimeError, match=r"FATAL|could not|unable"):
        find(str(broken), connection="apptainer").exists("nvcc")


def test_no_apptainer_and_options_that_it_has_not_are_no_host_without_programs(
    program: Apptainer, find: Any, sif: Path
) -> None:
    for name, options in (("/nowhere/apptainer", ""), (str(program.program), "--no-such-option")):
        given = {"program": name, "exec_options": options}
        with pytest.raises(RuntimeError, match=r"not found|unknown flag"):
            testinfra.get_host(str(sif), connection="apptainer", **given).run("command -v nvcc")


AS_USER = """#!/bin/sh
exec {docker} run {options} --rm --pull never --volume "{sif}:/sif/debian.sif:ro" --workdir /sif {image} \\
    bash -c '
    useradd --create-home --uid 1000 user && {{ [ ! -e /dev/fuse ] || chmod 666 /dev/fuse; }}
    exec setpriv --reuid user --regid user --init-groups env HOME=/home/user apptainer "$@"' - "$@"
"""


def as_user(docker: Docker, sif: Path, script: Path, hostspec: str, options: str = "--privileged") -> Any:
    """The SIF as an ordinary user of a cluster sees it."""
    words = {"docker": shlex.join(docker.command()), "sif": sif, "image": apptainer.IMAGE}
    script.write_text(AS_USER.format(options=options, **words))
    script.chmod(0o755)
    return testinfra.get_host(hostspec, program=str(script), exec_options="--containall")


def test_the_caller_is_the_user_and_root_is_by_fakeroot(docker: Docker, sif: Path, tmp_path: Path) -> None:
    host = as_user(docker, sif, tmp_path / "program", "apptainer://debian.sif")
    assert (host.user().name, host.user().uid) == ("user", 1000)
    root = as_user(docker, sif, tmp_path / "program", "apptainer://root@debian.sif")
    assert (root.user().uid, root.file("/etc/shadow").user) == (0, "root")


def test_where_apptainer_may_start_nothing_is_no_host_without_programs(
    docker: Docker, sif: Path, tmp_path: Path
) -> None:
    """It ends with code 1 then, as `command -v` does of a program that is not there."""
    host = as_user(docker, sif, tmp_path / "program", "apptainer://debian.sif", options="")
    with pytest.raises(RuntimeError, match="user namespace"):
        host.run("command -v nvcc")


def test_root_is_asked_for_by_fakeroot_and_no_other_user_can_be_had(find: Any) -> None:
    assert find("apptainer://root@x.sif").backend.exec_options.split()[0] == "--fakeroot"
    with pytest.raises(ValueError, match="not as 'train'"):
        find("apptainer://train@x.sif")


def test_a_name_is_not_an_option(find: Any) -> None:
    with pytest.raises(RuntimeError, match="no such file"):
        find("--help", connection="apptainer").run("true")
