"""What `launch` prints for a scheduler: a script that sbatch takes, a manifest that Kubernetes takes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from command import call
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from kubernetes_schema import PUBLISHED, strict
from launch_targets import ROW, TARGETS, batch
from rows import stack

from stackwright.core.launch import launchers
from stackwright.core.launch.carried.world import fault
from stackwright.core.launch.recipe import Batch, Manifest

HOSTILE = ("python", "my train.py", "$(touch x)", "`id`", "#", "'", "\n", "END_OF_PROGRAM")
HERE = Path(__file__).parent
SCHEMA = json.loads((HERE / "mpijob.schema.json").read_text(encoding="utf-8"))
"""Written by hand: what the operator's own validation and Kubernetes' names ask for besides."""


def validator(schema: Any) -> Validator:
    """``jsonschema.validate`` checks the schema anew in each call, which takes longer than the document."""
    kind = validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


OPERATOR, OF_THE_API = validator(SCHEMA), validator(strict(PUBLISHED))


def manifest(which: str, command: tuple[str, ...] = ("true",), **site: Any) -> Manifest:
    made = launchers.LAUNCHERS["kubernetes"].make(TARGETS[which], launchers.site(**site), command)
    assert isinstance(made, Manifest)
    return made


# -- Slurm -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("which", "wanted"),
    [
        ("openmpi 5", ("--mpi=pmix", "OMPI_MCA_btl=self,sm,tcp", "OMPI_MCA_btl_tcp_if_include=ib0")),
        ("openmpi 4", ("--mpi=pmix", "OMPI_MCA_btl=self,vader,tcp")),
        ("mpich", ("--mpi=pmi2", "UCX_TLS=tcp,sm,self", "UCX_POSIX_USE_PROC_LINK=n")),
    ],
)
def test_each_mpi_meets_its_own_pmi_and_is_told_by_variables(which: str, wanted: tuple[str, ...]) -> None:
    text = batch(which, interface="ib0", fabric="tcp").text
    assert all(word in text for word in (*wanted, "NCCL_SOCKET_IFNAME=ib0", "NCCL_IB_DISABLE=1"))


def test_the_script_asks_slurm_for_what_was_asked() -> None:
    lines = launchers.script(batch("openmpi 5", nodes=3, per_node=4)).splitlines()
    assert lines[0] == "#!/bin/bash"  # else sbatch refuses it
    asked = [line for line in lines if line.startswith("#SBATCH ")]
    assert {"#SBATCH --nodes=3", "#SBATCH --ntasks-per-node=4", "#SBATCH --gpus-per-node=4"} <= set(asked)
    first = next(at for at, line in enumerate(lines) if line and not line.startswith("#"))
    assert all(lines.index(line) < first for line in asked)  # sbatch reads no further


def test_the_three_ways_lead_into_the_container() -> None:
    hybrid, bound, pyxis = (
        batch("openmpi 5", **way) for way in ({}, {"host_mpi": "/opt/m"}, {"pyxis": True})
    )
    assert 'apptainer exec --nv row-1.sif "$@"' in hybrid.text.replace(TARGETS["openmpi 5"].sif, "row-1.sif")
    assert "--bind /opt/m:/opt/m:ro --env LD_LIBRARY_PATH=/opt/m/lib" in bound.text
    assert "apptainer" not in pyxis.text
    assert '"--container-mounts=$PWD:/workspace"' in pyxis.text
    assert len({hybrid.when, bound.when, pyxis.when}) == 3


@pytest.mark.parametrize(
    ("image", "source"),
    [
        ("stackwright/row:1", "dockerd://stackwright/row:1"),
        ("registry.example:5000/hpc/images:row", "'docker://registry.example:5000#hpc/images:row'"),
        ("a.b/hpc/images@sha256:12", "'docker://a.b#hpc/images:sha256:12'"),
        ("a.b/hpc/images:row@sha256:12", "'docker://a.b#hpc/images:sha256:12'"),
    ],
)
def test_enroot_is_told_the_registry_as_it_reads_it(image: str, source: str) -> None:
    """Without # it asks Docker Hub. doc/cmd/import.md and src/docker.sh of enroot."""
    made = launchers.LAUNCHERS["slurm"].make(
        launchers.Target.of(stack(), image), launchers.site(pyxis=True), ("true",)
    )
    assert f"enroot import -o row-1.sqsh {source}" in made.before[1].replace(stack().id, "row-1")


@pytest.mark.parametrize("which", TARGETS)
def test_an_mpi_that_was_bound_for_its_fabric_is_left_to_choose_it(which: str) -> None:
    """All but InfiniBand is tcp to us: a cluster's MPI that is told so would not take its Slingshot."""
    made = batch(which, host_mpi="/opt/m", interface="ib0")
    names = {variable.name for variable in made.variables}
    told = {name for name in names if name.startswith(("OMPI_MCA_", "UCX_"))}
    assert told - {"OMPI_MCA_btl_tcp_if_include"} == {"UCX_POSIX_USE_PROC_LINK"}
    assert "NCCL_SOCKET_IFNAME" in names
    forced = batch(which, host_mpi="/opt/m", fabric="infiniband").text
    assert "UCX_TLS=rc,sm,self" in forced


@pytest.mark.parametrize("which", TARGETS)
@pytest.mark.parametrize(
    "way",
    [
        {},
        {"host_mpi": "/opt/m"},
        {"pyxis": True},
        {"edf": True},
        {"podman_hpc": True},
        {"fabric": "infiniband"},
    ],
    ids=str,
)
def test_bash_hands_the_command_to_srun_as_it_was_given(
    which: str, way: dict[str, Any], tmp_path: Path
) -> None:
    """srun is a stand-in that writes down what it got: first the proofs, then the command."""
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\nprintf "%s\\0" "$@" >> got; printf "\\0" >> got\n')
    srun.chmod(0o755)
    made = batch(which, HOSTILE, **way)
    environment = {"SLURM_NTASKS": "2", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for name, text in made.files.items():
        (tmp_path / name).write_text(text)
    subprocess.run(["bash", "-c", launchers.script(made)], cwd=tmp_path, env=environment, check=True)
    *proofs, training, _ = (tmp_path / "got").read_text().split("\0\0")
    start = [word.replace("$PWD", str(tmp_path)) for option in made.step for word in option.words]
    assert training.split("\0") == [*start, *HOSTILE]
    *words, program, ranks, fabric = proofs[0].split("\0")
    assert (words, ranks) == ([*start, "python3"], "2")  # from outside: the container may hide it
    assert (program, fabric) == ("prove_world.py", way.get("fabric", "auto"))
    assert (tmp_path / program).read_text() == f"{made.proofs[0].program}\n"
    assert {path.name for path in tmp_path.iterdir()} == {"got", "srun", *made.files}


@pytest.mark.parametrize("which", TARGETS)
def test_every_setting_of_the_script_has_a_reason(which: str) -> None:
    made = batch(which, interface="ib0", fabric="infiniband", hca="mlx5_0:1", host_mpi="/opt/m")
    assert all(why for _, why in made.settings)
    told = {setting for setting, _ in made.settings}
    shown = [line for line in made.text.splitlines() if line.startswith(("#SBATCH ", "export "))]
    assert {line.partition(" ")[2] for line in shown} <= told
    assert made.argv[1 : -len(made.command)] == tuple(
        word for setting in told_in_order(made, told) for word in shlex.split(setting)
    )


def told_in_order(made: Batch, told: set[str]) -> list[str]:
    return [str(option) for option in made.step if str(option) in told]


# -- the trap --------------------------------------------------------------------------------------


def test_the_trap_has_a_name() -> None:
    assert fault(4, 4) == ""
    assert fault(1, 1) == ""
    said = fault(4, 1)
    assert said.startswith("singleton trap: 4 ranks were started, and each is rank 0 of 1")
    assert "srun --mpi=list" in said
    assert fault(4, 2).startswith("wrong world: 4 ranks")


# -- Kubernetes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fabric", launchers.FABRICS)
@pytest.mark.parametrize("which", TARGETS)
def test_the_manifest_is_an_mpijob(which: str, fabric: Any) -> None:
    made = manifest(which, HOSTILE, nodes=2, per_node=4, fabric=fabric)
    read = yaml.safe_load(launchers.script(made))
    assert read == json.loads(json.dumps(made.document))
    OPERATOR.validate(read)
    launcher = read["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    words = launcher["command"]
    if fabric in ("infiniband", "ofi"):
        assert words[:2] == ["bash", "-c"]
        assert "\nprove_nccl=$(cat" in words[2] and "\\n" not in launchers.script(made).partition("bash")[0]
        words = shlex.split(words[2].rpartition(" &&\n")[2])
    assert words[-len(HOSTILE) :] == list(HOSTILE)
    assert words[:3] == ["mpirun", "-np", "8"]
    assert all(why for _, why in made.settings)


SHELL = ("sh", "-c", "echo $$ $(HYDRA_LAUNCHER_EXTRA_ARGS) $$(HOSTNAME) $HOME $(id -u)")


@pytest.mark.parametrize("fabric", launchers.FABRICS)
@pytest.mark.parametrize("which", TARGETS)
def test_kubernetes_hands_the_command_on_as_it_was_given(which: str, fabric: Any) -> None:
    """It reads $(NAME) and $$ in a command itself: third_party/forked/golang/expansion of kubernetes."""
    made = manifest(which, SHELL, fabric=fabric)
    document = yaml.safe_load(launchers.script(made))
    (launcher,) = document["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    words = [expanded(word) for word in launcher["command"]]
    if fabric in ("infiniband", "ofi"):
        assert words[2].startswith("prove_world=$(cat")
        words = shlex.split(words[2].rpartition(" &&\n")[2])
    assert tuple(words[-len(SHELL) :]) == SHELL


def expanded(word: str) -> str:
    """As the kubelet does it, where each name that there can be has a value."""
    return re.sub(r"\$(\$|\((\w+)\))", lambda found: "" if found[2] else "$", word)


@pytest.mark.parametrize("which", TARGETS)
def test_what_failed_on_kubernetes_can_be_read_there(which: str) -> None:
    """Restarted in place, as the operator does by itself, a launcher goes with its log after the last try."""
    replicas = manifest(which).document["spec"]["mpiReplicaSpecs"]
    assert {replica["restartPolicy"] for replica in replicas.values()} == {"Never"}


def test_the_image_runs_as_the_user_of_its_row() -> None:
    """Kubernetes refuses a name under runAsNonRoot."""
    target = launchers.Target.of(stack(user="20001:100"), "i")
    made = launchers.LAUNCHERS["kubernetes"].make(target, launchers.site(), ("true",))
    assert isinstance(made, Manifest)
    for replica in made.document["spec"]["mpiReplicaSpecs"].values():
        context = replica["template"]["spec"]["securityContext"]
        assert context == {"runAsUser": 20001, "runAsGroup": 100}
    OF_THE_API.validate(json.loads(json.dumps(made.document)))


def test_a_capability_that_its_user_would_not_get_is_not_asked_for() -> None:
    """https://github.com/kubernetes/kubernetes/issues/56374: none but root has it in a set that counts."""
    text = launchers.script(manifest("openmpi 5", fabric="infiniband"))
    assert "runAsUser: 1000" in text and "capabilities" not in text
    assert "LimitMEMLOCK=infinity" in text
    assert "LimitMEMLOCK" not in launchers.script(manifest("openmpi 5"))


@pytest.mark.parametrize(
    ("image", "local"),
    [("stackwright/row:1", True), ("row@sha256:1", True), ("localhost/row:1", False), ("a.b/row:1", False),
     ("a:5000/row@sha256:1", False)],
)  # fmt: skip
def test_an_image_of_this_machine_alone_has_to_be_pushed_first(image: str, local: bool) -> None:
    target = launchers.Target.of(stack(), image)
    made = launchers.LAUNCHERS["kubernetes"].make(target, launchers.site(), ("true",))
    assert any("push" in line for line in made.before) == local


@pytest.mark.parametrize("fabric", launchers.FABRICS)
@pytest.mark.parametrize("which", TARGETS)
def test_the_published_definition_takes_it(which: str, fabric: Any) -> None:
    document = manifest(which, nodes=2, per_node=4, fabric=fabric).document
    OF_THE_API.validate(json.loads(json.dumps(document)))


WORKER = ("spec", "mpiReplicaSpecs", "Worker")
CONTAINER = (*WORKER, "template", "spec", "containers", 0)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "slotsPerWorkers"), 1),
        (("spec", "slotsPerWorker"), "4"),
        (("spec", "mpiImplementation"), "openmpi"),
        (("spec", "runPolicy", "cleanPods"), "Running"),
        ((*WORKER, "replicas"), "2"),
        ((*CONTAINER, "name"), None),
        ((*CONTAINER, "commands"), ["true"]),
        ((*CONTAINER, "readinessProbe", "tcpSocket", "port"), None),
        ((*CONTAINER, "volumeMounts", 0, "path"), "/dev/shm"),
    ],
)
def test_the_published_definition_refuses(path: tuple[Any, ...], value: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        OF_THE_API.validate(changed(path, value))


def changed(path: tuple[Any, ...], value: Any) -> Any:
    """Our manifest with another value at a path."""
    document = json.loads(json.dumps(manifest("openmpi 5").document))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("apiVersion",), "kubeflow.org/v1"),
        (("spec", "mpiImplementation"), "openmpi"),
        (("spec", "slotsPerWorker"), "4"),
        (("spec", "slots"), 4),
        (("spec", "launcherCreationPolicy"), "Later"),
        (("spec", "runPolicy", "cleanPodPolicy"), "Some"),
        (("spec", "mpiReplicaSpecs", "Workers"), {}),
        (("spec", "mpiReplicaSpecs", "Worker", "template", "spec", "containers"), []),
        (("metadata", "name"), "Not_a_name"),
    ],
)
def test_the_schema_refuses_what_the_operator_would(path: tuple[str, ...], value: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        OPERATOR.validate(changed(path, value))


@pytest.mark.parametrize(
    ("row_id", "name"),
    [("A_row+1,torch=2.6", "a-row-1-torch-2-6"), ("12@", "row-12"), ("a" * 39 + "-bc", "a" * 39)],
)
def test_a_row_whose_name_kubernetes_would_refuse_gets_another(row_id: str, name: str) -> None:
    row = launchers.Target.of(stack(id=row_id), "i")
    made = launchers.LAUNCHERS["kubernetes"].make(row, launchers.site(), ("true",))
    assert isinstance(made, Manifest)
    assert made.document["metadata"]["name"] == name
    OPERATOR.validate(made.document)


# -- the command -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("launcher", "part"), [("slurm", "script"), ("kubernetes", "manifest"), ("docker", "line")]
)
def test_json_has_what_is_printed(launcher: str, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "launch", ROW, f"--{launcher}", "--per-node", "2", "--format", "json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert (document["id"], document["launcher"]) == (ROW, launcher)
    assert document["when"] and document["settings"] and document[part]
    code, text, _ = call(capsys, "launch", ROW, f"--{launcher}", "--per-node", "2")
    assert code == 0
    shown = yaml.safe_load(text) if part == "manifest" else text.rstrip("\n")
    assert document[part] == shown if part != "line" else shown.endswith(document[part])
