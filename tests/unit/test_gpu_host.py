"""`make gpu` without a GPU: what it says and ends with, what it compiles with, and how it judges."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rows import ROOT

from bench.gpu import allreduce, compile, host, images, record
from bench.gpu.host import Device, Driver, Host
from bench.gpu.start import main
from stackwright.core.errors import GpuError, UsageError
from stackwright.core.facts.patches import load_series

START = ROOT / "bench" / "gpu" / "start.py"
SERIES = load_series(ROOT / "patches" / "horovod")
H200 = Driver(version="580.1", cuda=13000, devices=(Device(name="NVIDIA H200", capability="9.0"),))
HOST = Host(
    driver=H200, torch="2.11.0+cu130", cuda="13.0", nccl="2.28.9", nvidia=Path("/s/nvidia"),
    toolkit=Path("/cuda"), nvcc="13.0", cc="gcc", cxx="g++", gcc="13.3.0", lacks=(),
)  # fmt: skip


def start(folder: Path, *words: str, python: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run the program as on a host without a driver: the one that the loader finds is no library."""
    (folder / host.LIBRARY).write_bytes(b"")
    return subprocess.run(
        [sys.executable, *python, str(START), "--out", str(folder / "out"), *words],
        capture_output=True, text=True, check=False, env={**os.environ, "LD_LIBRARY_PATH": str(folder)},
    )  # fmt: skip


# -- what is missing -------------------------------------------------------------------------------


def test_without_a_driver_it_says_so_in_one_line_and_records_nothing(tmp_path: Path) -> None:
    done = start(tmp_path)
    assert (done.returncode, done.stdout) == (GpuError.exit_code, "")
    assert done.stderr == "not run: no driver: this host has no libcuda.so.1\n"
    assert not (tmp_path / "out").exists()


def test_it_starts_with_the_standard_library_alone(tmp_path: Path) -> None:
    done = start(tmp_path, python=("-S", "-E", "-s"))
    assert (done.returncode, done.stderr.count("\n")) == (GpuError.exit_code, 1), done.stderr


def test_an_older_python_gets_as_far_as_the_line_that_says_so() -> None:
    text = START.read_text()
    ast.parse(text, feature_version=(3, 7))
    head = text.partition("import argparse")[0]
    assert "19" in re.findall(r"sys\.exit\((\d+)\)", head)
    assert GpuError.exit_code == 19


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--source", "none.tar.gz"), "--source: there is no file none.tar.gz"),
        (("--wheels", "none"), "--wheels: there is no folder none"),
        (("--compile-only", "9"), "--compile-only: '9' is no architecture"),
        (("--compile-only", "9.0; id"), "--compile-only: '9.0; id' is no architecture"),
    ],
)
def test_a_wrong_option_is_one_message(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == UsageError.exit_code
    assert capsys.readouterr().err.startswith(f"error: {said}")


def test_each_thing_that_a_compile_lacks_is_a_line(tmp_path: Path) -> None:
    """The environment of the tests has no PyTorch, and this CUDA_HOME no compiler."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_HOME", str(tmp_path))
        patch.setenv("CC", "no-such-compiler")
        with pytest.raises(GpuError) as missing:
            host.look(H200, None)
    lines = (missing.value.cause, *missing.value.details)
    for start_of in ("no PyTorch: ", "no NCCL: ", "no nvcc: ", "no no-such-compiler: "):
        assert len([line for line in lines if line.startswith(start_of)]) == 1, lines
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "no PyTorch: "),
        ({"error": "OSError: libcudnn.so.9"}, "PyTorch cannot be imported: OSError: libcudnn.so.9"),
        ({"version": "2.13.0+cpu", "cuda": None}, "no PyTorch with CUDA: 2.13.0+cpu is for the CPU alone"),
        ({"version": "3.0.0", "cuda": "14.0"}, "the driver is too old: it offers CUDA 13, and PyTorch is of"),
        ({"version": "2.11.0+cu130", "cuda": "13.0"}, ""),
    ],
)
def test_a_pytorch_that_will_not_do_is_named(found: dict[str, Any] | None, said: str) -> None:
    lines = host.of_torch(found, H200)
    assert [line.startswith(said) for line in lines] == ([True] if said else [])


def test_a_compiler_of_another_cuda_or_without_its_parts_is_named(tmp_path: Path) -> None:
    assert host.of_cuda("", None, "13.0")[0].startswith("no nvcc: ")
    assert host.of_cuda("12.4", tmp_path, "13.0")[0].startswith("no nvcc of CUDA 13: ")
    assert len(host.of_cuda("13.0", tmp_path, "13.0")) == 3
    for part in ("bin/nvcc", "include/cuda_runtime.h", "lib64/libcudart.so"):
        (tmp_path / part).parent.mkdir(exist_ok=True)
        (tmp_path / part).touch()
    assert host.of_cuda("13.2", tmp_path, "13.0") == []


def test_what_the_python_lacks_comes_from_the_folder_of_wheels(tmp_path: Path) -> None:
    there = dict.fromkeys(host.NEEDED, True)
    assert host.of_modules(there, None) == ((), [])
    (tmp_path / "PyYAML-6.0.3-cp312-cp312-manylinux_2_17_x86_64.whl").touch()
    lacks, absent = host.of_modules(there | {"yaml": False, "psutil": False, "pip": False}, tmp_path)
    assert lacks == ("pyyaml",)
    assert [line.partition(":")[0] for line in absent] == [
        "no pip in this Python",
        "no psutil in this Python",
    ]


# -- source, patches, environment ------------------------------------------------------------------


def test_another_archive_is_refused_with_both_hashes(tmp_path: Path) -> None:
    archive = tmp_path / "horovod-0.28.1.tar.gz"
    archive.write_bytes(b"something else")
    with pytest.raises(UsageError, match="is not the released source of Horovod") as refused:
        compile.checked(archive, SERIES)
    assert re.search(r"sha256 is [0-9a-f]{64}$", refused.value.cause)
    assert SERIES.sha256 in refused.value.hint


def test_a_damaged_archive_in_the_cache_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"horovod-{SERIES.sha256}.tar.gz").write_bytes(b"damaged")
    with pytest.raises(UsageError, match="is not the released source"):
        compile.fetched(SERIES, Path(sys.executable), tmp_path)


def test_without_an_index_and_an_archive_the_source_is_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(GpuError, match=r"no source of Horovod .* --source FILE"):
        compile.fetched(SERIES, Path("/bin/false"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_host_with_the_versions_of_a_row_gets_the_patches_of_the_row(tmp_path: Path) -> None:
    row = json.loads((ROOT / "tests" / "golden" / "cuda13-ubuntu" / "row.json").read_text())
    assert compile.selected(SERIES, HOST, tmp_path / "patches") == tuple(row["patches"])
    written = sorted((tmp_path / "patches").iterdir())
    assert [path.name.partition("-")[2] for path in written] == row["patches"]
    older = replace(HOST, torch="2.6.0", nvcc="12.4", gcc="12.2.0")
    fewer = compile.selected(SERIES, older, tmp_path / "patches")
    assert set(row["patches"]) - set(fewer) == {"cuda-std17.patch", "gcc13-includes.patch"}


def test_the_script_is_given_all_that_it_asks_for_and_nothing_of_make() -> None:
    asked = re.search(r"^for name in (.+); do$", compile.SCRIPT.read_text(), re.M)
    assert asked
    leaked = {"MAKEFLAGS": "n", "MAKELEVEL": "1", "CACHE": "/c", "WORK": "/w", "HOROVOD_WITH_MPI": "1"}
    found = compile.variables(
        HOST, Path("/e/bin/python"), Path("/a.tar.gz"), Path("/o"), {"PATH": "/p", **leaked}
    )
    assert set(asked[1].split()) <= found.keys()
    assert all(found[name] for name in asked[1].split())
    assert (found["PATH"], found["CUDA_ARCHES"], found["CUDA_HOME"]) == ("/p", "90", "/cuda")
    assert not leaked.keys() & found.keys()


def test_several_kinds_of_devices_are_compiled_for_once_each() -> None:
    devices = tuple(Device(name="x", capability=text) for text in ("10.0", "9.0", "10.0"))
    assert replace(H200, devices=devices).architectures == ("90", "100")


def test_the_environment_sees_the_hosts_packages_and_writes_none_there(tmp_path: Path) -> None:
    """The Python of the tests is one of an environment, as on many hosts: its packages have to be named."""
    nvidia = tmp_path / "site" / "nvidia"
    nvidia.mkdir(parents=True)
    (nvidia / "kept").touch()
    for _ in range(2):  # the second replaces the first, and not what a link in it leads to
        python, packages = compile.environment(replace(HOST, nvidia=nvidia), tmp_path / "venv", None)
    assert (nvidia / "kept").exists()
    assert (packages / "nvidia" / "kept").exists()
    program = "import sys, sysconfig, yaml; print(sysconfig.get_path('purelib'), yaml.__file__)"
    done = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=True)
    own, seen = done.stdout.split()
    assert own == str(packages)
    assert not seen.startswith(str(tmp_path))


# -- judgement -------------------------------------------------------------------------------------


def rank(number: int = 0, size: int = 1, **other: Any) -> dict[str, Any]:
    given = [float((number + 1) * 10**place) for place in range(4)]
    total = [size * (size + 1) / 2 * 10**place for place in range(4)]
    return {
        "rank": number, "size": size, "given": given, "sum": total, "device": "cuda", "nccl": 22809,
        "capabilities": ["9.0"], **other,
    }  # fmt: skip


def run_of(*ranks: dict[str, Any], code: int = 0) -> dict[str, Any]:
    return {"code": code, "asked": len(ranks), "ranks": list(ranks), "output": "the last words"}


def measured(right: bool = True, **seconds: float) -> dict[str, Any]:
    took = {"copy": 1e-3, "horovod": 2e-3, "torch_distributed": 1.6e-3, **seconds}
    return {"bytes": 2**28, "right": right, "seconds": took}


def facts(*ranks: dict[str, Any], lines: tuple[dict[str, Any], ...] = (), **other: Any) -> dict[str, Any]:
    ranks = ranks or (rank(),)
    lines = lines or (measured(),) * len(ranks)
    marks = [{"rank": number, "sizes": [line]} for number, line in enumerate(lines)]
    return {
        "horovod": run_of(*ranks), "torch_distributed": run_of(*ranks),
        "benchmark": {"asked": len(ranks), "code": 0, "ranks": marks}, "nccl_tests": {}, **other,
    }  # fmt: skip


def red(found: dict[str, Any]) -> list[str]:
    return [name for name, problems in record.judged(HOST, found) if problems]


@pytest.mark.parametrize(
    ("broken", "checks"),
    [
        (facts(), []),
        (facts(rank(0, 2), rank(1, 2)), []),
        (facts(horovod=run_of(rank(), code=1)), ["horovod.run"]),
        (facts(torch_distributed={**run_of(), "asked": 1}), ["torch_distributed.run",
                                                            "torch_distributed.allreduce"]),
        (facts(rank(device="cpu")), ["horovod.allreduce", "torch_distributed.allreduce"]),
        (facts(rank(sum=[1.0, 1.0, 1.0, 1.0])), ["horovod.allreduce", "torch_distributed.allreduce"]),
        (facts(horovod=run_of(rank(), rank())), ["horovod.allreduce"]),  # two worlds of one
        (facts(horovod=run_of()), ["horovod.allreduce", "nccl.one", "kernels"]),  # no rank is no proof
        (facts(rank(nccl=22706)), ["nccl.one"]),
        (facts(rank(capabilities=["8.0"])), ["kernels"]),
        (facts(rank(capabilities=[])), ["kernels"]),
        (facts(lines=(measured(right=False),)), ["benchmark"]),
        (facts(benchmark={"asked": 1, "code": 1, "ranks": []}), ["benchmark"]),
    ],
)  # fmt: skip
def test_what_is_wrong_turns_its_check_red(broken: dict[str, Any], checks: list[str]) -> None:
    assert red(broken) == checks


def test_the_error_of_a_rank_is_shown_and_not_that_of_its_launcher() -> None:
    launched = "[1]<stderr>:ValueError: of the rank\nTraceback:\nRuntimeError: of the launcher\n"
    assert record.why(launched) == "ValueError: of the rank"
    assert (
        record.why("  File x\ntorch.AcceleratorError: CUDA error\nat y\n")
        == "torch.AcceleratorError: CUDA error"
    )
    assert record.why("Segmentation\nfault") == "Segmentation fault"


def test_shares_of_the_copys_speed_of_one_rank_and_of_several() -> None:
    (alone,) = record.benchmark(facts())
    assert alone["of_copy"] == {"horovod": 0.5, "torch_distributed": 0.625}
    assert (alone["horovod_of_torch_distributed"], alone["copy_gb_per_second"]) == (0.8, 268.0)
    (two,) = record.benchmark(
        facts(rank(0, 2), rank(1, 2), lines=(measured(), measured(copy=2e-3, horovod=4e-3)))
    )
    assert two["of_copy"]["horovod"] == 0.5, "the slowest rank counts, and 2 (n - 1) / n is 1 for two"


NCCL_TESTS = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
   268435456      67108864     float    sum    -1   1500.1  178.95  178.95    0   1250.0  214.75  214.75    0
# Avg bus bandwidth    : 196.85
"""


def test_nccl_tests_are_read_in_place_and_compared() -> None:
    assert record.nccl_tests_seconds(NCCL_TESTS, 2**28) == 1.25e-3
    assert record.nccl_tests_seconds(NCCL_TESTS, 2**20) is None
    assert record.nccl_tests_seconds("Test NCCL failure", 2**28) is None
    (line,) = record.benchmark(facts(rank(0, 2), rank(1, 2), nccl_tests={str(2**28): NCCL_TESTS}))
    assert line["of_copy"]["nccl_tests"] == 0.8


def test_the_record_and_its_lines(tmp_path: Path) -> None:
    horovod = compile.Horovod(python=tmp_path, release="0.28.1", patches=("a.patch",), seconds=61.5)
    made = record.made(HOST, horovod, facts())
    document, lines = record.write(made, tmp_path)
    assert json.loads(document.read_text()) == made
    assert made["verdict"] == "passed"
    assert str(tmp_path) not in document.read_text()
    text = lines.read_text()
    assert "| 1 × NVIDIA H200 | 580.1 | 2.11.0+cu130 | 13.0, 13.0 | 2.28.9 |" in text
    assert "| 256 MiB | 1000 µs, 268 GB/s | 2000 µs, 0.5 | 1600 µs, 0.625 | 0.8 |" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table[:3]}) == len({line.count("|") for line in table[3:]}) == 1
    failed = record.made(HOST, horovod, facts(rank(nccl=1)))
    assert failed["verdict"] == "failed"
    assert "- failed: nccl.one: rank 0: " in record.markdown(failed)


def test_a_compile_without_a_device_is_judged_as_well(tmp_path: Path) -> None:
    loaded = {"nccl": {"path": str(tmp_path / "nccl" / "lib" / "libnccl.so.2")}}
    here = replace(HOST, nvidia=tmp_path)
    found = {**facts(), "built": {"nccl_built": 22809, "libraries": loaded}, "collective": run_of(rank())}
    assert {check["outcome"] for check in record.on_the_cpu(here, found)} == {"passed"}
    elsewhere = {"nccl_built": 22706, "libraries": {"nccl": {"path": "/usr/lib/libnccl.so.2"}}}
    for built in (elsewhere, {"error": "exit code 1"}):
        checks = record.on_the_cpu(here, {**found, "built": built})
        failed = {check["id"] for check in checks if check["outcome"] == "failed"}
        assert failed == {"horovod.built", "nccl.one"}


def test_no_tensor_takes_more_than_its_share_of_the_memory() -> None:
    sizes = allreduce.SIZES["cuda"]
    assert allreduce.fitting(sizes, allreduce.SHARE * sizes[-1]) == sizes
    assert allreduce.fitting(sizes, allreduce.SHARE * sizes[-1] - 1) == sizes[:-1]


# -- images ----------------------------------------------------------------------------------------


def test_of_an_image_the_checks_of_the_tier_count() -> None:
    checks = [
        {"id": "gpu.run", "tier": "gpu", "outcome": "passed", "detail": "", "why": ""},
        {"id": "link.import", "tier": "link", "outcome": "failed", "detail": "", "why": ""},
    ]
    assert list(images.of_gpu(json.dumps({"checks": checks}))) == [
        {"id": "gpu.run", "outcome": "passed", "detail": ""}
    ]
    assert list(images.of_gpu("no JSON")) == []


def test_without_the_projects_environment_no_engine_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert images.prove(tmp_path, tmp_path / "python") is None
    assert "`make env` was not run" in capsys.readouterr().out
