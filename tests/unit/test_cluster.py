"""`doctor --cluster`: the words of the programs are read, and what follows for an image is said."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cluster_outputs import (
    IBV,
    LDD,
    LSCPU,
    MPIRUN,
    NVIDIA,
    OMPI_INFO,
    PMI,
    RUNTIME,
    SLURM,
    UNKNOWN_FIELD,
)
from clusters import HEALTHY, MPICH, OLD, OPENMPI, WITHOUT_UCX, Cluster, answer, seen_on
from command import call
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rows import ROOT, stack

from stackwright.cli import tables
from stackwright.core.launch.fit import image as images
from stackwright.core.launch.fit import readers
from stackwright.core.launch.fit.questions import QUESTIONS, judge
from stackwright.core.launch.fit.readers import PROGRAMS, ClusterFacts
from stackwright.core.model.target import ARM64
from stackwright.host import login_node
from stackwright.host.project import Project, cells, plan
from stackwright.host.runner import Completed

# -- what is read ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("which", "plugins", "versions"),
    [
        ("pmix 3", ("cray_shasta", "none", "pmi2", "pmix"), (3,)),
        ("pmi2 alone", ("cray_shasta", "none", "pmi2"), ()),
        ("pmix 5", ("none", "pmix", "cray_shasta", "pmi2"), (5,)),
        ("old notation", ("none", "pmix_v3", "pmi2", "pmix"), (3,)),
        ("no controller", None, ()),
    ],
)
def test_the_plugins_of_srun(which: str, plugins: Any, versions: Any) -> None:
    found = readers.pmi(ClusterFacts(), PMI[which])
    assert (found.pmi, found.pmix) == (plugins, versions)


@pytest.mark.parametrize(
    ("which", "wanted"),
    [
        ("Open MPI 5", ("openmpi", "5.0.7")),
        ("Open MPI 4", ("openmpi", "4.1.7")),
        ("MPICH", ("mpich", "4.2.1")),
        ("Intel", ("intel", "2021.9")),
        ("Intel 2019", ("intel", "2019")),
    ],
)
def test_the_mpi_of_the_cluster(which: str, wanted: tuple[str, str]) -> None:
    assert readers.mpirun(ClusterFacts(), MPIRUN[which]).mpi == wanted


def test_ompi_info_says_where_it_lies_and_what_it_can_use() -> None:
    found = readers.ompi_info(ClusterFacts(), OMPI_INFO["HPC-X"])
    assert (found.mpi, found.prefix) == (("openmpi", "4.1.7"), "/opt/hpcx/ompi")
    assert found.pml == ("cm", "ob1", "ucx")
    for other in (("intel", "2021.9"), ("openmpi", "4.1.7")):
        assert readers.ompi_info(ClusterFacts(mpi=other), OMPI_INFO["Debian"]) == ClusterFacts(mpi=other)


def test_each_port_has_its_device_state_and_link() -> None:
    found = readers.ibv(ClusterFacts(), IBV["InfiniBand"]).ports
    assert found is not None
    assert [(port.device, port.number, port.active, port.link) for port in found] == [
        ("mlx5_12", 1, False, "Ethernet"), ("mlx5_13", 1, True, "InfiniBand"),
    ]  # fmt: skip
    assert readers.ibv(ClusterFacts(), IBV["none"]).ports == ()


def test_the_driver_is_not_the_version_of_nvidia_smi() -> None:
    assert readers.nvidia(ClusterFacts(), NVIDIA["418"]).driver == "418.67"
    assert readers.nvidia(ClusterFacts(), NVIDIA["580"]).driver == "580.126.09"
    assert readers.nvidia(ClusterFacts(), NVIDIA["failed"]).driver is None
    assert readers.capabilities(ClusterFacts(), "8.0\n8.0\n9.0\n").capabilities == ("8.0", "9.0")
    assert readers.capabilities(ClusterFacts(), UNKNOWN_FIELD).capabilities == ()


def test_libc_runtime_and_kernel() -> None:
    found = {name: readers.glibc(ClusterFacts(), text).glibc for name, text in LDD.items()}
    assert found == {"2.41": "2.41", "2.34": "2.34", "2.35": "2.35", "musl": None}
    assert [readers.runtime(ClusterFacts(), text).runtime for text in RUNTIME.values()] == [
        ("apptainer", "1.4.5"), ("singularity-ce", "3.11.4"), ("singularity", "3.8.7"),
        ("singularity", "2.6.1"),
    ]  # fmt: skip
    assert readers.kernel(ClusterFacts(), "3.10.0-1160.el7.x86_64\n").kernel == "3.10.0"


@given(text=st.text(max_size=300))
def test_no_output_is_an_error(text: str) -> None:
    said = {" ".join(argv): text for argv, _ in PROGRAMS}
    examined = login_node.examine(Cluster(said), [stack()])
    assert json.dumps(login_node.as_json(examined))
    assert all(program.said.isprintable() for program in examined.programs)


@pytest.mark.parametrize("line", [" ".join(argv) for argv, _ in PROGRAMS])
def test_a_number_that_is_none_is_no_error(line: str) -> None:
    """int() takes no more than 4,300 digits."""
    said = {**HEALTHY, line: re.sub(r"\d+", "9" * 5000, HEALTHY.get(line, "9"))}
    examined = login_node.examine(Cluster(said), [stack()])
    assert json.dumps(login_node.as_json(examined))


# -- what follows ----------------------------------------------------------------------------------


def test_a_healthy_cluster_is_one_where_all_works() -> None:
    (judged,) = judge([OPENMPI], seen_on(HEALTHY))
    assert {told.about: told.outcome for told in judged.answers} == dict.fromkeys(
        ("srun", "container", "CPU", "driver", "GPU", "fabric", "own MPI"), "works"
    )
    assert judged.verdict == f"{OPENMPI.row} fits best"


@pytest.mark.parametrize(
    ("image", "changed", "outcome", "said"),
    [
        (OPENMPI, {"srun_mpi": PMI["pmi2 alone"]}, "fails", "each rank would be rank 0 of 1"),
        (OPENMPI, {"srun_mpi": PMI["pmix without its library"]}, "fails", "can not load PMIx library"),
        (OPENMPI, {"srun_mpi": PMI["no controller"]}, "fails", "Unknown host"),
        (OPENMPI, {"srun_mpi": PMI["pmix 3"]}, "works", "PMIx 3"),
        (OPENMPI, {"srun_mpi": PMI["pmix 2"]}, "doubtful", "may be too old"),
        (OPENMPI, {"srun_version": SLURM["20.11.2"]}, "doubtful", "20.11.2"),
        (MPICH, {"srun_version": SLURM["20.11.2"]}, "works", "--mpi=pmi2"),
        (OPENMPI, {"srun_mpi": None}, "not found", "no srun"),
        (MPICH, {"srun_mpi": PMI["pmi2 alone"]}, "works", "--mpi=pmi2"),
        (MPICH, {"srun_mpi": "MPI plugin types are...\n\tnone\n\tpmix\n"}, "fails", "mpich needs --mpi=pmi2"),
    ],
)
def test_how_srun_meets_the_mpi(
    image: images.Image, changed: dict[str, str | None], outcome: str, said: str
) -> None:
    found = answer(image, "srun", **changed)
    assert found.outcome == outcome
    assert said in found.why
    assert found.todo


@pytest.mark.parametrize(
    ("image", "changed", "outcome", "said"),
    [
        (OPENMPI, {"mpirun_version": MPIRUN["Open MPI 4"]}, "fails", "an earlier release"),
        (OLD, {}, "doubtful", "C++ bindings"),
        (OLD, {"mpirun_version": MPIRUN["Open MPI 4"]}, "works", "the same ABI"),
        (OPENMPI, {"mpirun_version": MPIRUN["Intel"]}, "fails", "another ABI"),
        (MPICH, {"mpirun_version": MPIRUN["Intel"]}, "doubtful", "libmpich.so.12"),
        (MPICH, {}, "fails", "another ABI"),
        (OPENMPI, {"ldd_version": "ldd (GNU libc) 2.42\n"}, "fails", "glibc 2.42"),
        (OPENMPI, {"ompi_info": OMPI_INFO["Debian"]}, "doubtful", "/usr"),
        (OPENMPI, {"ompi_info": WITHOUT_UCX}, "falls back to TCP", "without UCX"),
        (OPENMPI, {"mpirun_version": None, "ompi_info": None}, "not found", "no mpirun"),
        (OPENMPI, {"mpirun_version": "\nA vendor's 1.2\n", "ompi_info": None}, "doubtful", "A vendor's 1.2"),
    ],
)  # fmt: skip
def test_whether_the_mpi_of_the_cluster_can_be_bound_in(
    image: images.Image, changed: dict[str, str | None], outcome: str, said: str
) -> None:
    found = answer(image, "own MPI", **changed)
    assert (found.outcome, said in found.why) == (outcome, True), found


class Hung(Cluster):
    """As the runner says it of a program that does not end."""

    def __call__(self, argv: Sequence[str | Path], **options: Any) -> Completed:
        done = super().__call__(argv, **options)
        return replace(done, returncode=124, stderr="no end after 30 s") if done.stdout == "hangs" else done


@pytest.mark.parametrize(
    ("program", "about", "outcome"),
    [
        ("srun --mpi=list", "srun", "fails"),
        ("ibv_devinfo", "fabric", "not found"),
        ("nvidia-smi", "driver", "not found"),
        ("mpirun --version", "own MPI", "not found"),
    ],
)
def test_a_program_that_hangs_is_not_one_that_is_absent(program: str, about: str, outcome: str) -> None:
    said = {**HEALTHY, "ompi_info": "", program: "hangs"}
    (judged,) = login_node.examine(Hung(said), [stack()]).rows
    found = next(told for told in judged.answers if told.about == about)
    assert (found.outcome, found.why) == (outcome, f"{program.split()[0]} did not end within 30 s")


def test_the_driver_decides_by_the_major_release_of_cuda() -> None:
    assert answer(OPENMPI, "driver", nvidia_smi=NVIDIA["470"]).outcome == "fails"
    assert answer(OLD, "driver", nvidia_smi=NVIDIA["470"]).outcome == "works"
    assert answer(OPENMPI, "driver", nvidia_smi=NVIDIA["failed"]).outcome == "not found"


def test_a_gpu_without_kernels_is_told() -> None:
    built = OPENMPI.gpu_arch
    assert built
    assert answer(OPENMPI, "GPU", nvidia_smi_query_gpu="3.5\n").outcome == "fails"
    assert answer(OPENMPI, "GPU", nvidia_smi_query_gpu=UNKNOWN_FIELD).outcome == "not found"


@pytest.mark.parametrize(
    ("which", "outcome", "said"),
    [
        ("x86-64", "works", "x86_64 with avx2, f16c, fma"),
        ("Ivy Bridge", "fails", "this node's processors lack avx2, fma"),
        ("Grace", "fails", "the row is for x86_64, and this node is aarch64"),
        ("without flags", "works", "x86_64, as this node has it"),
    ],
)
def test_the_processors_run_what_the_image_was_compiled_for(which: str, outcome: str, said: str) -> None:
    found = answer(OPENMPI, "CPU", lscpu=LSCPU[which])
    assert (found.outcome, said in found.why) == (outcome, True), found
    assert answer(OPENMPI, "CPU", lscpu=None).outcome == "not found"


def test_a_row_for_arm_fits_nodes_of_arm() -> None:
    arm = images.of(replace(stack(), platform=ARM64))
    assert answer(arm, "CPU", lscpu=LSCPU["Grace"]).outcome == "works"
    assert answer(arm, "CPU").why == "the row is for aarch64, and this node is x86_64"


def test_containers_by_apptainer_by_pyxis_or_not_at_all() -> None:
    pyxis = "      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH\n"
    assert answer(OPENMPI, "container", apptainer_version=None).outcome == "not found"
    by_pyxis = answer(OPENMPI, "container", apptainer_version=None, srun_help=pyxis)
    assert (by_pyxis.outcome, "--pyxis" in by_pyxis.todo) == ("works", True)
    old = answer(OPENMPI, "container", uname_r="3.10.0-1160.el7.x86_64\n")
    assert (old.outcome, "zstd" in old.why) == ("doubtful", True)
    older = answer(OPENMPI, "container", apptainer_version=RUNTIME["singularity 2"])
    assert (older.outcome, "no SIF" in older.why) == ("fails", True)


def test_the_row_that_fits_comes_first() -> None:
    only_pmi2 = seen_on({**HEALTHY, "srun --mpi=list": PMI["pmi2 alone"]})
    assert judge([OPENMPI, OLD, MPICH], only_pmi2)[0].image.row == "mpich"
    old_driver = seen_on({**HEALTHY, "nvidia-smi": NVIDIA["470"]})
    first, *rest = judge([OPENMPI, MPICH, OLD], old_driver)
    assert (first.image.row, first.fits) == ("old", True)
    assert not any(row.fits for row in rest)
    neither = seen_on({**HEALTHY, "nvidia-smi": NVIDIA["418"]})
    assert judge([OPENMPI], neither)[0].verdict.startswith("no row fits")


def test_a_device_that_is_no_name_never_reaches_a_line_to_paste() -> None:
    found = answer(OPENMPI, "fabric", ibv_devinfo=IBV["RoCE"].replace("mlx5_2", "$(id)"))
    assert "$(id)" not in found.todo + found.why
    bound = answer(OPENMPI, "own MPI", ompi_info=HEALTHY["ompi_info"].replace("/opt/hpcx/ompi", "/$(id)"))
    assert "'/$(id)'" in bound.todo


@pytest.mark.parametrize("os", ["debian-11", "debian-12", "debian-13"])
def test_every_release_that_rows_are_built_on_is_known(os: str) -> None:
    image = images.of(stack(os=os))
    assert all((image.pmix, image.ucx, image.libfabric, image.glibc))


# -- the command -----------------------------------------------------------------------------------


def test_a_host_without_any_of_it_is_no_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "srun").write_text("no program")
    (tmp_path / "srun").chmod(0o644)
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, err = call(capsys, "doctor", "--cluster", "--format", "json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert not any(program["found"] for program in document["programs"])
    assert {told["outcome"] for row in document["rows"] for told in row["answers"]} == {"not found"}
    assert document["verdict"].startswith("nothing of a cluster")
    code, out, _ = call(capsys, "doctor", "--cluster", "cuda12-mpich")
    assert code == 0
    assert "nothing of a cluster" in out


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "said", [{}, HEALTHY, {**HEALTHY, "ibv_devinfo": IBV["Omni-Path"], "nvidia-smi": NVIDIA["418"]}]
)
def test_the_rows_stand_side_by_side_on_a_narrow_screen(said: dict[str, str], width: int) -> None:
    project = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=ROOT / "out")
    stacks = [row.stack for row in plan(project, cells(project, ())).rows]
    examined = login_node.examine(Cluster(said), stacks)
    console = Console(width=width, file=io.StringIO(), record=True)
    for part in tables.cluster_tables(examined):
        console.print(part, soft_wrap=isinstance(part, str))
    text = console.export_text()
    assert "…" not in text.partition("fits best")[0].partition("no row fits")[0]
    lines = [line.split() for line in text.splitlines()]
    ids = {row.id for row in stacks}
    rows = [line for line in lines if len(line) == 1 + len(QUESTIONS) and line[0] in ids]
    assert len(rows) == (len(stacks) if said else 0)
    if said:
        assert ["row", *" ".join(told.about for told in examined.rows[0].answers).split()] in lines
    else:
        assert "not found here: srun, mpirun" in text and "nothing of a cluster" in text


def test_rows_without_cluster_are_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "doctor", "cuda12-mpich")
    assert (code, out) == (2, "")
    assert "--cluster" in err
