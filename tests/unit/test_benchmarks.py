"""nccl-tests: what a row may ask for, what is built, and what turns each check red."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import source_archives
from image_facts import ROW, docker_facts, failed
from rows import CELL, LOCK, SERIES, SOURCES, cell, stack

from stackwright.audit.facts import plugin as reader
from stackwright.core.archive import source
from stackwright.core.benchmarks import nccl_tests
from stackwright.core.benchmarks.checks import RULES
from stackwright.core.benchmarks.nccl_tests import NAME, NEWEST, PROGRAMS, asked
from stackwright.core.checks.observed import found
from stackwright.core.checks.probes import words
from stackwright.core.config.load import interpret
from stackwright.core.errors import MatrixError, SiteError
from stackwright.core.ledger.books import Row, expected, open_books
from stackwright.core.ledger.entry import Entry, Kind, Tree
from stackwright.core.model.row import Mpi, Stack
from stackwright.core.render import definition, dockerfile, layers
from stackwright.core.resolve.requirements import request
from stackwright.core.resolve.resolve import check, resolve

MATRIX = """
include:
  - {id: a, provider: debian, os: debian-13, python: "3.13", horovod: "0.28.1", torch: "2.6.0",
     mpi: {flavour: openmpi, version: "5.0"}, gpu_arch: ["8.0"], benchmarks: BENCHMARKS}
"""
WITH_TESTS = replace(stack(), nccl_tests=NEWEST.version)

# -- what a row may ask for ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[osu]", r"reached nowhere(.|\n)*python -m mpi4py\.bench pingpong, in a row with mpi4py"),
        ("[osu-micro-benchmarks=7.5]", "mpi4py"),
        ("[all_reduce_perf]", r"write benchmarks: \[nccl-tests\]"),
        ("[nccl-tests, nccl-tests]", "there is one"),
        ("[nccl-tests=v2]", "benchmarks"),
        ("nccl-tests", r"\[nccl-tests\]"),
    ],
)
def test_another_benchmark_is_answered(text: str, said: str) -> None:
    with pytest.raises(MatrixError) as refused:
        interpret(MATRIX.replace("BENCHMARKS", text), "matrix.yaml")
    assert refused.match(said) or pytest.fail(str(refused.value))


@pytest.mark.parametrize(
    ("benchmarks", "release"),
    [((), ""), (("nccl-tests",), NEWEST.version), (("nccl-tests=2.19.6",), "2.19.6")],
)
def test_a_release_is_the_newest_if_none_is_named(benchmarks: tuple[str, ...], release: str) -> None:
    assert asked(benchmarks) == release
    made = resolve(cell(benchmarks=benchmarks), LOCK, SERIES)
    assert isinstance(made, Stack) and made.nccl_tests == release
    assert request(cell(benchmarks=benchmarks)) == request(CELL), "the lock has nothing of it"


def test_a_release_that_no_table_has_is_refused() -> None:
    rejection = check(cell(benchmarks=("nccl-tests=9.9.9",)))
    assert rejection and rejection.rule == "nccl-tests-release"
    assert rejection.nearest == "benchmarks [nccl-tests] instead of [nccl-tests=9.9.9]"


# -- the source ------------------------------------------------------------------------------------

TREE = {"src/common.h": b'#define NCCL_TESTS_VERSION "2.19.6"\n', "src/a b.cu": b"int a;\n"}


def archive(changes: dict[str, bytes] | None = None, commit: str = "c0" * 20) -> bytes:
    return source_archives.archive({**TREE, **(changes or {})}, NAME, commit)


def built(folder: Path, content: bytes | None, sha256: str) -> str:
    return source_archives.built(
        nccl_tests.SCRIPT, NAME, folder, content, sha256, CUDA_HOME="/none", CUDA_ARCHES="70 80",
        NCCL="/none", HOST_CXX="none", PROGRAMS="all_reduce_perf",
    )  # fmt: skip


def test_the_script_and_the_table_compute_the_same_hash(tmp_path: Path) -> None:
    good = source(archive()).sha256
    assert "is not the source" not in built(tmp_path / "good", archive(), good)
    other = source(archive({"more": b""})).sha256
    said = built(tmp_path / "other", archive({"more": b""}), good)
    assert f"is not the source of release 1: the hash of its files is {other}" in said and good in said
    said = built(tmp_path / "none", None, good)
    assert "nccl-tests-1.tar.gz cannot be fetched; put it into the site's folder of sources" in said


def test_what_is_read_of_a_release() -> None:
    content = archive()
    assert reader.tests_of(content, NEWEST) == {"commit": "c0" * 20, "sha256": source(content).sha256}
    for wrong in (b"", archive({"src/common.h": b""}), archive(commit="main")):
        with pytest.raises(SiteError, match=r"nccl-tests-2\.19\.6\.tar\.gz"):
            reader.tests_of(wrong, NEWEST)


def test_every_release_of_the_table_is_a_full_hash() -> None:
    for release in nccl_tests.RELEASES:
        assert (len(release.commit), len(release.sha256)) == (40, 64)
        assert release.fact.how == "read" and release.commit in release.address


# -- what is built ---------------------------------------------------------------------------------


def test_a_row_without_it_is_built_as_before() -> None:
    recipe = dockerfile.render(stack(), SOURCES)
    assert NAME not in recipe.text("Dockerfile") + recipe.text("row.json")
    assert not any(path.startswith(NAME) for path, _ in recipe.files)
    assert not any("benchmarks" in word for word in words(stack(), 0, {}))


def test_it_is_a_stage_a_layer_and_a_line_of_the_row() -> None:
    recipe = dockerfile.render(WITH_TESTS, SOURCES)
    text = recipe.text("Dockerfile")
    assert "FROM toolchain AS nccl-tests-program" in text and 'CUDA_ARCHES="70 80 90"' in text
    assert "from=nccl-tests-program,source=/programs" in text
    assert layers.purposes(recipe, ("horovod",))[-3:] == ("horovod", NAME, "row")
    assert recipe.text(f"{NAME}/archive.txt").split() == [NEWEST.archive, NEWEST.address, NEWEST.sha256]
    assert json.loads(recipe.text("row.json"))[NAME] == NEWEST.version
    made = definition.render_definition(WITH_TESTS, SOURCES).text("cuda12-torch.def")
    _, _, stage = made.partition("Stage: nccl-tests-program")
    assert "%files from frameworks\n    /opt/stack" in stage.partition("Stage:")[0]
    assert "    /programs\n" in stage and "rm -r /programs" in stage


@pytest.mark.parametrize(("has", "is_declared"), [((NAME,), True), ((), False)])
def test_its_programs_belong_to_a_row_that_has_them(has: tuple[str, ...], *, is_declared: bool) -> None:
    books = open_books(Tree(entries={}, texts={}), Row(gcc="13", benchmarks=has))
    for name in PROGRAMS:
        assert bool(expected(program(name), books)) is is_declared
    assert not expected(program("broadcast_perf"), books)


def program(name: str) -> Entry:
    return Entry(path=f"/usr/local/bin/{name}", kind=Kind.FILE, mode=0o755, uid=0, gid=0)


# -- checks ----------------------------------------------------------------------------------------

PLACE, LIBRARIES = "link.nccl-tests", "link.nccl-tests-libraries"
OTHER = "/usr/local/lib/libnccl.so.2"
FAULTS: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"path": None}, PLACE, "all_reduce_perf is not there, and not /usr/local/bin/all_reduce_perf"),
    ({"path": "/opt/ours/all_reduce_perf"}, PLACE, "is /opt/ours/all_reduce_perf, and not"),
    ({"unresolved": ["libmpi.so.40"]}, PLACE, "all_reduce_perf needs libmpi.so.40"),
    ({"loads": {"libmpi": ["/usr/lib/libmpi.so.40"]}}, LIBRARIES, "loads no libnccl, the frameworks /opt"),
    ({"loads": {"libmpi": ["/usr/lib/libmpi.so.40"], "libnccl": [OTHER]}}, LIBRARIES, f"loads {OTHER}, the"),
    ({"loads+": {"libmpi": []}}, LIBRARIES, "loads no MPI, and not libmpi of /usr/lib/"),
    ({"loads+": {"libmpi": ["/opt/mpi/libmpi.so.40"]}}, LIBRARIES, "loads /opt/mpi/libmpi.so.40, and not"),
    ({"loads+": {"libmpich": ["/usr/lib/libmpich.so.12"]}}, LIBRARIES, "libmpich.so.12, and not libmpi"),
    ({"runpath": "/tmp/nccl"}, LIBRARIES, "all_reduce_perf looks for libraries in /tmp/nccl"),
    ({"kernels": {"sm": ["7.0"], "ptx": []}}, "link.nccl-tests-gpu-arch", "no kernels for 8.0, 9.0"),
    ({"usage": None, "error": "exit code 1"}, "link.nccl-tests-release", "all_reduce_perf -h: exit code 1"),
    ({"usage": "sendrecv_perf"}, "link.nccl-tests-release", "all_reduce_perf -h: sendrecv_perf"),
    ({"releases": ["2.18.3"]}, "link.nccl-tests-release", "of nccl-tests 2.18.3, the row has 2.19.6"),
    ({"releases": []}, "link.nccl-tests-release", "of nccl-tests no release, the row has 2.19.6"),
)  # fmt: skip


@pytest.mark.parametrize(("change", "red", "said"), FAULTS)
def test_a_fault_turns_its_own_check_red(change: dict[str, Any], red: str, said: str) -> None:
    facts = docker_facts(ROW)
    program = facts["benchmarks"]["all_reduce_perf"]
    program["loads"] |= change.get("loads+", {})
    program |= {name: value for name, value in change.items() if name != "loads+"}
    details = failed(facts)
    assert set(details) == {red}
    assert said in details[red]


def test_every_check_has_a_fault_and_rows_without_it_have_none() -> None:
    assert {red for _, red, _ in FAULTS} == {rule.id for rule in RULES}
    assert not any(rule.applies(stack()) for rule in RULES)
    facts = docker_facts(ROW)
    del facts["benchmarks"]
    assert set(failed(facts)) == {PLACE}


def test_mpich_is_its_own_library() -> None:
    row = replace(ROW, mpi=Mpi.of("mpich", "4.2.1"))
    facts = docker_facts(row)
    assert LIBRARIES not in failed(facts, row)
    facts["benchmarks"] = docker_facts(ROW)["benchmarks"]
    assert "loads /usr/lib/libmpi.so.12, and not libmpich" in failed(facts, row)[LIBRARIES]


def test_the_release_is_found_where_all_programs_have_it() -> None:
    facts = docker_facts(ROW)
    assert dict(found(ROW, facts))[NAME] == "2.19.6"
    facts["benchmarks"]["sendrecv_perf"]["releases"] = ["2.18.3"]
    assert NAME not in dict(found(ROW, facts))
