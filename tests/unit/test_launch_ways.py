"""The script for sbatch: what a person reads of it, and the ways into the container besides Apptainer."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from command import call
from launch_targets import ROW, TARGETS, batch

from stackwright.core.launch import launchers


@pytest.mark.parametrize("which", TARGETS)
def test_infiniband_is_switched_off_only_where_tcp_is_asked_for(which: str) -> None:
    text = batch(which).text
    for word in ("NCCL_IB_DISABLE", "NCCL_NET", "UCX_TLS", "btl", "ob1"):
        assert word not in text
    assert "UCX_POSIX_USE_PROC_LINK=n" in text  # UCX may be taken


@pytest.mark.parametrize("fabric", launchers.FABRICS)
@pytest.mark.parametrize(
    "way", [{}, {"host_mpi": "/opt/m"}, {"pyxis": True}, {"edf": True}, {"podman_hpc": True}], ids=str
)
@pytest.mark.parametrize("which", TARGETS)
def test_a_person_can_read_the_script(which: str, way: dict[str, Any], fabric: Any) -> None:
    """All of a program that ranks run lies in a file next to it."""
    hca = "mlx5_0:1" if fabric == "infiniband" else None
    made = batch(which, nodes=2, per_node=4, interface="ib0", fabric=fabric, hca=hca, **way)
    lines = launchers.script(made).splitlines()
    assert len(lines) < 60
    assert max(map(len, lines)) < 400
    assert "import" not in made.text
    assert all(name in made.before[0] and f"{name}" in made.text for name in made.files)


def test_a_file_that_is_missing_is_named_before_anything_starts(tmp_path: Path) -> None:
    made = batch("openmpi 5", nodes=2, fabric="infiniband")
    (tmp_path / "prove_world.py").touch()
    done = subprocess.run(
        ["bash", "-c", launchers.script(made)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("prove_nccl.py is not here: launch … --into FOLDER writes it")


def test_the_environment_definition_file_is_toml_that_names_the_image() -> None:
    """The entries are those of https://docs.cscs.ch/software/container-engine/edf/."""
    made = batch("openmpi 5", edf=True)
    (name,) = made.extra
    assert f"--environment=./{name}" in made.text
    read = tomllib.loads(made.extra[name])
    assert read == {
        "image": f"${{PWD}}/{TARGETS['openmpi 5'].row}.sqsh", "mounts": ["${PWD}:/workspace"],
        "workdir": "/workspace", "entrypoint": False, "env": {"PMIX_MCA_psec": "native"},
    }  # fmt: skip
    assert "env" not in tomllib.loads(next(iter(batch("mpich", edf=True).extra.values())))


def test_podman_hpc_is_given_what_is_set_for_the_ranks() -> None:
    """Its container inherits none of it: etc/modules.d of podman-hpc passes on what is the PMI's."""
    made = batch("mpich", podman_hpc=True, interface="ib0")
    words = made.argv
    assert "--openmpi-pmi2" in words and "--openmpi-pmix" in batch("openmpi 5", podman_hpc=True).argv
    assert [words[at + 1] for at, word in enumerate(words) if word == "-e"] == [
        variable.name for variable in made.variables
    ]
    assert "Docker Hub" in made.before[1]


def test_into_writes_the_script_and_all_that_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "job"
    code, out, err = call(capsys, "launch", ROW, "--slurm", "--edf", "--into", str(folder))
    assert (code, out) == (0, "")
    assert {path.name for path in folder.iterdir()} == {f"{ROW}.sbatch", f"{ROW}.toml", "prove_world.py"}
    assert all(f"wrote {path}" in err for path in folder.iterdir())
    code, out, err = call(capsys, "launch", ROW, "--slurm", "--edf")
    assert out == (folder / f"{ROW}.sbatch").read_text()
    assert "--into FOLDER" in err
