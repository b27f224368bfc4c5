"""What a row adds to its image besides Python packages: rules, lock, files, and its checks."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import image_facts
import pytest
from ledger_tree import ROW as OF_LEDGER
from ledger_tree import tree
from own_parts import FULL, folder_of, read
from rows import CELL, LOCK, SERIES, SOURCES, cell

from stackwright.core.checks.check import Facts
from stackwright.core.checks.tables import additions, settings
from stackwright.core.errors import LockError
from stackwright.core.ledger.account import account
from stackwright.core.model.added.image import Folder, Variable
from stackwright.core.model.row import Cell, Package, Rejection, Stack
from stackwright.core.render import configuration, definition, dockerfile, labelled, layers
from stackwright.core.render.instructions import logical_lines
from stackwright.core.resolve.requirements import distribution_packages, request
from stackwright.core.resolve.resolve import check, resolve
from stackwright.core.rules.own import REFUSED_PACKAGES, REFUSED_VARIABLES, refused
from stackwright.host.upstream.states import STATE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folder_of(tmp_path)


# ---------------------------------------------------------------------------------------- rules


@pytest.mark.parametrize(
    "name",
    [
        "HOROVOD_CACHE_CAPACITY", "_HOROVOD_SECRET_KEY", "NCCL_DEBUG", "NCCL_P2P_DISABLE", "OMPI_MCA_btl",
        "UCX_TLS", "PMIX_RANK", "MPICH_OFI", "FI_PROVIDER", "TORCH_NCCL_BLOCKING_WAIT", "RANK", "WORLD_SIZE",
        "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "SLURM_PROCID", "TORCHELASTIC_RUN_ID", "TF_CONFIG",
        "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_REQUIRE_CUDA", "LD_PRELOAD",
        "LD_LIBRARY_PATH", "LD_AUDIT", "PATH", "LANG", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "BASH_ENV",
        "HOME", "USER", "TERM", "APPTAINER_BIND", "SINGULARITYENV_X", "http_proxy", "HTTPS_PROXY", "no_proxy",
        "PIP_INDEX_URL", "UV_INDEX", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE",
    ],
)  # fmt: skip
def test_a_variable_of_a_job_a_site_or_the_stack_is_refused_by_name(name: str) -> None:
    rejection = check(cell(env=(Variable(name="OURS", value="x"), Variable(name=name, value="1"))))
    assert rejection and rejection.rule == "env-names"
    assert rejection.clash == (("env", name),) and rejection.reason.startswith(f"{name} ")
    assert rejection.settings == ("env=OURS=x",), "the nearest row is without it"


@pytest.mark.parametrize(
    "name", ["HF_HOME", "OMP_NUM_THREADS", "TORCH_HOME", "PYTHONUNBUFFERED", "TZ", "LC_ALL", "RANKS", "PATHS"]
)
def test_others_may_be_set(name: str) -> None:
    assert check(cell(env=(Variable(name=name, value="1"),))) is None


def test_no_variable_of_the_stack_itself_may_be_set() -> None:
    assert all(refused(name, REFUSED_VARIABLES) for name in configuration.environment(image_facts.ROW))


@pytest.mark.parametrize(
    "name",
    [
        "nvidia-cuda-toolkit", "libnccl2", "libcudnn9-cuda-12", "libcudart12", "nvidia-driver", "libcuda1",
        "cuda-toolkit-12-4", "mpich", "libmpich-dev", "libopenmpi-dev", "python3-torch", "python3.13",
        "python3-venv", "gcc", "gcc-12", "g++", "sudo", "linux-image-amd64", "docker.io", "systemd-sysv",
    ],
)  # fmt: skip
def test_a_package_that_is_a_field_or_a_second_cuda_is_refused_by_name(name: str) -> None:
    rejection = check(cell(apt=("git", name)))
    assert rejection and rejection.rule == "apt-packages"
    assert rejection.clash == (("apt", name),) and rejection.reason.startswith(f"{name} ")
    assert rejection.settings == ("apt=git",)


@pytest.mark.parametrize(
    "name", ["git", "vim-tiny", "libgl1", "libsndfile1", "ffmpeg", "htop", "gdb", "cmake"]
)
def test_other_packages_may_be_added(name: str) -> None:
    assert not refused(name, REFUSED_PACKAGES)
    assert check(cell(apt=(name,))) is None


# ----------------------------------------------------------------------------------------- lock

BASE = replace(
    LOCK.base,
    packages=(
        *LOCK.base.packages,
        Package(name="git", version="1:2.47.3-0+deb13u1"),
        Package(name="libgl1", version="1.7.0-1"),
    ),
)


def resolved(row: Cell) -> Stack:
    found = resolve(row, replace(LOCK, base=BASE, request=request(row)), SERIES)
    assert isinstance(found, Stack), found
    return found


@pytest.fixture
def full(folder: Path) -> Stack:
    row = read(folder, FULL)
    return resolved(cell(**{name: row.value(name) for name in FULL}))


def test_the_lock_pins_packages_and_does_not_depend_on_the_rest(full: Stack, folder: Path) -> None:
    row = cell(apt=("git",))
    assert distribution_packages(row) == tuple(sorted((*distribution_packages(CELL), "git")))
    assert request(row) != request(CELL)
    assert (
        request(cell(**{name: read(folder, FULL).value(name) for name in FULL if name != "apt"}))
        == LOCK.request
    )
    assert [(package.name, package.version) for package in full.apt] == [
        ("git", "1:2.47.3-0+deb13u1"),
        ("libgl1", "1.7.0-1"),
    ]
    answer = resolve(row, LOCK, SERIES)
    assert isinstance(answer, Rejection) and answer.rule == "lock"


def test_a_package_of_ubuntu_needs_a_mirror() -> None:
    row = cell(provider="nvidia", os="ubuntu-24.04", python="3.12", cuda="12.6", apt=("git",))
    with pytest.raises(LockError, match="no mirror is known that has a version of git"):
        STATE["nvidia"](row, ("libc6", "git"), None)


# --------------------------------------------------------------------------------------- render


def test_each_part_is_in_the_dockerfile(full: Stack) -> None:
    recipe = dockerfile.render(full, SOURCES)
    steps = logical_lines(recipe.text("Dockerfile"))
    (apt,) = [step for step in steps if "git=" in step]
    assert "git=1:2.47.3-0+deb13u1" in apt and "libgl1=1.7.0-1" in apt
    assert 'ENV HF_HOME="/data" \\\n    OURS="a b"' in steps
    assert {"EXPOSE 8888/tcp", "EXPOSE 53/udp"} < set(steps)
    assert (
        'ENTRYPOINT ["/usr/bin/tini", "-g", "--", "/usr/local/bin/with-home", "/opt/ours/start", "--quiet"]'
        in steps
    )
    assert dict(recipe.files)["files/opt/ours/lib/ours.py"] == b"ANSWER = 42\n"
    assert layers.purposes(recipe, ("horovod",)) == (
        "python", "runtime packages", "apt", "nvidia", "nccl", "torch", "rest", "horovod", "files", "row",
    )  # fmt: skip
    for step in steps:
        if step.startswith("RUN"):
            script = " ".join(word for word in step.split("\n") if not word.strip().startswith("--mount"))
            body = script.partition("export SOURCE")[2].replace("\\ ", "\n")
            done = subprocess.run(
                ["bash", "-n"], input=f"X{body}", capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stderr) == (0, "")


def test_what_is_said_twice_is_the_same(full: Stack) -> None:
    said = configuration.settings(full)
    assert said["ExposedPorts"] == {"8888/tcp": {}, "53/udp": {}}
    assert said["Entrypoint"][-2:] == ["/opt/ours/start", "--quiet"]
    assert said["Env"][-2:] == ["HF_HOME=/data", "OURS=a b"]
    assert configuration.history(full)[-1] == "ENV HF_HOME=/data OURS=a b"
    plain = configuration.settings(resolved(CELL))
    assert ("ExposedPorts" in plain, plain["User"]) == (False, "train")


def test_a_user_by_number_is_the_images() -> None:
    row = resolved(cell(user="20001:100"))
    assert configuration.settings(row)["User"] == dockerfile.declared(row)["user"] == "20001:100"
    assert "USER 20001:100" in logical_lines(dockerfile.render(row, SOURCES).text("Dockerfile"))
    text = definition.render_definition(row, SOURCES).text(definition.file_name(row))
    assert ["stack" in line for line in text.splitlines() if "20001" in line] == [True], (
        "a SIF runs as its caller: the row's label names the user, and nothing else does"
    )
    of_it = {"org.stackwright.row": row.id, "org.stackwright.stack": json.dumps(dockerfile.declared(row))}
    assert labelled.user_of(of_it) == "20001:100"
    assert {labelled.user_of({**of_it, "org.stackwright.stack": text}) for text in ("", "{}")} == {"train"}


@pytest.mark.parametrize(
    ("user", "name", "says"),
    [
        ("20001:100", "uid-20001", ""),
        (None, "uid-20001", "the row's is train"),
        ("20002:100", "uid-20001", "the row's is 20002:100"),
        ("20001:20001", "uid-20001", "the row's is 20001:20001"),
        ("20001:100", None, "20001 has no name"),
    ],
)
def test_another_user_than_the_rows_is_found(user: str | None, name: str | None, says: str) -> None:
    found = facts(replace(SAMPLE, user="20001:100"))
    found["system"]["user"] = {"uid": 20001, "gid": 100, "name": name, "home": "/home/train"}
    problems = settings.user(replace(SAMPLE, user=user), found).problems
    assert [says in problem for problem in problems] == ([True] if says else [])


def test_the_row_in_the_image_names_it(full: Stack) -> None:
    found = dockerfile.declared(full)
    assert {name: found[name] for name in FULL} == {
        "apt": {"git": "1:2.47.3-0+deb13u1", "libgl1": "1.7.0-1"},
        "env": {"HF_HOME": "/data", "OURS": "a b"},
        "files": {"/opt/ours": full.files[0].sha256},
        "ports": ["8888/tcp", "53/udp"],
        "entrypoint": ["/opt/ours/start", "--quiet"],
    }
    assert not set(FULL) & set(dockerfile.declared(resolved(CELL)))


def test_the_definition_file_does_the_same(full: Stack) -> None:
    text = definition.render_definition(full, SOURCES).text("cuda12-torch.def")
    final = text.partition("# ---- final")[2]
    post = final.partition("%post -c /bin/bash -euo pipefail\n")[2].partition("\n%environment")[0]
    assert post.index("git=1:2.47.3") < post.index("usermod") < post.index("cd /root/build/files")
    assert "    files /root/build/files\n" in final and "rm -r /root/build" in post
    assert '    export OURS="a b"\n' in final
    assert 'exec /usr/bin/tini -s -g -- /usr/local/bin/with-home /opt/ours/start --quiet "$@"' in final
    done = subprocess.run(["bash", "-n"], input=post, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_program_that_is_copied_in_can_be_started(full: Stack, tmp_path: Path) -> None:
    dockerfile.write(dockerfile.render(full, SOURCES), tmp_path)
    place = tmp_path / "files" / "opt" / "ours"
    assert [(place / name).stat().st_mode & 0o777 for name in ("start", "lib/ours.py")] == [0o755, 0o644]


def test_another_content_is_another_key(full: Stack) -> None:
    (folder,) = full.files
    other = replace(full, files=(replace(folder, files=(("start", b"#!/bin/sh\n"),)),))
    assert dockerfile.render(full, SOURCES).key != dockerfile.render(other, SOURCES).key
    assert folder.sha256 != other.files[0].sha256 and str(folder) != str(other.files[0])


# --------------------------------------------------------------------------------------- checks


def facts(row: Stack) -> dict[str, Any]:
    return image_facts.docker_facts(row)


SAMPLE = replace(
    image_facts.stack(),
    env=(Variable(name="OURS", value="a b"),),
    files=(Folder(source="ours", place="/opt/ours", files=(("start", b"x"),)),),
    ports=("8888/tcp",),
    entrypoint=("/opt/ours/start",),
)


def test_an_image_with_all_of_it_is_green() -> None:
    assert image_facts.failed(facts(SAMPLE), SAMPLE) == {}


@pytest.mark.parametrize("found", ["1:2.48", None])
def test_a_package_in_another_version_or_absent_is_named(found: str | None) -> None:
    changed = facts(SAMPLE)
    packages = changed["system"]["distribution_packages"]
    packages.pop("git")
    if found:
        packages["git"] = found
    details = image_facts.failed(changed, SAMPLE)
    assert set(details) == {"added.apt"}
    assert f"git is {found or 'not installed'}, the lock has 1:2.47.3-0+deb13u1" in details["added.apt"]


def test_a_row_without_packages_is_not_asked() -> None:
    (rule,) = [rule for rule in additions.RULES if rule.id == "added.apt"]
    assert rule.applies(SAMPLE) and not rule.applies(replace(SAMPLE, apt=()))


def test_an_entry_point_without_its_program_is_named() -> None:
    changed = facts(SAMPLE)
    changed["system"]["entrypoint"] = None
    assert image_facts.failed(changed, SAMPLE) == {
        "static.entrypoint": "there is no program /opt/ours/start to start"
    }


def test_the_runscripts_of_a_sif_are_those_of_the_row() -> None:
    def judged(text: str) -> list[str]:
        scripts = {"runscript": text, "startscript": "", "environment": {}}
        found: Facts = {"scripts": scripts}
        return list(settings.scripts(SAMPLE, found).problems)

    assert judged("\n".join(configuration.runscript(SAMPLE))) == []
    converted = (
        'OCI_ENTRYPOINT=\'"/usr/bin/tini" "-g" "--" "/usr/local/bin/with-home" "/opt/ours/start"\'\n'
        "OCI_CMD='\"/bin/bash\"'\n"
        + "\n".join(f"set -- '{word}' \"$@\"" for word in (*configuration.ENTRYPOINT, "/opt/ours/start"))
    )
    assert judged(converted) == []
    assert judged("\n".join(configuration.runscript(image_facts.ROW))) != []


def test_the_ledger_knows_each_file_by_its_content() -> None:
    path = "/usr/local/bin/sshd-as-user"
    more = replace(OF_LEDGER, files={**OF_LEDGER.files, "/opt/ours/start": "0" * 64})
    (found,) = account(tree(), more).problems
    assert (found.kind, found.path) == ("declared", "/opt/ours/start") and "is missing" in found.what
    changed = replace(OF_LEDGER, files={path: "0" * 64})
    (found,) = account(tree(), changed).problems
    assert (found.kind, found.path) == ("declared", path)


def test_the_row_file_is_what_the_probe_reads() -> None:
    assert json.loads(json.dumps(dockerfile.declared(SAMPLE)))["entrypoint"] == ["/opt/ours/start"]
