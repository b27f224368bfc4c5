"""The image as a user whom it does not know: what is put into it for that, and what the checks say."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from image_facts import ROW, docker_facts, failed, sif_facts

from stackwright.core.checks.tables import static
from stackwright.core.facts import distributions
from stackwright.core.render import own_files
from stackwright.core.render.own_files import public_sources

WITH_HOME = Path(__file__).parents[2] / "image" / "with-home"
Change = Callable[[dict[str, Any]], object]


def stranger(*path: str, **values: Any) -> Change:
    def change(facts: dict[str, Any]) -> None:
        for name in path:
            facts = facts[name]
        facts.update(values)

    return change


RUN = ("sealed", "collective", "torch/mpi")
RED: tuple[tuple[Change, str, str], ...] = (
    (stranger("stranger", "names", error="no entry"), "static.any-user-name", "12345 has no name: no entry"),
    (stranger("stranger", "names", again=1000), "static.any-user-name", "and leads to 1000"),
    (stranger("stranger", "names", shell="/sbin/nologin"), "static.any-user-name", "nologin"),
    (stranger("stranger", "names", home=""), "static.any-user-name", "has the home  and"),
    (stranger("stranger", "home", unwritable="Permission denied"), "static.any-user-folders", "/home/train"),
    (stranger("stranger", "folders", **{"/workspace": "no"}), "static.any-user-folders", "/workspace cannot"),
    (stranger("sealed", "stranger", read_only=False), "static.any-user-folders", "was not read-only"),
    (stranger("sealed", "stranger", "home", unwritable="no"), "static.any-user-folders", "root is read-only"),
    (stranger("sealed", "stranger", "folders", **{"/tmp": "no"}), "static.any-user-folders", "/tmp cannot"),
    (stranger("stranger", ssh="ssh said 'Permission denied'"), "static.any-user-ssh", "Permission denied"),
    (stranger("sealed", "compile", error="OSError: no"), "link.any-user-compile", "OSError: no"),
    (stranger(*RUN, error="mpirun ended with exit code 1", ranks=[]), "collective.any-user", "exit code 1"),
    (stranger(*RUN, ranks=[]), "collective.any-user", "0 ranks left a result"),
)


@pytest.mark.parametrize(
    ("change", "red", "says"), RED, ids=[f"{n}-{fault[1]}" for n, fault in enumerate(RED)]
)
def test_each_fault_turns_its_check_red(change: Change, red: str, says: str) -> None:
    facts = docker_facts(ROW)
    change(facts)
    found = failed(facts)
    assert set(found) == {red}, found
    assert says in found[red]


def test_a_wrong_sum_of_a_stranger_is_seen() -> None:
    facts = docker_facts(ROW)
    rank = facts["sealed"]["collective"]["torch/mpi"]["ranks"][1]
    rank["sum"] = [value + 1 for value in rank["sum"]]
    assert set(failed(facts)) == {"collective.any-user"}


def test_in_a_sif_the_working_directory_is_of_the_image_and_cannot_be_written() -> None:
    facts = sif_facts(ROW)
    facts["stranger"] |= {"read_only": True, "folders": {"/workspace": "Read-only file system", "/tmp": None}}
    assert failed(facts, world="sif") == {}
    facts["stranger"]["home"]["unwritable"] = "Read-only file system"
    assert set(failed(facts, world="sif")) == {"static.any-user-folders"}


# -- the home ---------------------------------------------------------------------------------------


def home(folder: Path, given: str | None) -> str:
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(folder)} | ({} if given is None else {"HOME": given})
    done = subprocess.run(
        [WITH_HOME, "sh", "-c", 'echo "$HOME"; echo "$USER $LOGNAME"'],
        env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    said = done.stdout.splitlines()
    assert len(said[1].split()) == 2 and not done.stderr
    return said[0]


def test_a_home_that_can_be_written_stays(tmp_path: Path) -> None:
    assert home(tmp_path, str(tmp_path)) == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", [None, "", "/none/such"])
def test_another_home_is_made_for_its_user_alone_and_found_again(tmp_path: Path, given: str | None) -> None:
    made = tmp_path / f"home-{os.getuid()}"
    assert home(tmp_path, given) == home(tmp_path, given) == str(made)
    assert made.stat().st_mode & 0o777 == 0o700


def test_a_home_that_another_user_prepared_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"home-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    assert home(tmp_path, "/none/such") == "/none/such"


# -- the sources ------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", distributions.DISTRIBUTIONS, ids=lambda release: release.id)
def test_the_shipped_sources_are_public_and_have_the_security_fixes(
    release: distributions.Distribution,
) -> None:
    text = public_sources(release)
    hosts = set(re.findall(r"http://([\w.]+)/", text))
    assert hosts == {
        "debian": {"deb.debian.org"}, "ubuntu": {"archive.ubuntu.com", "security.ubuntu.com"},
    }[release.family]  # fmt: skip
    assert {release.suite, f"{release.suite}-updates", f"{release.suite}-security"} <= set(text.split())
    assert text.startswith("deb [signed-by=" if release.in_lines else "Types: deb\n")


def test_other_sources_than_the_shipped_ones_are_of_a_site() -> None:
    facts = docker_facts(ROW)
    release = distributions.known(ROW.os)
    content = public_sources(release).encode()
    digest = own_files.digests(ROW, {"image/sources": content})[release.sources]
    entry = {"path": release.sources, "bytes": len(content), "sha256": digest}
    facts["files"]["leftovers"]["apt_sources"] = [entry]
    assert static.site_config(ROW, facts).problems == ()
    for other in ({**entry, "sha256": "0" * 64}, {**entry, "path": "/etc/apt/sources.list"}):
        facts["files"]["leftovers"]["apt_sources"] = [other]
        assert len(static.site_config(ROW, facts).problems) == 1
