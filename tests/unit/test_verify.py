"""The judgement of facts. tests/engine plants the faults that an image can have; these are the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_facts import EXTENSION, docker_facts, sif_facts, stack

from stackwright.core.checks.check import MissingFact, Rule, cause, numbers, same_release
from stackwright.core.checks.judge import RULES, document, rules, verify
from stackwright.core.components.horovod.built import cuda_version, cudnn_version, nccl_version
from stackwright.core.model.labels import KEY, OCI, VERSION
from stackwright.core.model.row import Mpi, Outcome, Stack, Tier

ROW = stack()
Change = Callable[[dict[str, Any]], object]


def failed(facts: dict[str, Any], row: Stack = ROW, world: str = "docker") -> dict[str, str]:
    return {check.id: check.detail for check in verify(row, facts, world, {}).failed}


def test_the_row_itself_passes_everything() -> None:
    verdict = verify(ROW, docker_facts(ROW), "docker", {})
    assert failed(docker_facts(ROW)) == {}
    assert [check.outcome for check in verdict.checks] == [Outcome.PASSED] * len(rules("docker"))


def test_the_row_as_sif_passes_everything_that_a_sif_has() -> None:
    assert failed(sif_facts(ROW), world="sif") == {}
    ids = {rule.id for rule in rules("sif")}
    assert ids == {rule.id for rule in RULES} - {
        "static.scan", "static.proxy", "static.user", "static.entrypoint", "static.history", "static.workdir",
        "static.site-layers", "static.settings",
    }  # fmt: skip
    assert {rule.id for rule in RULES} - {rule.id for rule in rules("docker")} == {
        "static.scripts",
        "ledger.same-files",
    }


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_without_facts_no_check_passes(rule: Any) -> None:
    world = min(rule.worlds)
    check = next(check for check in verify(ROW, {}, world, {}).checks if check.id == rule.id)
    assert check.outcome is (Outcome.NOT_RUN if rule.needs else Outcome.FAILED)
    assert check.detail
    with pytest.raises(MissingFact):
        rule.judge(ROW, {})


@pytest.mark.parametrize("probe", ["files", "system", "link"])
def test_a_crashed_probe_fails_its_checks_with_its_error(probe: str) -> None:
    facts = {**docker_facts(ROW), probe: {"error": "exit code 1"}}
    details = failed(facts)
    assert details
    assert all("exit code 1" in detail for detail in details.values())


def test_needs_name_checks_and_lead_to_no_circle() -> None:
    table = {rule.id: rule for rule in RULES}

    def above(rule: Rule, below: tuple[str, ...]) -> None:
        assert rule.id not in below, below
        for name in rule.needs:
            above(table[name], (*below, rule.id))

    for rule in RULES:
        above(rule, ())


def test_a_missing_library_is_one_failure_and_the_rest_is_not_asked() -> None:
    """As it is without libmpi: nothing of Horovod works, and one check says why."""
    facts = docker_facts(ROW)
    facts["link"]["libraries"][EXTENSION]["unresolved"].append("libmpi.so.40")
    facts["link"]["modules"]["horovod.torch"] = {
        "error": "exit code 1: libmpi.so.40: cannot open shared object"
    }
    facts["built"]["torch"] = {"error": "exit code 1"}
    for run in facts["collective"].values():
        run.update(ranks=[], code=1, error="horovodrun ended", output="Gloo support has not been built.")
    verdict = verify(ROW, facts, "docker", {})
    assert {check.id: check.detail for check in verdict.failed} == {
        "link.unresolved": f"{EXTENSION} needs libmpi.so.40"
    }
    waiting = [check for check in verdict.checks if check.outcome is Outcome.NOT_RUN]
    assert {check.detail for check in waiting} == {"not asked, because link.unresolved failed"}
    assert len(waiting) > 20
    assert verdict.tier(Tier.LINK) is Outcome.FAILED
    assert {verdict.tier(tier) for tier in (Tier.BUILT, Tier.COLLECTIVE)} == {Outcome.NOT_RUN}


def test_a_check_is_asked_where_what_it_needs_was_not_to_run() -> None:
    facts = docker_facts(ROW)
    facts["built"]["torch"]["mpi_built"] = 0
    verdict = verify(ROW, facts, "docker", {Tier.LINK: "nobody asked for it"})
    assert {check.id for check in verdict.failed} == {"built.mpi"}


def test_an_extension_that_horovod_did_without() -> None:
    """Horovod prints a warning and goes on; its answers are then none, which is not "no"."""
    facts = docker_facts(ROW)
    facts["link"]["modules"]["horovod.torch"]["extension"]["error"] = "no shared object"
    facts["built"]["torch"] |= dict.fromkeys(("mpi_built", "gloo_built", "nccl_built", "cuda_built"))
    assert failed(facts) == {"link.import": "horovod.torch: its extension does not load: no shared object"}
    facts["link"]["modules"]["horovod.torch"]["extension"]["error"] = None
    details = failed(facts)
    assert set(details) == {"built.mpi", "built.gloo", "built.nccl", "built.cuda"}
    assert all("does not say whether it was built with" in detail for detail in details.values())


OUTPUTS = (
    (
        "-"
        * 76
        + "\nIt appears that your filesystem is not writable.\nunable to create /tmp/prterun.node.0: "
        "Permission denied\n" + "-" * 76 + "\n",
        "unable to create /tmp/prterun.node.0: Permission denied",
    ),
    (
        "Traceback (most recent call last):\n  File x\n    error()\nValueError: no rank 1\n"
        + "=" * 40
        + "\nkilled\n",
        "ValueError: no rank 1",
    ),
    ("starting\nended\n-----\n", "ended"),
    ("------\n", "it said nothing"),
    ("", "it said nothing"),
)


@pytest.mark.parametrize(("output", "line"), OUTPUTS)
def test_the_cause_is_shown_and_not_the_frame_around_it(output: str, line: str) -> None:
    assert cause(output) == line
    facts = docker_facts(ROW)
    facts["collective"]["torch/mpi"].update(
        ranks=[], code=1, error="mpirun ended with exit code 1", output=output
    )
    assert failed(facts) == {"collective.run": f"torch/mpi: mpirun ended with exit code 1: {line}"}


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
    check = next(one for one in verify(ROW, facts, "docker", {}).checks if one.id == "link.compile")
    assert (check.outcome, check.detail) == (Outcome.PASSED, facts["compile"]["absent"])


@pytest.mark.parametrize("tier", list(Tier))
def test_a_tier_that_did_not_run_is_never_green(tier: Tier) -> None:
    verdict = verify(ROW, docker_facts(ROW), "docker", {tier: "no device"})
    assert verdict.tier(tier) is Outcome.NOT_RUN
    assert {check.detail for check in verdict.checks if check.tier is tier} == {"no device"}
    others = [verdict.tier(other) for other in Tier if other is not tier]
    assert others == [Outcome.PASSED] * (len(Tier) - 1)


def rank(facts: dict[str, Any], launcher: str = "mpi", number: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = facts["collective"][f"torch/{launcher}"]["ranks"][number]
    return found


def training(facts: dict[str, Any], **values: Any) -> None:
    rank(facts)["training"] |= values


def each(facts: dict[str, Any], **values: Any) -> None:
    """The same change in both ranks."""
    for number in (0, 1):
        rank(facts, number=number).update(values)


def same_start(facts: dict[str, Any]) -> None:
    rank(facts)["data"] = rank(facts, number=0)["data"]


def untrained(facts: dict[str, Any]) -> None:
    for number in (0, 1):
        rank(facts, number=number)["training"]["after"] = rank(facts, number=0)["training"]["before"]


NAN = float("nan")
COLLECTIVE_FAULTS: tuple[tuple[str, Change, set[str], str], ...] = (
    ("wrong sum", lambda f: rank(f).update(sum=[4.0, 30.0]), {"allreduce"}, "torch/mpi: rank 1 has the sum"),
    ("sum is NaN", lambda f: rank(f).update(sum=[NAN, 30.0]), {"allreduce"}, "nan"),
    ("sum too short", lambda f: rank(f).update(sum=[3.0]), {"allreduce"}, "[3.0]"),
    ("average not divided", lambda f: each(f, average=[3.0, 30.0]), {"allreduce"}, "the average"),
    ("sum over gloo", lambda f: rank(f, "gloo").update(sum=[1.0, 1.0]), {"allreduce"}, "torch/gloo"),
    ("broadcast of rank 0", lambda f: each(f, broadcast=[1.0, 10.0]), {"broadcast"}, "sent [2.0, 20.0]"),
    ("no broadcast", lambda f: rank(f, number=0).update(broadcast=[1.0, 10.0]), {"broadcast"}, "rank 0"),
    ("gather in another order", lambda f: rank(f)["allgather"].reverse(), {"allgather"}, "rank 1 gathered"),
    ("gather loses a row", lambda f: rank(f)["allgather"].pop(), {"allgather"}, "rank 1 gathered"),
    ("diverging weights", lambda f: training(f, after=[0.5, -0.7]), {"training-agrees"}, "different weights"),
    ("weights are NaN", lambda f: training(f, after=[NAN, NAN]), {"training-agrees"}, "different weights"),
    ("equal data", same_start, {"training-agrees"}, "the same data"),
    ("weights unchanged", untrained, {"training-agrees"}, "did not change"),
    ("loss rises", lambda f: training(f, losses=[1.0, 2.0]), {"training-learns"}, "from 1 to 2"),
    ("loss stays", lambda f: training(f, losses=[1.0, 1.0]), {"training-learns"}, "from 1 to 1"),
    ("loss is NaN", lambda f: training(f, losses=[1.0, NAN]), {"training-learns"}, "to nan"),
    ("no loss", lambda f: training(f, losses=[]), {"training-learns"}, "nowhere"),
    ("world of one", lambda f: each(f, size=1), {"world"}, "sees 1 ranks"),
    ("two nodes", lambda f: each(f, local_size=1), {"world"}, "1 of them on its node"),
    ("other controller", lambda f: rank(f).update(mpi_enabled=False), {"controller"}, "no controller"),
    ("exit code", lambda f: f["collective"]["torch/gloo"].update(code=1, error="1"), {"run"}, "gloo"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "red", "says"),
    [row[1:] for row in COLLECTIVE_FAULTS],
    ids=[row[0] for row in COLLECTIVE_FAULTS],
)
def test_a_fault_of_a_collective_is_found_by_its_check(change: Change, red: set[str], says: str) -> None:
    facts = docker_facts(ROW)
    change(facts)
    details = failed(facts)
    assert set(details) == {f"collective.{name}" for name in red}
    assert says in "".join(details.values())


def test_two_worlds_of_one_rank() -> None:
    """What srun without PMI makes: each process is rank 0 of 1, and each sum is its own value."""
    facts = docker_facts(ROW)
    alone = {"rank": 0, "size": 1, "local_size": 1}
    for number in (0, 1):
        one = rank(facts, number=number)
        one.update(alone, sum=one["given"], average=one["given"])
    assert failed(facts).keys() == {"collective.world"}
    assert "[0, 0]" in failed(facts)["collective.world"]


def test_one_rank_that_is_lost() -> None:
    facts = docker_facts(ROW)
    facts["collective"]["torch/mpi"]["ranks"].pop()
    assert failed(facts) == {"collective.run": "torch/mpi: 2 ranks were started, and 1 left a result"}


def test_a_run_without_ranks_passes_nothing_of_its_tier() -> None:
    facts = docker_facts(ROW)
    facts["collective"]["torch/gloo"].update(ranks=[], code=139, error="ended with exit code 139")
    assert set(failed(facts)) == {"collective.run"}
    facts["collective"]["torch/mpi"] = facts["collective"]["torch/gloo"]
    assert set(failed(facts)) == {"collective.run"}
    passed = {
        check.id for check in verify(ROW, facts, "docker", {}).checks if check.outcome is Outcome.PASSED
    }
    assert not any(name.startswith("collective.") for name in passed)


def test_a_rank_that_failed_still_says_which_world_it_saw() -> None:
    facts = docker_facts(ROW)
    for number in (0, 1):
        one = rank(facts, number=number)
        one.update(rank=0, size=1, local_size=1, error="ValueError: no rank 1")
        del one["sum"], one["training"]
    details = failed(facts)
    assert set(details) == {"collective.world"}
    assert "sees 1 ranks" in details["collective.world"]
    for number in (0, 1):
        rank(facts, number=number).update(rank=number, size=2, local_size=2)
    assert failed(facts) == {
        "collective.run": "torch/mpi: rank 0: ValueError: no rank 1; torch/mpi: rank 1: ValueError: no rank 1"
    }


def gpu_rank(facts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = facts["gpu"]["torch"]["ranks"][0]
    return found


GPU_FAULTS: tuple[tuple[str, Change, str], ...] = (
    ("run", lambda f: f["gpu"]["torch"].update(code=1, error="ended with 1"), "ended with 1"),
    ("allreduce", lambda f: gpu_rank(f).update(sum=[2.0, 10.0]), "[2.0, 10.0]"),
    ("allreduce", lambda f: gpu_rank(f).update(device="cpu"), "on cpu"),
    ("kernels", lambda f: gpu_rank(f).update(capabilities=["6.1"]), "do not run on 6.1"),
    ("kernels", lambda f: gpu_rank(f).update(capabilities=[]), "no framework sees a GPU"),
    ("driver", lambda f: gpu_rank(f).update(driver_cuda=11040), "offers CUDA 11"),
)


@pytest.mark.parametrize(("red", "change", "says"), GPU_FAULTS)
def test_a_fault_of_a_gpu_is_found_by_its_check(red: str, change: Change, says: str) -> None:
    facts = docker_facts(ROW)
    change(facts)
    details = failed(facts)
    assert set(details) == {f"gpu.{red}"}
    assert says in details[f"gpu.{red}"]


def test_a_gpu_that_answers_with_no_rank_is_no_gpu() -> None:
    facts = docker_facts(ROW)
    facts["gpu"]["torch"].update(ranks=[])
    assert failed(facts).keys() == {"gpu.run"}


def test_unreadable_folders_fail_in_docker() -> None:
    facts = docker_facts(ROW)
    facts["files"]["unreadable"] = ["/root"]
    assert failed(facts) == {"static.scan": "1 folders could not be read: /root"}


@pytest.mark.parametrize(
    "line",
    [
        "RUN |1 https_proxy=http://10.0.0.1:3128 /bin/sh -c true",
        "RUN |1 PIP_INDEX_URL=http://index.example/simple /bin/sh -c true",
        "RUN pip install --index-url http://index.example/simple torch",
        "RUN echo 'deb http://mirror.example/debian trixie main' > /etc/apt/sources.list",
        "RUN echo 'deb [signed-by=/k] https://mirror.example/debian trixie main' > /etc/apt/sources.list",
    ],
)
def test_the_history_tells_nothing_of_the_site(line: str) -> None:
    facts = docker_facts(ROW)
    facts["history"]["lines"].append(line)
    details = failed(facts)
    assert set(details) == {"static.history"}
    assert "example" not in details["static.history"]
    assert "10.0.0.1" not in details["static.history"]


def test_a_key_in_a_wheel_is_public() -> None:
    facts = docker_facts(ROW)
    facts["files"]["private_keys"] = [
        {"path": "/opt/stack/lib/python3.13/site-packages/tornado/test/test.key", "readable": True}
    ]
    assert set(failed(facts)) == {"static.private-key"}, "read from outside, public ones are left out before"
    del facts["files"]["outside"]
    assert failed(facts) == {}


def test_what_could_not_be_read_is_not_run() -> None:
    facts = sif_facts(ROW)
    facts["files"] |= {"outside": False, "uid": 1000, "unreadable": ["/root", "/home/train/.ssh"]}
    facts["ledger"] = {"not_read": "there is no unsquashfs"}
    outcomes = {check.id: check.outcome for check in verify(ROW, facts, "sif", {}).checks}
    blind = ("static.private-key", "static.host-key", "static.pip-cache", "static.temporary", "ledger.wheels")
    assert {outcomes[name] for name in blind} == {Outcome.NOT_RUN}
    assert Outcome.FAILED not in outcomes.values()


def test_the_libcuda_of_a_driver_is_no_stub() -> None:
    facts = docker_facts(ROW)
    facts["system"]["driver_library"] = {
        "reachable": [{"path": "/usr/lib/libcuda.so.1", "way": "ld.so.cache"}], "driver": True
    }  # fmt: skip
    assert failed(facts) == {}
    facts["system"]["driver_library"]["driver"] = False
    assert set(failed(facts)) == {"static.libcuda-stub"}


def test_a_devel_image_ships_the_nvcc_of_the_row() -> None:
    row = replace(ROW, flavour="devel")
    facts = docker_facts(row)
    facts["files"]["nvcc"] = ["/usr/bin/nvcc"]
    facts["system"]["nvcc"] = "12.4"
    facts["files"]["cuda_libraries"].append("/usr/lib/x86_64-linux-gnu/libcudart.so.12")
    assert failed(facts, row) == {}
    for wrong in ("12.6", None):
        facts["system"]["nvcc"] = wrong
        assert set(failed(facts, row)) == {"static.nvcc"}


def test_a_world_that_is_none_has_no_empty_verdict() -> None:
    with pytest.raises(ValueError, match="singularity"):
        verify(ROW, docker_facts(ROW), "singularity", {})


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
    row = replace(ROW, mpi=Mpi(flavour="mpich", version="4.2.1"))
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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(docker_facts(ROW), JSON)))
def test_facts_of_any_shape_are_judged_and_not_raised(facts: dict[str, Any]) -> None:
    verdict = verify(ROW, facts, "docker", {})
    assert len(verdict.checks) == len(rules("docker"))
    assert verdict.failed


@pytest.mark.parametrize(
    ("declared", "seen", "same"),
    [("13", "13.3.0", True), ("13.3.0", "13.3.0", True), ("2.6.0", "2.6.0+cu124", True),
     ("12.4", "12.40", False), ("13.3.0", "13", False), ("", "13", False),
     ("13", "", False), ("x", "y", False)],
)  # fmt: skip
def test_same_release(declared: str, seen: str, same: bool) -> None:
    assert same_release(declared, seen) is same


def test_version_codes() -> None:
    assert cuda_version(12040) == (12, 4)
    assert cuda_version(11080) == (11, 8)
    assert cudnn_version(90100) == (9, 1, 0)
    assert cudnn_version(8902) == (8, 9, 2)
    assert nccl_version(22105) == (2, 21, 5)
    assert nccl_version(2708) == (2, 7, 8)
    assert numbers("9.1.0.70") == (9, 1, 0, 70)


def test_ids_are_unique_and_every_check_says_what_it_is_for() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.why.endswith("."), rule.id
        assert 30 < len(rule.why) < 130, rule.id


def test_the_list_in_the_documentation_is_the_table() -> None:
    path = Path(__file__).parents[2] / "docs" / "checks.md"
    assert path.read_text() == document(), (
        "write it anew: python -m stackwright.core.checks.judge > docs/checks.md"
    )


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
    return next(one.outcome for one in checks if one.id == check)


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


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (VERSION, "0" * 12, "and the key begins with 5e5e5e5e5e5e"),
        (VERSION, "0.28.1", "not in its notation"),
        (f"{OCI}created", "today", "not in its notation"),
        (f"{OCI}licenses", "MIT, GPL", "not in its notation"),
        (f"{OCI}source", "", "source is missing"),
    ],
)
def test_labels_of_registries_are_there_and_in_their_notation(name: str, value: str, said: str) -> None:
    facts = docker_facts(ROW)
    facts["image"]["Config"]["Labels"][name] = value
    assert said in failed(facts)["static.oci-labels"]


def test_a_sif_of_a_definition_file_has_a_version_and_no_key() -> None:
    facts = sif_facts(ROW)
    del facts["labels"][KEY]
    assert failed(facts, world="sif") == {}


def test_what_a_login_node_reads_from_outside_is_what_is_inside() -> None:
    facts = docker_facts(ROW)
    facts["system"]["distribution_packages"]["libpmix2t64"] = "5.0.7-1"
    assert failed(facts) == {}
    facts["system"]["distribution_packages"]["libpmix2t64"] = "4.2.2-1+deb12u1"
    assert "4.2.2 is inside" in failed(facts)["static.cluster-labels"]
    facts = docker_facts(ROW)
    del facts["image"]["Config"]["Labels"]["org.stackwright.glibc"]
    assert "org.stackwright.glibc is None" in failed(facts)["static.cluster-labels"]
