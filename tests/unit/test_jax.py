"""JAX as a layer: its checks and rules, a row with it alone, and how its wheels are read."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from image_facts import ROW, docker_facts, failed
from rows import ROOT, SERIES, SOURCES, cell, lock_with

from stackwright.audit.facts import frameworks
from stackwright.core.checks.judge import verify
from stackwright.core.components.jax.rules import LOCK_RULES
from stackwright.core.config import unsupported
from stackwright.core.config.setting import question
from stackwright.core.facts.gpu_code import Runs, code_of
from stackwright.core.model.row import Cell, Package, Rejection, Stack
from stackwright.core.render.dockerfile import render
from stackwright.core.render.package_layers import groups
from stackwright.core.resolve import lockfile
from stackwright.core.resolve.explain import explain
from stackwright.core.resolve.requirements import request, requirements
from stackwright.core.resolve.resolve import check, resolve
from stackwright.core.rules.table import clashes

Change = Callable[[dict[str, Any]], object]
LOCKED = lockfile.read(ROOT / "locks" / "cuda13-jax.txt")
BESIDE = {"cuda": "13.2", "gcc": "14", "torch": "2.15.0", "jax": "0.12.0.1", "gpu_arch": ("8.0", "9.0")}


def jax(facts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = facts["built"]["jax"]
    return found


def rank(facts: dict[str, Any], run: str, number: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = facts["collective"][run]["ranks"][number]
    return found


FAULTS: tuple[tuple[str, Change, set[str], str], ...] = (
    ("older library", lambda f: jax(f)["parts"].update(jaxlib="0.11.2"), {"jax.parts"},
     "jaxlib is 0.11.2, and the row's JAX is 0.12.0.1"),
    ("no plugin", lambda f: jax(f)["parts"].pop("jax-cuda12-plugin"), {"jax.parts"},
     "jax-cuda12-plugin is absent"),
    ("another cuda", lambda f: jax(f)["parts"].update({"jax-cuda13-plugin": "0.12.0.1"}), {"jax.parts"},
     "jax-cuda13-plugin 0.12.0.1 is of another CUDA"),
    ("lost library", lambda f: jax(f)["asks"].update(cuFFT={"error": "RuntimeError: cuFFT not found."}),
     {"jax.libraries"}, "JAX asks for cuFFT: RuntimeError: cuFFT not found."),
    ("older cudnn", lambda f: jax(f)["asks"]["cuDNN"].update(built=91200), {"jax.libraries"},
     "built with cuDNN 91200, and loads 90100"),
    ("built for cuda 13", lambda f: jax(f)["asks"]["CUDA runtime"].update(built=13000), {"jax.libraries"},
     "built with CUDA 13, and loads CUDA 12"),
    ("no backend", lambda f: jax(f).update(cuda_without_gpu="UNIMPLEMENTED"), {"jax.cuda-backend"},
     "its plugin for CUDA says: UNIMPLEMENTED"),
    ("starts", lambda f: jax(f).update(cuda_without_gpu=None), {"jax.cuda-backend"}, "without a GPU"),
    ("another compiler", lambda f: jax(f)["compiler"].update(release="12.9"), {"jax.compiler"},
     "ptxas of CUDA 12.9, and the lock has 12.4.131"),
    ("no compiler", lambda f: jax(f)["compiler"].update(error="not found"), {"jax.compiler"},
     "JAX starts no ptxas: not found"),
    ("no libdevice", lambda f: jax(f)["compiler"].update(libdevice=False), {"jax.compiler"}, "libdevice"),
    ("another nccl", lambda f: jax(f)["libraries"]["nccl"].update(version=22703), {"declared.nccl"},
     "JAX loads 2.27.3"),
    ("no cudnn", lambda f: jax(f)["libraries"].update(cudnn=None), {"declared.cudnn"}, "JAX loads no cuDNN"),
    ("sum", lambda f: rank(f, "jax/mpi").update(sum=[3.0, 31.0]), {"collective.allreduce"}, "jax/mpi"),
    ("launcher", lambda f: rank(f, "jax/srun").update(launched_by="mpi"), {"collective.controller"},
     "jax/srun"),
    ("weights", lambda f: rank(f, "jax/mpi")["training"].update(after=[9.0]), {"collective.training-agrees"},
     "jax/mpi"),
    ("second nccl", lambda f: f["link"]["modules"]["jax"]["mapped"].update(libnccl=["/opt/libnccl.so.2"]),
     {"link.one-nccl"}, "jax maps /opt/libnccl.so.2"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "red", "says"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS]
)
def test_a_fault_is_found_by_its_check(change: Change, red: set[str], says: str) -> None:
    facts = docker_facts(ROW)
    facts = {**facts, "link": {**facts["link"], "modules": {n: {**m, "mapped": dict(m["mapped"])} for n, m in
                                                            facts["link"]["modules"].items()}}}  # fmt: skip
    change(facts)
    details = failed(facts)
    assert set(details) == red, details
    assert says in "".join(details.values())


def test_nvcc_is_in_a_runtime_image_as_a_wheel_that_the_lock_names_and_in_no_other_way() -> None:
    inside = "/opt/stack/lib/python3.13/site-packages/nvidia/cuda_nvcc/bin/nvcc"
    facts = docker_facts(ROW)
    facts["files"]["nvcc"] = [inside]
    assert "static.nvcc" not in failed(facts)
    facts["files"]["nvcc"] = [inside, "/usr/local/cuda/bin/nvcc"]
    assert failed(facts)["static.nvcc"] == "/usr/local/cuda/bin/nvcc is in a runtime image"
    packages = tuple(package for package in ROW.lock.packages if "nvcc" not in package.name)
    row = replace(ROW, lock=replace(ROW.lock, packages=packages))
    assert f"{inside} is in a runtime image" in failed(facts, row)["static.nvcc"]


REFUSED: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"cuda": "11.8", "torch": None}, "jax-cuda", "jax 0.12.0.1 has a plugin for CUDA 12 and 13"),
    ({"python": "3.11"}, "jax-python", "jax 0.12.0.1 has wheels for Python 3.12 to 3.15"),
    ({"torch": "2.8.0"}, "jax-one-cuda", "13 for jax, 12.8 for torch"),
    ({"cuda": "12.4", "gcc": "13", "torch": "2.6.0"}, "jax-libraries",
     "torch 2.6.0 pins cuDNN 9.1.0.70, and jax 0.12.0.1 takes >=9.10.2.21,<10.0"),
    ({"nccl": "2.26"}, "jax-libraries", "the row has NCCL 2.26, and jax 0.12.0.1 takes >=2.27.7"),
    ({"gpu_arch": ("7.0",), "torch": None}, "jax-arch", "no code that runs on a GPU of 7.0"),
    ({"os": "debian-11", "jax": "0.9.9"}, "jax-release", "the package index had no jax 0.9.9"),
    ({"torch": None}, "frameworks", "Horovod needs at least one framework"),
)  # fmt: skip


def by_rules(row: Cell) -> list[tuple[str, str]]:
    return [(rule.name, clash.reason) for rule, clash in clashes(row)]


@pytest.mark.parametrize(("values", "rule", "says"), REFUSED, ids=[row[1] for row in REFUSED])
def test_a_rule_refuses(values: dict[str, Any], rule: str, says: str) -> None:
    found = by_rules(cell(**BESIDE | values))
    assert [reason for name, reason in found if name == rule and says in reason], found


def test_a_row_with_pytorch_and_jax_is_accepted_as_is_an_nccl_that_leaves_parts_out() -> None:
    assert check(cell(**BESIDE)) is None
    assert check(cell(**BESIDE, nccl="2.31")) is None


def advice(row: Cell) -> list[str]:
    return [entry.then for entry in explain(row, question(row, ()), None).advice]


def test_a_user_is_told_what_jax_needs_without_a_driver_and_next_to_pytorch() -> None:
    said = advice(shipped())
    assert [text for text in said if "JAX_PLATFORMS=cpu" in text]
    assert [text for text in said if "XLA_PYTHON_CLIENT_PREALLOCATE=false" in text]
    alone = advice(shipped(torch=None, horovod=None))
    assert not [text for text in alone if "PREALLOCATE" in text]


def test_jaxlib_is_no_field_and_the_message_names_the_one_that_is() -> None:
    found = unsupported.name("jaxlib")
    assert found and (found.why, found.instead) == ("JAX is the field jax", "write jax=0.12.0.1")


def test_jax_before_the_oldest_that_was_tried_is_a_warning() -> None:
    assert ("jax-tried", "JAX was not tried before 0.7") in by_rules(cell(jax="0.6.2"))


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("jax-plugin", {"jax_cuda13_pjrt": "0.11.2"}, "loads jax-cuda13-plugin and jax-cuda13-pjrt 0.12.0.1"),
        ("jax-plugin", {"jax_cuda12_plugin": "0.12.0.1"}, "and no other"),
        ("jax-loads", {}, "no package of the lock brings them"),
    ],
)
def test_a_lock_is_refused(name: str, change: dict[str, str], says: str) -> None:
    row = cell(**BESIDE)
    rule = next(rule for rule in LOCK_RULES if rule.name == name)
    assert rule.ask(row, LOCKED) is None
    changed = {name.replace("_", "-"): version for name, version in change.items()}
    kept = tuple(package for package in LOCKED.packages if package.name not in changed)
    if name == "jax-loads":
        kept = tuple(package for package in kept if not package.name.startswith("nvidia-nccl"))
    packages = (*kept, *(Package(name=which, version=version) for which, version in changed.items()))
    clash = rule.ask(row, replace(LOCKED, packages=packages))
    assert clash and says in clash.reason
    assert rule.ask(cell(), lock_with()) is None, "a row without JAX"


def test_a_second_nccl_beside_pytorch_s_is_refused_by_its_package() -> None:
    packages = (*LOCKED.packages, Package(name="nvidia-nccl-cu12", version="2.32.3"))
    made = resolve(shipped(), replace(LOCKED, packages=packages), SERIES)
    assert isinstance(made, Rejection) and made.rule == "one-cuda"
    assert "nvidia-nccl-cu12 2.32.3" in str(made.clash)


def shipped(**values: Any) -> Cell:
    row = {"id": "cuda13-jax", **BESIDE, "gpu_arch": ("8.0", "9.0", "10.0"), **values}
    return cell(**row)


def test_it_asks_for_its_plugin_and_for_the_row_s_own_compiler() -> None:
    asked = requirements(shipped())
    assert asked[-4:] == (
        "jax[cuda13]==0.12.0.1", "nvidia-cuda-crt==13.2.*", "nvidia-cuda-nvcc==13.2.*", "nvidia-nvvm==13.2.*",
    )  # fmt: skip
    twelve = requirements(cell(jax="0.12.0.1", torch="2.8.0"))
    assert twelve[-1] == "jax[cuda12]==0.12.0.1", "the distribution packages that nvcc, and no wheel is it"


def test_its_wheels_are_in_a_layer_of_their_own() -> None:
    made = resolve(shipped(), LOCKED, SERIES)
    assert isinstance(made, Stack), made
    assert dict(groups(made))["jax"] == ("jax", "jax-cuda13-pjrt", "jax-cuda13-plugin", "jaxlib")


def test_a_row_can_have_jax_alone() -> None:
    row = shipped(torch=None, horovod=None)
    assert check(row) is None
    alone = tuple(package for package in LOCKED.packages if package.name not in ("torch", "triton"))
    made = resolve(row, replace(LOCKED, packages=alone, request=request(row)), SERIES)
    assert isinstance(made, Stack), made
    assert (made.frameworks, made.communication) == ((), (("jax", "0.12.0.1"),))
    dockerfile = render(made, SOURCES).text("Dockerfile")
    assert "horovod" not in dockerfile.lower() and "jax" in dockerfile


def test_an_image_with_jax_alone_passes_all_checks_that_it_has_in_every_tier() -> None:
    packages = tuple(
        package for package in ROW.lock.packages if package.name not in ("torch", "einops", "native")
    )
    row = replace(
        ROW, communication=(("jax", "0.12.0.1"),), frameworks=(), patches=(), pip=(), compiled=(),
        lock=replace(ROW.lock, packages=packages, added=(), compiled=(), sources=()),
    )  # fmt: skip
    facts = docker_facts(row)
    facts["link"]["modules"] = {"jax": facts["link"]["modules"]["jax"]}
    facts["built"] = {"jax": jax(facts)}
    facts["system"]["python_packages"] = {package.name: package.version for package in packages} | {
        "pip": "25.1.1"
    }
    assert failed(facts, row) == {}
    asked = {check.id for check in verify(row, facts, "docker", {}).checks}
    assert {"jax.parts", "declared.nccl", "link.one-nccl", "collective.any-user"} <= asked
    assert not {"together.run", "declared.horovod", "link.any-user-compile"} & asked


# -- the wheels ---------------------------------------------------------------------------------------


def container(*entries: tuple[int, int]) -> bytes:
    """A container of code for GPUs: each entry with its kind and its architecture."""
    body = b"".join(
        struct.pack("<HHIQ", kind, 1, 64, 8) + bytes(12) + struct.pack("<I", arch) + bytes(32) + b"x" * 8
        for kind, arch in entries
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def test_the_code_of_a_plugin_is_read() -> None:
    library = b"\x7fELF" + bytes(60) + container((2, 80), (2, 120), (1, 120)) + container((2, 75))
    assert frameworks.device_code(library) == "sm_75 sm_80 sm_120 compute_120"
    assert code_of("sm_75 sm_80 compute_120").runs("12.1") is Runs.FROM_PTX


@pytest.mark.parametrize("cut", range(0, 120, 7))
def test_a_library_that_is_cut_short_or_is_none_ends_the_reading(cut: int) -> None:
    assert frameworks.device_code(container((2, 80))[:cut]) in ("", "sm_80")
    assert frameworks.device_code(bytes([0x50, 0xED, 0x55, 0xBA]) * cut) == ""


METADATA = """Metadata-Version: 2.4
Name: jax-cuda13-plugin
Version: 0.12.0.1
Provides-Extra: with-cuda
Requires-Dist: nvidia-cuda-runtime>=13.0.48; sys_platform == "linux" and extra == "with-cuda"
Requires-Dist: nvidia-cudnn-cu13<10.0,>=9.12.0.46; sys_platform == "linux" and extra == "with-cuda"
Requires-Dist: nvidia-nccl-cu13>=2.27.7; sys_platform == "linux" and extra == "with-cuda"
"""


def test_what_a_plugin_requires_is_read() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as wheel:
        wheel.writestr("jax_cuda13_plugin-0.12.0.1.dist-info/METADATA", METADATA)
        wheel.writestr("jax_cuda13_plugin/_prng.so", container((2, 80)))
    assert frameworks.jax_plugin(zipfile.ZipFile(made)) == {
        "cuda": ">=13.0", "cudnn": ">=9.12.0.46,<10.0", "nccl": ">=2.27.7", "code": "sm_80",
    }  # fmt: skip
