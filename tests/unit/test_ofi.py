"""libfabric and NCCL's plugin for it: what a row may ask for, what is built, what turns each check red."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import report_samples
import source_archives
from image_facts import ROW, docker_facts, failed
from rows import CELL, LOCK, SERIES, SOURCES, cell, lock_with, stack

from stackwright.audit.facts import plugin as reader
from stackwright.cli.commands.launch import refuse_without_libfabric
from stackwright.core.archive import Source, source
from stackwright.core.benchmarks import nccl_tests
from stackwright.core.checks.observed import found
from stackwright.core.checks.probes import words
from stackwright.core.config.load import interpret
from stackwright.core.errors import MatrixError, SiteError, UsageError
from stackwright.core.launch.recipe import Fabric, Site
from stackwright.core.model.record import flatten
from stackwright.core.model.row import Lock, Mpi, Package, Rejection, Stack
from stackwright.core.ofi.plugin import BY_VERSION, NAME, NEWEST, SCRIPT, asked
from stackwright.core.render import definition, dockerfile, layers
from stackwright.core.resolve.requirements import request
from stackwright.core.resolve.resolve import check, resolve
from stackwright.core.rules.rule import Ruling, weigh
from stackwright.core.rules.table import CELL_RULES
from stackwright.host.site import archives
from stackwright.publish.attest.statements import provenance, sbom

OFI = ("verbs", "ofi")
MATRIX = """
include:
  - {id: a, provider: debian, os: debian-13, python: "3.13", horovod: "0.28.1", torch: "2.6.0",
     mpi: {flavour: openmpi, version: "5.0"}, gpu_arch: ["8.0"], fabric: FABRIC}
"""
WITH_OFI = replace(stack(), plugin=NEWEST.version)

# -- what a row may ask for ------------------------------------------------------------------------


def test_a_row_names_its_fabrics_and_may_name_the_release_of_the_plugin() -> None:
    assert asked(("verbs",)) == ""
    assert asked(OFI) == NEWEST.version == list(BY_VERSION)[-1]
    assert asked(("verbs", "ofi=1.17.3")) == "1.17.3"
    matrix = interpret(MATRIX.replace("FABRIC", '[verbs, "ofi=1.17.3"]'), "matrix.yaml")
    assert dict(matrix.include[0].fields)["fabric"] == ("verbs", "ofi=1.17.3")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[verbs, efa]", "write fabric: [verbs, ofi]"),
        ("[cxi]", "write fabric: [verbs, ofi]"),
        ("[InfiniBand]", "leave the field out"),
        ('[verbs, "ofi=1.17.3; id"]', "'fabric'"),
        ("[verbs, ofi, ofi]", "there are two: [verbs, ofi]"),
        ("ofi", "must be a list"),
    ],
)
def test_another_fabric_is_told_what_to_write(written: str, said: str) -> None:
    with pytest.raises(MatrixError) as raised:
        interpret(MATRIX.replace("FABRIC", written), "matrix.yaml")
    assert said in f"{raised.value.cause} {raised.value.hint}"


CASES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("fabric-names", {"fabric": ("ofi",)}, "fabric [verbs, ofi] instead of [ofi]"),
    ("fabric-names", {"fabric": ("verbs", "verbs")}, "fabric [verbs] instead of [verbs, verbs]"),
    ("ofi-release", {"fabric": ("verbs", "ofi=9.9.9")}, "fabric [verbs, ofi] instead of [verbs, ofi=9.9.9]"),
    (
        "ofi-nccl",
        {"fabric": ("verbs", "ofi=1.17.3"), "nccl": "2.28.9"},
        "fabric [verbs, ofi] instead of [verbs, ofi=1.17.3]",
    ),
)


@pytest.mark.parametrize(("rule", "values", "nearest"), CASES)
def test_a_rule_refuses_and_names_the_nearest_row(rule: str, values: dict[str, Any], nearest: str) -> None:
    rejection = check(cell(**values))
    assert rejection
    assert (rejection.rule, rejection.nearest) == (rule, nearest)


def test_a_deadlock_is_told_with_its_thread() -> None:
    rejection = check(cell(fabric=("verbs", "ofi=1.17.3"), nccl="2.28.9"))
    assert rejection and "issues/1055" in rejection.source and "without end" in rejection.reason
    assert check(cell(fabric=OFI, nccl="2.28.9")) is None


@pytest.mark.parametrize(
    ("rule", "values", "said"),
    [
        ("ofi-cuda", {"os": "debian-11", "cuda": "11.2"}, Ruling.REFUSES),
        ("ofi-cuda", {"os": "debian-11", "cuda": "11.2", "fabric": ("verbs",)}, Ruling.SILENT),
        ("ofi-cuda", {}, Ruling.FITS),
        ("ofi-nccl", {"nccl": "2.16.5"}, Ruling.REFUSES),
        ("ofi-nccl", {"nccl": "2.17.1"}, Ruling.FITS),
        ("ofi-mpi", {"mpi": Mpi.of("mpich", "4.2")}, Ruling.WARNS),
        ("ofi-mpi", {}, Ruling.FITS),
    ],
)
def test_what_a_rule_says(rule: str, values: dict[str, Any], said: Ruling) -> None:
    (known,) = [known for known in CELL_RULES if known.name == rule]
    assert weigh(known, known.ask(cell(**{"fabric": OFI, **values}))) is said


def locked(lock: Lock, fabric: tuple[str, ...], libfabric: str = "2.1.0-1.1") -> Stack | Rejection:
    row = cell(fabric=fabric)
    base = replace(lock.base, packages=(*lock.base.packages, Package(name="libfabric1", version=libfabric)))
    return resolve(row, replace(lock, base=base, request=request(row)), SERIES)


def test_the_lock_decides_on_nccl_and_on_libfabric() -> None:
    good = locked(LOCK, OFI)
    assert isinstance(good, Stack)
    assert (good.fabric, good.plugin) == (OFI, NEWEST.version)
    slow = lock_with(nvidia_nccl_cu12="2.28.9")
    hangs, old = locked(slow, ("verbs", "ofi=1.17.3")), locked(LOCK, OFI, "1.6.2-3")
    assert isinstance(hangs, Rejection) and hangs.rule == "ofi-nccl-locked"
    assert isinstance(old, Rejection) and old.rule == "ofi-libfabric"
    assert request(CELL) == LOCK.request, "a row without ofi keeps its lock"


# -- the source ------------------------------------------------------------------------------------

TREE = {
    "configure.ac": b"AC_INIT\n", "src/a b.cpp": b"int a;\n",
    "RELEASENOTES.md": b"[NCCL v2.17.1](x) and later",
    "m4/check_pkg_libfabric.m4": b"#elif FI_VERSION_LT(FI_VERSION(A, B), FI_VERSION(1,11))",
    "src/nccl_ofi_interface_nvidia.cpp": b"X ncclNetPlugin_v8 = {\nX ncclNetPlugin_v10 = {",
}  # fmt: skip


def archive(changes: dict[str, bytes] | None = None, commit: str = "c0" * 20) -> bytes:
    return source_archives.archive({**TREE, **(changes or {})}, NAME, commit)


def built(folder: Path, content: bytes | None, sha256: str) -> str:
    return source_archives.built(
        SCRIPT, NAME, folder, content, sha256, CUDA_HOME="/usr", HOST_CC="none", HOST_CXX="none",
        ARCH_FLAGS="-mavx2",
    )  # fmt: skip


def test_the_script_and_the_table_compute_the_same_hash(tmp_path: Path) -> None:
    good = source(archive())
    assert "is not the source" not in built(tmp_path / "good", archive(), good.sha256)
    for number, changes in enumerate(({"configure.ac": b"AC_INIT \n"}, {"another": b""})):
        said = built(tmp_path / str(number), archive(changes), good.sha256)
        other = source(archive(changes)).sha256
        assert f"is not the source of release 1: the hash of its files is {other}" in said
        assert good.sha256 in said and other != good.sha256


def test_a_source_that_is_not_reached_says_what_to_do(tmp_path: Path) -> None:
    said = built(tmp_path / "none", None, "0" * 64)
    assert "aws-ofi-nccl-1.tar.gz cannot be fetched; put it into the site's folder of sources" in said
    assert "Traceback" not in said


def test_what_is_read_of_a_release() -> None:
    assert reader.source_of(archive(), "x") == {
        "commit": "c0" * 20, "sha256": source(archive()).sha256, "nets": [8, 10], "libfabric": "1.11",
        "nccl": "2.17.1",
    }  # fmt: skip


@pytest.mark.parametrize("content", [b"", b"no archive", archive()[:200], archive(commit="main")])
def test_an_archive_that_says_nothing_is_an_error(content: bytes) -> None:
    with pytest.raises(SiteError, match="cannot be read"):
        reader.source_of(content, "x")


def test_every_release_of_the_table_is_a_full_hash_of_a_known_interface() -> None:
    for release in BY_VERSION.values():
        assert (len(release.commit), len(release.sha256)) == (40, 64)
        assert 8 in release.nets, "the probe sends by this one"
        assert release.fact.how == "read"
        assert release.commit in release.address


def test_a_sites_archive_is_put_next_to_what_names_it(tmp_path: Path) -> None:
    recipe = dockerfile.render(WITH_OFI, SOURCES)
    context, folder = tmp_path / "context", tmp_path / "sources"
    folder.mkdir()
    dockerfile.write(recipe, context)
    target = context / "aws-ofi-nccl" / NEWEST.archive
    archives.place(recipe, None, context)
    archives.place(recipe, folder, context)
    assert not target.exists()
    (folder / NEWEST.archive).write_bytes(b"x")
    archives.place(recipe, folder, context)
    assert target.read_bytes() == b"x"
    archives.place(recipe, None, context)
    assert not target.exists(), "what another site put there is no part of this build"


# -- what is built ---------------------------------------------------------------------------------


def test_a_row_without_it_is_built_as_before() -> None:
    text = dockerfile.render(stack(), SOURCES).text("Dockerfile")
    assert "aws-ofi-nccl" not in text and "libfabric-bin" not in text
    assert "ofi" not in words(stack(), 0, {})


def test_the_plugin_is_a_stage_a_layer_and_a_line_of_the_row() -> None:
    recipe = dockerfile.render(WITH_OFI, SOURCES)
    text = recipe.text("Dockerfile")
    assert "FROM toolchain AS aws-ofi-nccl-plugin" in text and "libfabric-bin" in text
    assert layers.purposes(recipe, ("horovod",))[-3:] == ("horovod", "aws-ofi-nccl", "row")
    named = recipe.text("aws-ofi-nccl/archive.txt").split()
    assert named == [NEWEST.archive, NEWEST.address, NEWEST.sha256]
    assert dockerfile.declared(WITH_OFI)["fabric"] == ["verbs", "ofi"]
    assert "ofi" in words(WITH_OFI, 0, {})
    made = definition.render_definition(WITH_OFI, SOURCES).text("cuda12-torch.def")
    assert "Stage: aws-ofi-nccl-plugin" in made and "    /plugins\n" in made and "rm -r /plugins" in made


def test_the_sbom_has_what_is_compiled_from_archives_and_the_provenance_its_commits() -> None:
    of_row = replace(WITH_OFI, patches=("cxx17.patch",), nccl_tests=nccl_tests.NEWEST.version)
    recipe = dockerfile.render(of_row, SOURCES)
    facts = docker_facts(of_row)
    row = replace(
        report_samples.built(row=of_row.id), key=recipe.key, found=found(of_row, facts),
        declared=flatten(dockerfile.declared(of_row)),
    )  # fmt: skip
    files = dict(recipe.files)
    document = sbom.bom(row, facts, image=f"sha256:{'1' * 64}", patches=sbom.patches_of(files))
    listed = {part["name"]: part.get("purl") for part in document["components"]}
    assert listed["aws-ofi-nccl"] == f"pkg:github/aws/aws-ofi-nccl@v{NEWEST.version}"
    assert listed["nccl-tests"] == f"pkg:github/nvidia/nccl-tests@v{nccl_tests.NEWEST.version}"
    assert sbom.disagreement(document, row) == ""
    other = replace(row, found=tuple({**dict(row.found), "aws-ofi-nccl": "1.17.3"}.items()))
    assert "aws-ofi-nccl is 1.17.3 in the record" in sbom.disagreement(document, other)
    made = provenance.provenance(row, of_row, files)["buildDefinition"]["resolvedDependencies"]
    for release in (NEWEST, nccl_tests.NEWEST):
        assert {"gitCommit": release.commit} in [part.get("digest") for part in made]


@pytest.mark.parametrize("launcher", ["mpirun", "slurm", "kubernetes"])
def test_mpich_of_the_distribution_does_not_start_over_libfabric(launcher: str) -> None:
    """The tests of two nodes leave it out; here it is refused, and the cluster's own is not."""
    row = replace(WITH_OFI, mpi=Mpi.of("mpich", "4.2.1"))
    with pytest.raises(UsageError, match="is built without libfabric"):
        refuse_without_libfabric(launcher, row, Site(fabric=Fabric.OFI))
    refuse_without_libfabric("slurm", row, Site(fabric=Fabric.OFI, host_mpi="/opt/mpich"))
    refuse_without_libfabric("torchrun", row, Site(fabric=Fabric.OFI))
    refuse_without_libfabric(launcher, row, Site(fabric=Fabric.TCP))


# -- checks ----------------------------------------------------------------------------------------

FAULTS: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("libfabric", {"error": "no such file"}, "link.libfabric", "libfabric.so.1 does not load: no such file"),
    ("libfabric", {"version": "1.17.0"}, "link.libfabric", "fi_info says 1.17.0, the lock 2.1.0"),
    ("libfabric", {"providers": ["verbs"]}, "link.libfabric", "no provider tcp: verbs"),
    (
        "plugin",
        {"error": "no such file"},
        "link.ofi-plugin",
        "libnccl-net-ofi.so does not load: no such file",
    ),
    ("plugin", {"path": "/opt/libnccl-net-ofi.so"}, "link.ofi-plugin", "is /opt/libnccl-net-ofi.so, and not"),
    ("plugin", {"release": "1.17.3"}, "link.ofi-plugin", "aws-ofi-nccl 1.17.3, the row has 1.21.1"),
    ("plugin", {"nets": [3, 4]}, "link.ofi-abi", "NCCL asks for v5 v6 v7 v8, and"),
    ("plugin", {"nets": []}, "link.ofi-abi", "has none of them"),
    ("plugin", {"nets": [6, 7, 8]}, "link.ofi-abi", "it has v6 v7 v8, release 1.21.1 v6 v7"),
    ("nccl", {"asks": []}, "link.ofi-abi", "no libnccl.so.2 names an interface"),
    ("start", {"error": "function 1 of the plugin returned 3"}, "link.ofi-start", "returned 3"),
    ("start", {"devices": []}, "link.ofi-start", "no network device"),
    ("data", {"error": "nothing happened"}, "link.ofi-data", "no data went through it: nothing happened"),
    ("data", {"same": 7}, "link.ofi-data", "7 of 1048576 bytes"),
)


@pytest.mark.parametrize(("part", "change", "red", "said"), FAULTS)
def test_a_fault_turns_its_own_check_red(part: str, change: dict[str, Any], red: str, said: str) -> None:
    facts = docker_facts(ROW)
    facts["ofi"][part] |= change
    details = failed(facts)
    assert set(details) == {red}
    assert said in details[red]


def test_an_open_mpi_without_libfabric_is_named_and_mpich_is_not_asked() -> None:
    facts = docker_facts(ROW)
    facts["ofi"]["mtl"] = ["psm2"]
    assert failed(facts) == {"link.mpi-ofi": "ompi_info has no mtl for libfabric: psm2"}
    assert "link.mpi-ofi" not in failed(facts, replace(ROW, mpi=Mpi.of("mpich", "4.2.1")))


def test_a_source_knows_its_commit_only_where_it_is_one() -> None:
    assert source(archive(commit="main")).commit == ""
    assert isinstance(source(archive()), Source)
