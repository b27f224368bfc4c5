"""Checks of what is linked, loaded and declared: faults that no small image can have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from image_facts import EXTENSION, ROW, docker_facts, failed

from stackwright.core.checks.judge import verify
from stackwright.core.model.row import Flavour, Mpi, Outcome, Stack

Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize("module", ["torch", "horovod.torch"])
@pytest.mark.parametrize(
    "folder", ["/home/train/.local/lib/python3.13/site-packages", "/srv/lib", "/opt/stack/lib"]
)
def test_a_module_from_elsewhere(module: str, folder: str) -> None:
    facts = docker_facts(ROW)
    facts["link"]["modules"][module]["file"] = f"{folder}/{module}/__init__.py"
    assert failed(facts) == {"link.origin": f"{module} is imported from {folder}/{module}/__init__.py"}


def mapped(facts: dict[str, Any], module: str = "horovod.torch") -> dict[str, Any]:
    found: dict[str, Any] = facts["link"]["modules"][module]["mapped"]
    return found


def test_a_libmpi_that_is_not_mpirun_s() -> None:
    facts = docker_facts(ROW)
    mapped(facts)["libmpi"] = ["/usr/local/lib/libmpi.so.40"]
    assert failed(facts) == {
        "link.mpi": "horovod.torch maps /usr/local/lib/libmpi.so.40, which is not mpirun's"
    }
    mapped(facts)["libmpi"] = ["/usr/lib/libmpi.so.40", "/usr/lib/libmpi.so.40.1"]
    assert set(failed(facts)) == {"link.mpi"}


def test_a_preloaded_runtime_is_the_fault_and_not_that_the_wheel_s_is_unused() -> None:
    facts = docker_facts(ROW)
    foreign = "/usr/local/lib/libcudart.so.12"
    for module in ("torch", "horovod.torch"):
        mapped(facts, module)["libcudart"] = [foreign]
    facts["files"]["cuda_libraries"].append(foreign)
    facts["built"]["torch"]["libraries"]["cudart"] |= {"path": foreign, "owner": None, "intact": False}
    assert failed(facts) == {
        "declared.cuda-runtime": f"horovod.torch loads {foreign}, which no wheel brought"
    }


@pytest.mark.parametrize(("library", "red"), [("nccl", "declared.nccl"), ("cudnn", "declared.cudnn")])
def test_a_changed_library_that_states_the_right_version(library: str, red: str) -> None:
    facts = docker_facts(ROW)
    facts["built"]["torch"]["libraries"][library]["intact"] = False
    details = failed(facts)
    assert set(details) == {red}
    assert "is not as nvidia-" in details[red]


TRIED: tuple[tuple[str, Change, str], ...] = (
    ("static.compiler", lambda f: f["system"].update(compiled="g++: fatal error: cannot execute 'cc1plus'"),
     "'cc1plus'"),
    ("static.ssh", lambda f: f["system"]["ssh"].update(client="/etc/ssh/ssh_config: line 3: Bad option"),
     "ssh refuses its configuration: /etc/ssh/ssh_config: line 3"),
    ("static.ssh", lambda f: f["system"]["ssh"].update(server="line 1: Bad option"), "sshd refuses"),
    ("static.init", lambda f: f["system"].update(init="code 126: cannot execute"), "starts no program"),
    ("static.rdma", lambda f: f["system"]["fabric"].update(drivers=[]), "no driver for libmlx5-rdmav34.so"),
    ("link.compile", lambda f: f["compile"].update(error="InductorError: g++ failed"), "InductorError"),
)  # fmt: skip


@pytest.mark.parametrize(("red", "change", "says"), TRIED)
def test_what_is_tried_and_does_not_work(red: str, change: Change, says: str) -> None:
    facts = docker_facts(ROW)
    facts["compile"] = dict(facts["compile"])
    change(facts)
    details = failed(facts)
    assert set(details) == {red}
    assert says in details[red]


def test_a_framework_without_a_compiler_of_its_own_says_so() -> None:
    facts = docker_facts(ROW)
    facts["compile"] = {"absent": "PyTorch 2.4.0 has no torch.compile for Python 3.13", "error": None}
    check = next(check for check in verify(ROW, facts, "docker", {}).checks if check.id == "link.compile")
    assert (check.outcome, check.detail) == (Outcome.PASSED, facts["compile"]["absent"])


def test_the_libcuda_of_a_driver_is_no_stub() -> None:
    facts = docker_facts(ROW)
    facts["system"]["driver_library"] = {
        "reachable": [{"path": "/usr/lib/libcuda.so.1", "way": "ld.so.cache"}], "driver": True
    }  # fmt: skip
    assert failed(facts) == {}
    facts["system"]["driver_library"]["driver"] = False
    assert set(failed(facts)) == {"static.libcuda-stub"}


def test_a_devel_image_ships_the_nvcc_of_the_row() -> None:
    row = replace(ROW, flavour=Flavour.DEVEL)
    facts = docker_facts(row)
    facts["files"]["nvcc"] = ["/usr/bin/nvcc"]
    facts["system"]["nvcc"] = "12.4"
    facts["files"]["cuda_libraries"].append("/usr/lib/x86_64-linux-gnu/libcudart.so.12")
    assert failed(facts, row) == {}
    for wrong in ("12.6", None):
        facts["system"]["nvcc"] = wrong
        assert set(failed(facts, row)) == {"static.nvcc"}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("HYDRA build details:\n    Version:                                 4.2.1\n", ""),
        ("HYDRA build details:\n    Version:                                 4.0.2\n", "4.0.2"),
        ("mpirun (Open MPI) 4.2.1", "openmpi"),
        ("", "unknown"),
    ],
)
def test_mpich_is_told_from_open_mpi(text: str, wrong: str) -> None:
    row = replace(ROW, mpi=Mpi.of("mpich", "4.2.1"))
    facts = docker_facts(row)
    facts["system"]["mpirun"] = text
    facts["link"]["modules"]["horovod.torch"]["mapped"].pop("libmpi")
    facts["fabric"] |= {"pml": None, "pmix": "no such file", "mpich": ["ch4:ucx"]}
    details = failed(facts, row)
    assert (set(details) == {"declared.mpi"}) == bool(wrong)
    assert wrong in details.get("declared.mpi", "")


def test_the_wheel_that_owns_a_library_is_compared_too() -> None:
    """libcudart answers 12.4 for every 12.4.x; the wheel that it came from says which."""
    facts = docker_facts(ROW)
    facts["built"]["torch"]["libraries"]["cudart"]["owner"] = "nvidia-cuda-runtime-cu12 12.4.99"
    assert set(failed(facts)) == {"declared.cuda-runtime"}


def test_a_library_that_says_no_version_is_known_by_the_wheel_that_it_still_is() -> None:
    facts = docker_facts(ROW)
    cudart = facts["built"]["torch"]["libraries"]["cudart"]
    cudart["version"] = None
    assert failed(facts) == {}
    cudart["intact"] = False
    assert "is not as nvidia-cuda-runtime-cu12 12.4.127 brought it" in failed(facts)["declared.cuda-runtime"]
    cudart |= {"intact": True, "owner": "nvidia-cuda-runtime-cu12 12.8.90"}
    assert "12.8.90" in failed(facts)["declared.cuda-runtime"]


def with_tensorflow() -> tuple[Stack, dict[str, Any]]:
    """The good image with TensorFlow beside PyTorch: its extension and its way to the CUDA libraries."""
    both = replace(ROW, frameworks=(("torch", "2.6.0"), ("tensorflow", "2.20.0")))
    facts = docker_facts(both)
    library = EXTENSION.replace("torch/mpi_lib_v2", "tensorflow/mpi_lib")
    needed = ["libmpi.so.40", "libnccl.so.2", "libtensorflow_cc.so.2"]
    facts["link"]["libraries"][library] = {
        **facts["link"]["libraries"][EXTENSION], "module": "horovod.tensorflow", "needed": needed,
    }  # fmt: skip
    found = facts["link"]["modules"]
    for name in ("torch", "horovod.torch"):
        other = name.replace("torch", "tensorflow")
        found[other] = {
            **found[name],
            "version": "2.20.0",
            "file": found[name]["file"].replace("torch", "tensorflow"),
        }
    answers = facts["built"]["torch"]
    facts["built"]["tensorflow"] = {**answers, "libraries": {**answers["libraries"], "cudnn": None}}
    return both, facts


def outcome(row: Stack, facts: dict[str, Any], check: str) -> Outcome:
    checks = verify(row, facts, "docker", {}).checks
    return next(judged.outcome for judged in checks if judged.id == check)


@pytest.mark.parametrize("check", ["link.shared", "declared.cudnn"])
def test_tensorflow_reaches_cuda_in_its_own_way(check: str) -> None:
    row, facts = with_tensorflow()
    assert outcome(row, facts, check) is Outcome.PASSED


def test_a_static_cuda_runtime_is_seen_in_tensorflow_s_extension_too() -> None:
    row, facts = with_tensorflow()
    library = next(name for name in facts["link"]["libraries"] if "tensorflow" in name)
    facts["link"]["libraries"][library]["undefined"] = ["ncclAllReduce"]
    assert outcome(row, facts, "link.shared") is Outcome.FAILED


def test_torch_that_loads_no_cudnn_is_still_a_fault() -> None:
    row, facts = with_tensorflow()
    facts["built"]["torch"]["libraries"]["cudnn"] = None
    assert outcome(row, facts, "declared.cudnn") is Outcome.FAILED
