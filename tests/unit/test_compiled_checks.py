"""What is proven of what was compiled: the checks over facts, what the probe reads, and the end of %test."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from image_facts import ROW, SITE, docker_facts, failed

from stackwright.core.checks.observed import found

ROOT = Path(__file__).parents[2]
PATH = f"{SITE}/native/_C.so"
Change = Callable[[dict[str, Any]], object]


def facts() -> dict[str, Any]:
    return deepcopy(docker_facts(ROW))


def note(**change: Any) -> Change:
    """Another note in the wheel."""
    return lambda facts: facts["compiled"]["native"]["note"].update(change)


def extension(**change: Any) -> Change:
    return lambda facts: facts["compiled"]["native"]["extensions"][PATH].update(change)


def package(**versions: str) -> Change:
    return lambda facts: facts["compiled"]["native"]["note"]["packages"].update(versions)


def without(name: str) -> Change:
    return lambda facts: facts["compiled"]["native"]["note"]["packages"].pop(name)


def of_cpu_alone(facts: dict[str, Any]) -> None:
    note(nvcc=None)(facts)
    extension(gpu_code=False, kernels={"sm": [], "ptx": []})(facts)


SM = {"sm": ["7.0", "8.0"], "ptx": ["8.0"]}
FAULTS: tuple[tuple[str, Change, str], ...] = (
    ("compiled.source", note(source={"sha256": "dd" * 32}), f"native was compiled from {'dd' * 32}"),
    ("compiled.source", note(source=None), "native was compiled from None"),
    ("compiled.source", note(environment={}), "native was compiled with {}, the row has {'FORCE_CUDA': '1'}"),
    ("compiled.compiler", note(gcc="14.2.0"), "native notes gcc 14.2.0, the row's is 13.3.0"),
    ("compiled.compiler", extension(gcc=["14.2.0"]), f"{PATH} was compiled by gcc 14.2.0"),
    ("compiled.compiler", extension(gcc=[]), f"{PATH} was compiled by gcc of no name"),
    ("compiled.against", package(torch="2.7.0"), "against torch 2.7.0, the image has 2.6.0"),
    ("compiled.against", without("torch"), "against torch of none, the image has 2.6.0"),
    ("compiled.against", note(python="3.12.1"), "compiled for Python 3.12.1"),
    ("compiled.gpu-code", note(nvcc="12.8"), "by nvcc 12.8, the row's is 12.4"),
    ("compiled.gpu-code", of_cpu_alone, "native has 3 sources of CUDA, and no file of it has code for a GPU"),
    ("compiled.gpu-code", extension(kernels=SM), f"{PATH} has no code for 9.0, only for 7.0 8.0"),
    ("compiled.cpu-flags", note(cpu_flags=["-march=native"]), "native was compiled with -march=native"),
    ("compiled.loads", extension(error="undefined symbol: x"), "undefined symbol: x"),
    ("compiled.mpi", note(mpi="4.1.4"), "with MPI 4.1.4, the row's is 5.0.7"),
    ("compiled.mpi", extension(mpi=[]), "loads no MPI"),
    ("compiled.mpi", extension(mpi=["/opt/mpi/libmpi.so.40"]), "which is not mpirun's"),
    ("compiled.mpi", extension(mpi=["/usr/lib/libmpich.so.12"]), "which is not mpirun's"),
)


def test_a_good_image_is_green_and_its_versions_are_found() -> None:
    assert failed(facts()) == {}
    assert dict(found(ROW, facts()))["compile.native.version"] == "1.0"


@pytest.mark.parametrize(("red", "change", "says"), FAULTS)
def test_exactly_the_check_of_a_fault_is_red(red: str, change: Change, says: str) -> None:
    broken = facts()
    change(broken)
    details = failed(broken)
    assert set(details) == {red}
    assert says in details[red]


def test_a_source_may_compile_its_cuda_code_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from stackwright.core.components.shared import sources

    assert sources.of("deepspeed").later((("DS_BUILD_AIO", "0"), ("DS_ACCELERATOR", "cuda")))
    changed = facts()
    of_cpu_alone(changed)
    monkeypatch.setattr(sources, "KNOWN", {"native": sources.Known(ahead="BUILD_.*")})
    assert failed(changed) == {}
    monkeypatch.setattr(sources, "KNOWN", {"native": sources.Known(ahead="FORCE_.*")})
    assert set(failed(changed)) == {"compiled.gpu-code"}, "the row asks for its CUDA code"


def test_without_a_note_or_a_distribution_nothing_is_shown() -> None:
    broken = facts()
    broken["compiled"]["native"]["note"] = None
    assert {"compiled.source", "compiled.compiler", "compiled.against"} <= set(failed(broken))
    broken["compiled"] = {"native": {"error": "it is not installed"}}
    assert (
        "the probe left no compiled/native/extensions: it is not installed"
        in failed(broken)["compiled.loads"]
    )


# ------------------------------------------------------------------------------------ the probe


def load(path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load(ROOT / "probes" / "compiled.py", monkeypatch)


def test_the_probe_loads_the_extensions_of_this_environment(probe: ModuleType) -> None:
    told = probe.main(["markupsafe", "no-such-distribution"])
    assert told["no-such-distribution"] == {"error": "it is not installed"}
    assert told["markupsafe"]["note"] is None
    (found,) = told["markupsafe"]["extensions"].values()
    assert found["error"] is None and found["mpi"] == [] and found["gpu_code"] is False
    assert found["gcc"] and "libc.so.6" in found["needed"]


def test_an_undefined_symbol_is_named(probe: ModuleType, tmp_path: Path) -> None:
    """A real extension, one of whose symbols gets a name that nothing has."""
    import markupsafe._speedups as real

    path = tmp_path / "broken.so"
    content = Path(real.__file__).read_bytes()
    assert b"\0PyModuleDef_Init\0" in content
    path.write_bytes(content.replace(b"\0PyModuleDef_Init\0", b"\0PyModuleDef_Xxxx\0"))
    _, error = probe.loaded(str(path), [], {})
    assert "undefined symbol: PyModuleDef_Xxxx" in error


def test_what_is_imported_first_is_of_others_and_not_nvidias(probe: ModuleType, tmp_path: Path) -> None:
    for name, files in {"torch": "torch/__init__.py,,", "nvidia-x": "nvidia/x/__init__.py,,"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "RECORD").write_text(f"{files}\n")
    there = {name: str(tmp_path / name) for name in ("torch", "nvidia-x")}
    owner = {"libtorch.so": "torch", "libcudart.so.12": "nvidia-x", "own.so": "native"}
    needed = ["libtorch.so", "libcudart.so.12", "own.so", "libc.so.6"]
    assert probe.before(needed, "native", there, owner) == ["torch"]


# ------------------------------------------------------------------------------- the end of %test


def test_the_end_of_test_names_missing_code(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = load(ROOT / "singularity" / "judge.py", monkeypatch)
    told = facts()
    assert list(judge.compiled(told)) == []
    extension(kernels=SM)(told)
    assert list(judge.compiled(told)) == [f"compiled: {PATH} has no code for 9.0"]
    row = {**json.loads(told["system"]["row"]), "compile": {}}
    assert list(judge.compiled({**told, "system": {"row": json.dumps(row)}})) == []
