"""Made-up records that look like real ones: for the tests of the reports only."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from stackwright.core.checks.compare import Difference
from stackwright.core.model.record import (
    Component,
    Definition,
    Host,
    Image,
    Layer,
    Phase,
    Record,
    SifFile,
    Status,
    Step,
    Timing,
)
from stackwright.core.model.row import Check, Outcome, Rejection, Tier, Verdict, World

NOON = datetime(2026, 3, 2, 6, 0, tzinfo=UTC)
NO_GPU = "no NVIDIA GPU on this host"
SEEN = (
    (Tier.STATIC, "static.host-key", "A host key inside an image is known to all who pull it.", "none found"),
    (Tier.STATIC, "static.user", "A container must not be root by default.", "uid 1000"),
    (Tier.STATIC, "static.libcuda-stub", "A stub libcuda hides the driver.", "none on the loader's path"),
    (Tier.LINK, "link.import", "Each module imports in a fresh process.", "torch, horovod.torch"),
    (Tier.LINK, "link.one-nccl", "A second NCCL is a second set of communicators.",
     "/opt/stack/lib/python3.13/site-packages/nvidia/nccl/lib/libnccl.so.2"),
    (Tier.BUILT, "built.nccl", "Each extension was compiled with the row's NCCL.", "22105"),
    (Tier.BUILT, "built.mpi", "Each extension was compiled with MPI.", "torch"),
    (Tier.COLLECTIVE, "collective.mpi", "Two ranks by mpirun agree on values.", "world size 2, sum 3.0"),
    (Tier.COLLECTIVE, "collective.training", "Weights agree and the loss falls.", "loss 2.31 to 0.42"),
    (Tier.GPU, "gpu.allreduce", "NCCL works on the device.", NO_GPU),
)  # fmt: skip


def verdict(world: str, **outcomes: str) -> Verdict:
    """All of SEEN: the gpu tier not run, the others passed, but for ``link__import="why it failed"``."""
    checks = []
    for tier, id, why, detail in SEEN:
        outcome = Outcome.NOT_RUN if tier is Tier.GPU else Outcome.PASSED
        failed = outcomes.get(id.replace(".", "__").replace("-", "_"))
        shown = Outcome.FAILED if failed else outcome
        checks.append(Check(id=id, tier=tier, why=why, outcome=shown, detail=failed or detail))
    return Verdict(world=World(world), checks=tuple(checks))


DECLARED = (
    ("os", "debian13"), ("python", "3.13"), ("gcc", "13"), ("cuda", "12.4"), ("cudnn", "9.1.0.70"),
    ("nccl", "2.21.5"), ("mpi.flavour", "openmpi"), ("mpi.version", "5.0.7"), ("horovod", "0.28.1"),
    ("torch", "2.6.0"), ("gpu_arch", "8.0 9.0"),
)  # fmt: skip

FOUND = (
    ("os", "debian13"), ("python", "3.13.5"), ("gcc", "13.3.0"), ("cuda", "12.4.131"),
    ("cudnn", "9.1.0.70"), ("nccl", "2.21.5"), ("mpi.flavour", "openmpi"), ("mpi.version", "5.0.7"),
    ("horovod", "0.28.1"), ("torch", "2.6.0+cu124"), ("triton", "3.2.0"), ("numpy", "2.2.3"),
)  # fmt: skip

LAYERS = (
    Layer(what="base", created_by="FROM base-trixie", bytes=124_000_000),
    Layer(what="system", created_by="RUN apt-get install gcc-13 g++-13 libopenmpi40 "
          "libibverbs1 openssh-server tini", bytes=612_000_000),
    Layer(what="frameworks", created_by="COPY --link --from=frameworks /layer /",
          bytes=5_080_000_000),
    Layer(what="horovod", created_by="COPY --link --from=horovod /opt/horovod /opt/stack",
          bytes=44_000_000),
    Layer(what="row", created_by="COPY --link row.json /etc/stackwright/row.json", bytes=1_204),
)  # fmt: skip

COMPONENTS = tuple(
    Component(name=name, bytes=count * 10**6)
    for name, count in (
        ("os", 412), ("nvidia/cublas", 561), ("torch", 1480), ("nvidia/cudnn", 1074), ("gcc", 246),
        ("nvidia/cusparse", 304), ("nvidia/cufft", 283), ("nvidia/nccl", 252), ("triton", 413),
        ("nvidia/cusolver", 202), ("nvidia/cusparselt", 222), ("horovod", 44), ("mpi and ucx", 74),
    )
)  # fmt: skip

TIMINGS = (
    Timing(phase=Phase.BASE, seconds=14.2), Timing(phase=Phase.BUILD, seconds=822.7),
    Timing(phase=Phase.PROBE_DOCKER, seconds=141.9), Timing(phase=Phase.SIF, seconds=96.4),
    Timing(phase=Phase.PROBE_SIF, seconds=163.0),
)  # fmt: skip

STEPS = (
    Step(name="[toolchain 2/4] RUN apt-get install nvidia-cuda-toolkit-gcc g++-13 libopenmpi-dev",
         seconds=241.4),
    Step(name="[horovod 4/4] RUN build-horovod.sh /wheels", seconds=402.8),
    Step(name="[frameworks 3/3] RUN --mount=type=cache,target=/root/.cache/pip pip install "
         "--require-hashes -r requirements.txt", seconds=188.1),
    Step(name="[final 3/7] COPY --link --from=frameworks /layer /", seconds=61.2),
    Step(name="[base 1/2] FROM base-trixie", seconds=0.0, cached=True),
    Step(name="[final 2/7] RUN apt-get install gcc-13 tini", seconds=38.6, cached=True),
    Step(name="exporting to image", seconds=22.5),
)  # fmt: skip


def built(**changes: Any) -> Record:
    """A row that was built and probed on a host without a GPU."""
    row = changes.get("row", "debian13-py3.13-cuda12.4-ompi5.0.7-torch2.6.0")
    whole = Record(
        row=row,
        key="a1" * 32,
        lock="b2" * 32,
        started="2026-03-02T02:00:00Z",
        finished="2026-03-02T02:21:08Z",
        status=Status.COMPLETE,
        phase=Phase.PROBE_SIF,
        declared=DECLARED,
        found=FOUND,
        image=Image(
            reference=f"stackwright/{row}:a1a1a1a1a1a1", id="sha256:" + "c3" * 32, bytes=5_860_000_000,
            base="debian trixie, 2026-02-28",
        ),
        layers=LAYERS,
        components=COMPONENTS,
        sif=SifFile(path=f"out/{row}/a1a1a1a1a1a1/{row}.sif", bytes=2_910_000_000, sha256="d4" * 32),
        timings=TIMINGS,
        steps=STEPS,
        verdicts=(verdict("docker"), verdict("sif")),
        tools=(("engine", "28.5.2"), ("buildx", "0.29.1"), ("apptainer", "1.4.5"), ("stackwright", "0.1.0")),
        host=Host(cpus=2, memory=25_200_000_000, machine="x86_64", kernel="6.1.0-28-amd64",
                  os="Debian GNU/Linux 12 (bookworm)"),
    )  # fmt: skip
    return replace(whole, **changes)


def broken(**changes: Any) -> Record:
    """A row in which a second NCCL was found; no SIF is made of it."""
    two = (
        "2 files are mapped:\n/opt/stack/lib/python3.13/site-packages/nvidia/nccl/lib/libnccl.so.2 (torch)\n"
        "/usr/lib/x86_64-linux-gnu/libnccl.so.2 (horovod.torch)"
    )
    whole = built(
        row="debian13-py3.13-cuda12.8-ompi5.0.7-torch2.8.0-tensorflow2.20.0", key="e5" * 32,
        status=Status.FAILED, phase=Phase.PROBE_DOCKER, reason="1 check of 10 failed", sif=None,
        verdicts=(verdict("docker", link__one_nccl=two),), timings=built().timings[:3],
    )  # fmt: skip
    drift = tuple((name, "2.26.2" if name == "nccl" else value) for name, value in whole.found)
    return replace(whole, found=drift, **changes)


def rejected() -> Rejection:
    return Rejection(
        id="debian13-cuda13.0-torch2.12.1-tensorflow2.21.0", rule="one-cuda",
        clash=(("torch 2.12.1 brings CUDA", "13.0"), ("tensorflow 2.21.0 brings CUDA", "12.9")),
        reason="The wheels bring two CUDA majors into one process, and each its own NCCL.",
        source="https://github.com/pytorch/pytorch/issues/186591", nearest="debian13-cuda12.8-torch2.8.0",
    )  # fmt: skip


def all_passed() -> Record:
    """Every tier in both worlds, on a host with a GPU, published."""

    def passed(judged: Verdict) -> Verdict:
        checks = (replace(check, outcome=Outcome.PASSED, detail="ok") for check in judged.checks)
        return replace(judged, checks=tuple(checks))

    record = built()
    assert record.image is not None
    image = replace(
        record.image, reference="registry.example:5000/gpu/torch:2.6", digest="sha256:" + "9f" * 32
    )
    return replace(record, image=image, verdicts=tuple(passed(judged) for judged in record.verdicts))


def image_of(record: Record) -> Image:
    assert record.image is not None
    return record.image


DIFFERENCE = Difference(path="built/torch/compiled_by/cmake", one="3.30", other="3.31", why="a day")


def definition(*differences: Difference, **changes: Any) -> Record:
    """A SIF of the definition file of the row of ``built()``, as good as the image."""
    row = built().row
    whole = Record(
        row=row,
        key=built().key,
        lock=built().lock,
        definition=Definition(key="d5" * 32, differences=differences or (DIFFERENCE,)),
        started="2026-03-02T03:00:00Z",
        finished="2026-03-02T03:27:00Z",
        status=Status.COMPLETE,
        phase=Phase.COMPARE_DEFINITION,
        timings=(
            Timing(phase=Phase.DEFINITION, seconds=1260.0),
            Timing(phase=Phase.PROBE_DEFINITION, seconds=61.5),
        ),
        sif=SifFile(path=f"out/{row}/a1a1a1a1a1a1/{row}.def.sif", bytes=3_400_000_000, sha256="e6" * 32),
        verdicts=(verdict("def"),),
        tools=(("apptainer", "1.4.5"),),
        host=built().host,
    )
    return replace(whole, **changes)


UNEXPLAINED = Difference(path="system/gcc", one="13.3.0", other="14.2.0")
"""Of a row whose SIF of the definition file does not have the compiler of its image."""


def failed_definition(**changes: Any) -> Record:
    bad = (verdict("def", link__import="no libmpi"),)
    return definition(**{"status": Status.FAILED, "verdicts": bad, "reason": "checks failed: 1", **changes})


def unbuilt_definition(**changes: Any) -> Record:
    end = {"status": Status.FAILED, "phase": Phase.DEFINITION, "reason": "E: no such package"}
    without = {"verdicts": (), "sif": None, "timings": (), "definition": Definition(key="d5" * 32)}
    return definition(**{**end, **without, **changes})
