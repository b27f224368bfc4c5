"""The SIF of a row, and the command."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from publishing import BASE, ROOT, Rows, publisher, verdict
from registry_server import RegistryServer

from stackwright.build.sif import convert
from stackwright.core.errors import GateError, PublishError, SiteError
from stackwright.core.model.record import SifFile
from stackwright.engines import apptainer as apptainers
from stackwright.engines.docker import Docker
from stackwright.engines.sif import sign
from stackwright.host.project import cells, plan
from stackwright.host.runner import Runner
from stackwright.host.site import settings as host
from stackwright.publish import indexes, publish_rows
from stackwright.publish.registry.client import Access
from stackwright.records import files as record

pytestmark = pytest.mark.engine

# -- the SIF ---------------------------------------------------------------------------------------


def test_a_sif_goes_under_the_same_gate_and_apptainer_pulls_it(
    rows: Rows, registry: str, said: list[str], docker: Docker, runner: Runner, tmp_path: Path
) -> None:
    apptainer = apptainers.find(runner, docker, mirror=host.apt_mirror(runner))
    row = rows.row("one")
    known = rows.record_of(row)
    assert known.image
    target = rows.project.out / "one.sif"
    convert.to_sif(
        known.image.reference, target, docker=docker, runner=runner, apptainer=apptainer, image_bytes=10**7
    )
    made = SifFile(path="out/one.sif", bytes=target.stat().st_size, sha256=sign.file_sha256(target))
    known = replace(known, sif=made)
    record.write(known, rows.project.records)
    by = publisher(rows, Access(host=registry, plain=True), said, sif=True)
    with pytest.raises(GateError, match="one: it was not probed in sif"):
        publish_rows(by, [row])
    record.write(record.judged(known, verdict(world="sif")), rows.project.records)
    image, sif = publish_rows(by, [row])
    assert not image.sif and sif.sif and sif.tags[-1] == "one.sif"
    assert sif.sent_bytes == made.bytes + 2
    back = tmp_path / "back.sif"
    sign.pull(apptainer, f"oras://{registry}/{BASE}:one.sif", back, public=None, plain=True)
    assert sign.file_sha256(back) == made.sha256
    with pytest.raises(GateError, match=r"one: yesterday it had a \.sif"):
        publish_rows(replace(by, sif=False), [row])
    assert [published.sent_bytes for published in publish_rows(by, [row])] == [0, 0]


# -- the command -----------------------------------------------------------------------------------


def command(server: RegistryServer, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    settings = {"STACKWRIGHT_REGISTRY": f"{server.address}/{BASE}", "STACKWRIGHT_REGISTRY_CA": str(server.ca)}
    return subprocess.run(
        [ROOT / "build.py", *words], env={**os.environ, **settings, **environ},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def _sha256_of(server: RegistryServer, index: str) -> str:
    return hashlib.sha256(server.get(f"{BASE}/manifests/{index}", accept=indexes.INDEX)).hexdigest()


def recorded(rows: Rows, tmp_path: Path) -> tuple[str, ...]:
    """The words that make the command see a small image and its record as today's row cuda12-torch."""
    real = plan(rows.project, cells(rows.project, ["cuda12-torch"])).rows[0]
    stood_in = rows.row("cuda12-torch")
    known = rows.record_of(stood_in)
    record.begin(replace(known, key=real.recipe.key), rows.project.records)
    return ("--out", str(rows.project.out), "publish", "cuda12-torch")


def test_the_command_publishes_and_says_what_was_sent(
    rows: Rows, server: RegistryServer, tmp_path: Path
) -> None:
    words = recorded(rows, tmp_path)
    told = command(server, *words, "--dry-run")
    assert told.returncode == 0, told.stderr
    assert f"{server.address}/{BASE}: cuda12-torch-" in told.stdout
    assert f"{server.address}/{BASE}: all\n" in told.stdout
    assert server.tags(BASE) == []
    done = command(server, *words, "--format", "json")
    assert done.returncode == 0, done.stderr
    (image,) = json.loads(done.stdout)["published"]
    (index,) = json.loads(done.stdout)["indexes"]
    assert index["tags"] == ["all"] and index["reference"].endswith(
        f"{BASE}@sha256:{_sha256_of(server, 'all')}"
    )
    assert image["sent_bytes"] > 10**6 and server.tags(BASE) == sorted([*image["tags"], "all"])
    again = command(server, *words)
    assert again.returncode == 0 and "0 kB" in again.stdout and "index" in again.stdout


def test_a_wrong_password_is_one_line_and_an_exit_code(
    rows: Rows, server: RegistryServer, tmp_path: Path
) -> None:
    wrong = server.docker_config(tmp_path / "wrong", password="other-Secret")
    done = command(server, *recorded(rows, tmp_path), DOCKER_CONFIG=str(wrong))
    assert done.returncode == PublishError.exit_code
    assert done.stdout == ""
    first, second = done.stderr.strip().splitlines()
    assert first.startswith(f"error: {server.address}/{BASE}: 401: the registry does not accept the user or")
    assert second == f"  next: docker login {server.address}; or may this user not write there?"


def test_without_a_registry_and_with_a_row_that_is_not_meant(
    rows: Rows, server: RegistryServer, tmp_path: Path
) -> None:
    words = recorded(rows, tmp_path)
    nowhere = command(server, *words, STACKWRIGHT_REGISTRY="")
    assert nowhere.returncode == SiteError.exit_code and "no registry is configured" in nowhere.stderr
    other = command(server, *words, "--allow-less", "cuda12-all")
    assert other.returncode == 2 and "this row is not selected" in other.stderr
    unproven = command(server, "--out", str(tmp_path / "empty"), "publish", "cuda12-torch")
    assert unproven.returncode == GateError.exit_code
    assert "cuda12-torch: it was not built as it is today" in unproven.stderr


def test_doctor_tells_whether_the_registry_lets_this_user_in(server: RegistryServer, tmp_path: Path) -> None:
    def told(**environ: str) -> dict[str, str]:
        done = command(server, "doctor", "--format", "json", **environ)
        (found,) = (
            finding for finding in json.loads(done.stdout)["findings"] if finding["name"] == "registry"
        )
        assert isinstance(found, dict)
        return found

    assert told()["state"] == "ok"
    wrong = told(DOCKER_CONFIG=str(server.docker_config(tmp_path / "wrong", password="other-Secret")))
    assert wrong["state"] == "missing" and "401: the registry does not accept" in wrong["seen"]
    assert wrong["todo"].startswith(f"docker login {server.address}")
