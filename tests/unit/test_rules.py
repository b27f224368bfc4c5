"""Each rule refuses what it is there for, and names a nearest row that all rules accept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from packaging.specifiers import SpecifierSet
from rows import ALWAYS, CELL, LOCK, SERIES, cell, lock_with

from stackwright.core.compiled import rules as compiled
from stackwright.core.components.horovod import facts as horovod
from stackwright.core.config.change import changes
from stackwright.core.model.row import Cell, Mpi, Rejection, Stack
from stackwright.core.resolve.nearest import KNOWN, nearest
from stackwright.core.resolve.requirements import request
from stackwright.core.resolve.resolve import check, nccl_code, resolve, suggest
from stackwright.core.rules import additions, own
from stackwright.core.rules.hosts import EXTRA_RULES
from stackwright.core.rules.locks import LOCK_RULES
from stackwright.core.rules.rule import CellRule, Clash, Rule, Ruling, weigh
from stackwright.core.rules.table import CELL_RULES, first_clash
from stackwright.core.versions import upstream

CELL_CASES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("cuda-gcc", {"gcc": "14"}, "gcc 13 instead of 14"),
    ("cuda-arch", {"gpu_arch": ("12.0", "9.0")}, "gpu_arch [9.0] instead of [12.0, 9.0]"),
    ("cuda-arch", {"gpu_arch": ("3.5", "8.0")}, "gpu_arch [8.0] instead of [3.5, 8.0]"),
    ("cuda-arch", {"gpu_arch": ("9.9", "8.0")}, "gpu_arch [8.0] instead of [9.9, 8.0]"),
    ("python-os", {"python": "3.12"}, "python 3.13 instead of 3.12"),
    ("gcc-os", {"gcc": "11"}, "gcc 12 instead of 11"),
    ("cuda-os", {"cuda": "12.6"}, "cuda 12.4 instead of 12.6"),
    (
        "mpi-os",
        {"mpi": Mpi.of("openmpi", "4.1")},
        "mpi openmpi 5.0.7 instead of openmpi 4.1",
    ),
    ("os", {"os": "ubuntu-22.04"}, "os debian-13 instead of ubuntu-22.04"),
    ("os", {"provider": "nvidia"}, "provider debian instead of nvidia"),
    ("frameworks", {"torch": None}, "torch 2.10.0 instead of none"),
    ("mxnet-cuda", {"mxnet": "1.9.1"}, "mxnet none instead of 1.9.1"),
    ("torch-python", {"torch": "2.0.1"}, "torch 2.5.1 instead of 2.0.1"),
    ("tensorflow-python", {"tensorflow": "2.19.1", "torch": None}, "tensorflow 2.20.0 instead of 2.19.1"),
    (
        "one-cuda-wheels",
        {"tensorflow": "2.21.0", "torch": "2.12.1"},
        "torch 2.10.0 instead of 2.12.1; tensorflow 2.20.0 instead of 2.21.0",
    ),
    ("horovod-patch", {"tensorflow": "2.21.0", "torch": None}, "tensorflow 2.20.0 instead of 2.21.0"),
    ("horovod-patch", {"tensorflow": "2.22.0", "torch": None}, "tensorflow 2.20.0 instead of 2.22.0"),
)

UBUNTU = {
    "provider": "nvidia", "os": "ubuntu-20.04", "python": "3.8", "cuda": "11.8", "gcc": "9",
    "mpi": Mpi.of("openmpi", "4.0"), "torch": None,
}  # fmt: skip
"""A base on which older stacks fit."""

JAMMY = {
    "os": "ubuntu-22.04", "python": "3.11", "gcc": "11", "mpi": Mpi.of("openmpi", "4.1"),
}  # fmt: skip

OTHER_CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("torch-own-cuda", {"torch": "1.13.1"}),
    (
        "tools-os",
        {
            "torch": "2.0.1",
            "os": "ubuntu-18.04",
            "python": "3.8",
            "gcc": "7",
            "mpi": Mpi.of("openmpi", "2.1.1"),
        },
    ),
    (
        "cuda-wheels",
        {
            "torch": "1.7.1",
            "cuda": "10.2",
            "os": "ubuntu-18.04",
            "gcc": "7",
            "mpi": Mpi.of("openmpi", "2.1.1"),
            "python": "3.7",
        },
    ),
    ("tools-os", {"torch": "2.8.0", "python": "3.9", "cuda": "12.8"}),
    ("nccl-wheel", {"tensorflow": "2.7.4", "nccl": "2.3.7"}),
    ("tensorflow-wheels", {"tensorflow": "2.6.5"}),
    ("tensorflow-wheels", {"tensorflow": "2.12.0"}),
    ("horovod", {"torch": "2.0.1", "horovod": "0.27.0"}),
    ("nvidia-image", {"torch": "2.0.1", "cuda": "11.0", "os": "ubuntu-22.04", "python": "3.10"}),
    ("mxnet-python", {"mxnet": "1.4.1", "cuda": "10.1"}),
    ("mxnet-headers", {"mxnet": "1.6.0", "cuda": "10.2", "gcc": "7"}),
    ("framework-pins", {"tensorflow": "2.19.1", "torch": "2.7.1", "python": "3.9"}),
    ("tensorflow-cuda", {"tensorflow": "2.3.4", "cuda": "11.8"}),
    ("torch-cuda", {"torch": "1.12.1", "cuda": "11.3"}),
    ("torch-build", {"torch": "1.12.1+cu118"}),
    ("cudnn", {"torch": "2.0.1", "cudnn": "8.6.0.163"}),
    ("cudnn", {"tensorflow": "2.13.1", "cudnn": "9.1"}),
    ("abi-gloo", {"tensorflow": "2.13.1", "torch": "2.3.1+cu118"}),
    ("tensorflow-gcc", {"tensorflow": "1.14.0", "python": "3.7", "cuda": "10.0", "gcc": "7"}),
    ("keras-tensorflow", {"tensorflow": "2.13.1", "keras": "3.3.3"}),
    ("keras-tensorflow", {"tensorflow": "2.16.2", "keras": "2.15.0", "python": "3.9", "cuda": "12.3"}),
    ("horovod-floor", {"torch": "1.4.0", "cuda": "10.1", "gcc": "8"}),
    ("cxx-gcc", {"torch": "2.1.2", "gcc": "6", "cuda": "12.1"}),
    ("cxx-cuda", {"tensorflow": "2.13.1", "cuda": "10.2", "gcc": "8", "gpu_arch": ("7.0",)}),
    ("cxx-gcc", {"torch": "2.14.1", "gcc": "10", "cuda": "13.0", "python": "3.10", "gpu_arch": ("8.0",)}),
    ("headers-gcc", {"torch": "2.2.2", "gcc": "8", "cuda": "12.1"}),
    ("torch-arch", {"torch": "2.7.1", "cuda": "12.8", "python": "3.9", "gpu_arch": ("12.0",)}),
    ("tensorflow-arch", {"tensorflow": "2.17.1", "python": "3.9", "cuda": "12.3", "gpu_arch": ("5.0",)}),
    ("nccl-floor", {"torch": "2.2.2", "cuda": "12.1", "gcc": "9", "nccl": "2.16.5"}),
    ("tensorflow-wheels", {"tensorflow": "2.14.1", **JAMMY}),
    ("glibc", {"tensorflow": "2.21.0", "cuda": "12.0", "python": "3.10", "os": "ubuntu-16.04"}),
)

LOCK_CASES: tuple[tuple[str, dict[str, str], dict[str, str]], ...] = (
    ("one-cuda", {}, {"nvidia_nccl_cu13": "2.29.7"}),
    ("one-cuda", {}, {"nvidia_cuda_runtime": "13.0.96"}),
    ("one-nccl", {}, {"nvidia_nccl": "2.29.7"}),
    ("declared", {"nccl": "2.22"}, {}),
    ("declared", {"cudnn": "9.1.0.70"}, {"nvidia_cudnn_cu12": "9.1.1.17"}),
    ("declared-base", {"gcc": "13.9"}, {}),
    ("declared-base", {"cuda": "12.4.99"}, {}),
)

UNKNOWN_CASES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("torch-release", {"torch": "99.0"}, "had no torch 99.0"),
    ("torch-release", {"torch": "2.6.1"}, "had no torch 2.6.1"),
    ("torch-release", {"torch": "2.6.0+cu126"}, "folder whl/cu126"),
    (
        "torch-release",
        {"torch": "2.16.0.dev20261101+cu130"},
        "a nightly or a test build",
    ),
    ("tensorflow-release", {"tensorflow": "2.20.9", "torch": None}, "had no tensorflow 2.20.9"),
    ("mxnet-release", {"mxnet": "13", "torch": None}, "had no mxnet 13"),
    ("keras-release", {"keras": "3.99"}, "had no keras 3.99"),
    ("nccl-release", {"nccl": "13"}, "had no nccl 13 on"),
    ("cudnn-release", {"cudnn": "9.1.0.99", "torch": "1.13.1"}, "had no cudnn 9.1.0.99"),
    ("gcc-exact", {"gcc": "13.9"}, "gcc 13 of debian-13"),
    ("cuda-exact", {"cuda": "12.4.99"}, "CUDA 12.4"),
)
"""A value that no table knows, and what is said of it."""

OF_LAYERS = ("communication", "deepspeed", "jax", "torch-distributed", "fabric-", "ofi-", "nccl-")
RULES: tuple[Rule, ...] = (*CELL_RULES, *LOCK_RULES)


@pytest.mark.parametrize(("rule", "values", "nearest"), CELL_CASES)
def test_a_cell_rule_refuses(rule: str, values: dict[str, Any], nearest: str) -> None:
    rejection = check(cell(**values))
    assert rejection is not None
    assert (rejection.rule, rejection.nearest) == (rule, nearest)
    assert rejection.source
    assert rejection.reason


@pytest.mark.parametrize(("rule", "values"), OTHER_CASES)
def test_a_rule_on_another_base_refuses_first(rule: str, values: dict[str, Any]) -> None:
    rejection = check(cell(**{**UBUNTU, "gpu_arch": ("7.0",), **values}))
    assert rejection is not None
    assert rejection.rule == rule, rejection


@pytest.mark.parametrize(("rule", "values", "reason"), UNKNOWN_CASES)
def test_a_value_that_no_table_knows_is_neither_accepted_nor_refused(
    rule: str, values: dict[str, Any], reason: str
) -> None:
    (known,) = [known for known in CELL_RULES if known.name == rule]
    answer = known.ask(cell(**values))
    assert isinstance(answer, Clash)
    assert weigh(known, answer) is Ruling.UNKNOWN
    assert reason in answer.reason


def test_a_row_with_an_unknown_value_is_not_known_until_it_is_locked() -> None:
    row = cell(torch="2.6.9")
    rejection = resolve(row, None, SERIES)
    assert isinstance(rejection, Rejection)
    assert (rejection.verdict, rejection.rule) == ("not known", "torch-release")
    assert check(row) is None
    assert isinstance(resolve(row, replace(LOCK, request=request(row)), SERIES), Stack)


@pytest.mark.parametrize(
    ("values", "rule", "said"),
    [
        ({"torch": "2.0.1", "gpu_arch": ("8.0", "9.0")}, "torch-arch", Ruling.REFUSES),
        ({"torch": "2.6.0", "gpu_arch": ("8.9",)}, "torch-arch", Ruling.FITS),
        ({"torch": "2.6.0", "gpu_arch": ("10.0",)}, "torch-arch", Ruling.REFUSES),
        ({"torch": "2.6.0", "gpu_arch": ("3.7",)}, "torch-arch", Ruling.REFUSES),
        ({"torch": "2.8.0", "gpu_arch": ("10.3",)}, "torch-arch", Ruling.FITS),
        ({"torch": "2.8.0", "gpu_arch": ("11.0",)}, "torch-arch", Ruling.REFUSES),
        ({"torch": "2.15.0", "gpu_arch": ("7.0",)}, "torch-arch", Ruling.REFUSES),
        ({"torch": "2.6.0+cu126", "gpu_arch": ("10.0",)}, "torch-arch", Ruling.SILENT),
        ({"torch": "2.16.0", "gpu_arch": ("7.0",)}, "torch-arch", Ruling.SILENT),
        ({"tensorflow": "2.13.1", "gpu_arch": ("8.6",)}, "tensorflow-arch", Ruling.FITS),
        ({"tensorflow": "2.13.1", "gpu_arch": ("9.0",)}, "tensorflow-arch", Ruling.WARNS),
        ({"tensorflow": "2.20.0", "gpu_arch": ("5.0",)}, "tensorflow-arch", Ruling.REFUSES),
        ({"tensorflow": "2.20.0", "gpu_arch": ("5.0", "10.0")}, "tensorflow-arch", Ruling.REFUSES),
        ({"tensorflow": "2.20.0", "gpu_arch": ("9.0",)}, "tensorflow-arch", Ruling.FITS),
    ],
)
def test_a_wheel_without_code_for_a_gpu_is_refused_and_one_with_ptx_alone_is_a_warning(
    values: dict[str, Any], rule: str, said: Ruling
) -> None:
    (known,) = [known for known in CELL_RULES if known.name == rule]
    assert weigh(known, known.ask(cell(**values))) is said


@pytest.mark.parametrize(("rule", "values", "versions"), LOCK_CASES)
def test_a_lock_rule_refuses(rule: str, values: dict[str, Any], versions: dict[str, str]) -> None:
    other = cell(**values)
    rejection = resolve(other, replace(lock_with(**versions), request=request(other)), SERIES)
    assert isinstance(rejection, Rejection)
    assert rejection.rule == rule


def test_a_missing_patch_is_named_with_its_source() -> None:
    rejection = check(cell(tensorflow="2.21.0", torch=None))
    assert rejection
    assert "AsGpuStreamValue" in rejection.reason
    assert "conda-forge" in rejection.source


def test_what_has_no_patch_has_none_in_the_series() -> None:
    """A patch that begins where a line of the table does makes that line untrue."""
    begins = {
        (name, part.version)
        for patch in SERIES.patches
        for name, spec in patch.when
        for part in SpecifierSet(spec)
    }
    assert not begins & {(name, since) for name, since, _, _ in horovod.UNPATCHED}


def test_a_lock_without_nccl_is_refused() -> None:
    packages = tuple(package for package in LOCK.packages if not package.name.startswith("nvidia-nccl"))
    rejection = resolve(CELL, replace(LOCK, packages=packages), SERIES)
    assert isinstance(rejection, Rejection)
    assert rejection.rule == "nccl-present"


def test_a_compiler_of_another_cuda_major_is_refused() -> None:
    packages = tuple(
        replace(package, name=package.name.replace("-cu12", "-cu11")) for package in LOCK.packages
    )
    rejection = resolve(CELL, replace(LOCK, packages=packages), SERIES)
    assert isinstance(rejection, Rejection)
    assert rejection.rule == "compiler-cuda"


def test_every_rule_is_covered_by_a_case() -> None:
    covered = {case[0] for case in (*CELL_CASES, *OTHER_CASES, *UNKNOWN_CASES, *LOCK_CASES)} | {
        "nccl-present",
        "compiler-cuda",
        "platform-base",  # test_platforms.py
        *(rule.name for rule in RULES if rule.name.startswith(OF_LAYERS) or rule.name.endswith("-platform")),
        *(rule.name for rule in additions.RULES),  # test_additions.py
        *(rule.name for rule in additions.lock_rules(additions.LOCKED)),
        *(rule.name for rule in own.RULES),  # test_own.py
        *(rule.name for rule in (*compiled.RULES, *compiled.LOCK_RULES)),  # test_compiled.py
    }
    assert covered == {rule.name for rule in RULES}


def test_every_rule_names_its_source() -> None:
    assert all(rule.source for rule in RULES)


def test_the_shipped_row_resolves_and_is_filled_from_the_lock() -> None:
    stack = resolve(CELL, LOCK, SERIES)
    assert isinstance(stack, Stack)
    assert (stack.nccl, stack.nccl_code, stack.cudnn, stack.cuda_runtime) == (
        "2.21.5", 22105, "9.1.0.70", "12.4.127",
    )  # fmt: skip
    assert stack.patches == ("cxx17.patch", "gcc13-includes.patch", *ALWAYS)


def test_a_value_left_out_is_filled_in() -> None:
    stack = resolve(cell(gcc=None, cuda=None), LOCK, SERIES)
    assert isinstance(stack, Stack)
    assert (stack.gcc, stack.cuda) == ("13.3.0", "12.4")


def test_a_row_without_a_lock_says_how_to_get_one() -> None:
    rejection = resolve(CELL, None, SERIES)
    assert isinstance(rejection, Rejection)
    assert rejection.nearest == "run ./build.py lock cuda12-torch"


def test_a_row_that_changed_after_it_was_locked_is_not_built_from_the_old_lock() -> None:
    rejection = resolve(cell(torch="2.7.0"), LOCK, SERIES)
    assert isinstance(rejection, Rejection)
    assert "changed after it was locked" in rejection.reason


def test_what_uv_refused_is_told_in_its_words() -> None:
    rejection = resolve(CELL, replace(LOCK, refused="Because torch==2.6.0 depends on …"), SERIES)
    assert isinstance(rejection, Rejection)
    assert (rejection.rule, rejection.reason) == ("resolver", "Because torch==2.6.0 depends on …")


def test_the_nearest_row_of_the_matrix_is_suggested_where_no_rule_knows_one() -> None:
    stack = resolve(CELL, LOCK, SERIES)
    assert isinstance(stack, Stack)
    other = cell(id="other", nccl="2.22")
    rejection = resolve(other, replace(LOCK, request=request(other)), SERIES)
    assert isinstance(rejection, Rejection)
    (suggested,) = suggest([rejection], [stack], [CELL, other])
    assert suggested.nearest == "cuda12-torch (differs in nccl)"


@pytest.mark.parametrize(
    ("version", "code"), [("2.21.5", 22105), ("2.8.4", 2804), ("2.9.0", 20900), ("2.27.3", 22703)]
)
def test_nccl_version_code(version: str, code: int) -> None:
    assert nccl_code(version) == code


@pytest.mark.parametrize(
    ("debian", "project"),
    [
        ("13.3.0-16", "13.3.0"),
        ("12.4.131~12.4.1-2", "12.4.131"),
        ("1:2.3+dfsg-1+b2", "2.3"),
        ("4.1.4-3+b1", "4.1.4"),
        ("4.3.0+really4.2.1-1", "4.2.1"),
    ],
)
def test_upstream_version(debian: str, project: str) -> None:
    assert upstream(debian) == project


class Read:
    """A cell that tells which fields were read of it."""

    def __init__(self, cell: Cell) -> None:
        self.cell, self.names = cell, set[str]()

    def __getattr__(self, name: str) -> Any:
        return self.value(name)

    def value(self, name: str) -> Any:
        self.names.add(name)
        return self.cell.value(name)


@pytest.mark.parametrize("rule", CELL_RULES, ids=lambda rule: rule.name)
def test_a_rule_reads_only_the_fields_that_it_names(rule: CellRule) -> None:
    cases = [*CELL_CASES, *((name, {**UBUNTU, **values}, "") for name, values in OTHER_CASES)]
    for _, values, _ in cases:
        read = Read(cell(**values))
        rule.ask(cast("Cell", read))
        assert read.names <= set(rule.fields)


def test_a_rule_is_silent_where_its_tables_know_nothing() -> None:
    unknown = cell(torch="9.9", cuda="99.0", os="debian-99", gpu_arch=())
    said = {rule.name: rule.ask(unknown) for rule in CELL_RULES}
    assert (
        said["torch-python"] is said["torch-cuda"] is said["cuda-gcc"] is said["python-os"] is Ruling.SILENT
    )


@pytest.mark.parametrize(("rule", "value", "said"), [
    ("torch-setuptools", "75", "refuses"), ("torch-setuptools", "69.5", "fits"),
    ("framework-numpy", "1.24.1", "refuses"), ("framework-numpy", "1.23.5", "fits"),
    ("cuda-driver", "515", "refuses"), ("cuda-driver", "525.60", "fits"),
])  # fmt: skip
def test_an_extra_rule(rule: str, value: str, said: str) -> None:
    (extra,) = [known for known in EXTRA_RULES if known.name == rule]
    answer = extra.ask(cell(torch="2.0.1", mxnet="1.9.1"), value)
    assert (Ruling.REFUSES if isinstance(answer, Clash) else answer) == said
    assert extra.ask(cell(torch=None, cuda=None, os="debian-99"), value) is Ruling.SILENT


def test_the_nearest_row_keeps_a_framework_that_is_needed() -> None:
    row = cell(mxnet="1.9.1")
    found = nearest(row, CELL_RULES, keep=frozenset({"mxnet", "torch"}))
    assert found is not None
    assert (found.cell.value("mxnet"), found.cell.value("torch")) == ("1.9.1", "2.0.1")
    assert check(found.cell) is None


def test_the_nearest_row_has_no_neighbour_with_fewer_changes() -> None:
    """By brute force over every single change that the tables know."""
    row = cell(cuda="13.0", mxnet="1.9.1")
    found = nearest(row, CELL_RULES)
    assert found is not None
    assert len(changes(row, found.cell)) == 2
    for name, values in KNOWN.items():
        for value in (*values, *([] if name in ("provider", "os", "python") else [None])):
            change: dict[str, Any] = {name: value}
            assert first_clash(row.changed(change)), change


def test_the_release_that_the_rules_are_about_is_that_of_the_patches() -> None:
    assert SERIES.release == horovod.RELEASE
