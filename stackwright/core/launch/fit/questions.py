"""Predict an image on a cluster: one question for each interface, answered from both sides.

Pure. An answer that rests on what was read and not run says so in its source.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from stackwright.core.facts import distributions
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.launch.fit.image import Image
from stackwright.core.launch.fit.readers import PATIENCE, ClusterFacts
from stackwright.core.launch.slurm import PMI
from stackwright.core.model.row import MpiFlavour
from stackwright.core.model.target import CUDA


class Outcome(StrEnum):
    """The worst one first."""

    FAILS = "fails"
    DOUBTFUL = "doubtful"
    FALLS_BACK = "falls back to TCP"
    NOT_FOUND = "not found"
    WORKS = "works"


PMIX_ACROSS_VERSIONS = 3
"""PMIx client and server talk across versions since 1.2.5, 2.0.3, 2.1.1 and 3.0.0, and srun tells the first
number alone. https://github.com/open-mpi/ompi/wiki, "OMPI PMIx Cross Version Matrix"."""
SLURM_TO_AVOID = ("20.11.0", "20.11.1", "20.11.2")
"""Open MPI's docs/launching-apps/slurm.rst."""
ZSTD_SINCE = (4, 14)
"""Linux reads squashfs that is compressed with zstd since then: commit 87bf54bb43dd."""
MPICH_ABI = ("mpich", "intel")
"""Flavours of MPICH's ABI (https://www.mpich.org/abi/)."""
SYSTEM = ("/", "/usr", "/usr/local")
OWN_MPI = "own MPI"
PROCESSOR = "CPU"
"""Every host answers this: it does not make it a cluster."""
DEVICES = {"hfi": "Omni-Path", "opa": "Omni-Path", "rdmap": "EFA", "efa": "EFA"}
"""Fabrics that UCX and NCCL of an image do not drive, by how the names of their devices begin."""
PROVIDERS = {"cxi": "Slingshot", "efa": "EFA", "opx": "Omni-Path", "psm2": "Omni-Path"}
"""The same by the provider of libfabric, which is the only one that knows Slingshot: it has no verbs."""
OFI_PLUGIN = "https://github.com/aws/aws-ofi-nccl; https://docs.cscs.ch/software/communication/nccl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``about`` is the question; ``source`` is where a fact was read that was not seen here."""

    about: str
    outcome: Outcome
    why: str
    todo: str = ""
    source: str = ""


def start(image: Image, cluster: ClusterFacts) -> Answer:
    """Return whether srun's ranks become one world."""
    about, wanted = "srun", PMI[image.mpi.flavour]
    if cluster.pmi is None:
        if wrong := cluster.pmi_error or _hung(cluster, "srun"):
            return Answer(about=about, outcome=Outcome.FAILS, why=wrong, todo="a node where srun works")
        todo = "on nodes that you reach by ssh: launch --mpirun; else the cluster's own scheduler"
        why = "no srun here: no Slurm, or not its login node"
        return Answer(about=about, outcome=Outcome.NOT_FOUND, why=why, todo=todo)
    found = _plugin(image, cluster, about, wanted)
    if (
        found.outcome is Outcome.WORKS
        and image.mpi.flavour is MpiFlavour.OPENMPI
        and cluster.slurm in SLURM_TO_AVOID
    ):
        why = f"the authors of Open MPI advise against Slurm {cluster.slurm}"
        source = "Open MPI, docs/launching-apps/slurm.rst"
        return Answer(
            about=about, outcome=Outcome.DOUBTFUL, why=why, todo="ask for a later Slurm", source=source
        )
    return found


def _hung(cluster: ClusterFacts, program: str) -> str:
    return f"{program} did not end within {PATIENCE} s" if program in cluster.hung else ""


def _plugin(image: Image, cluster: ClusterFacts, about: str, wanted: str) -> Answer:
    assert cluster.pmi is not None
    has = ", ".join(cluster.pmi) or "none"
    if wanted not in cluster.pmi:
        why = f"{image.mpi.flavour} needs --mpi={wanted}, and srun has {has}: each rank would be rank 0 of 1"
        return Answer(about=about, outcome=Outcome.FAILS, why=why, todo=_without_pmi(image, cluster))
    if wanted == "pmix" and cluster.pmi_error:
        return Answer(
            about=about, outcome=Outcome.FAILS, why=cluster.pmi_error, todo="ask for the library on the nodes"
        )
    line = f"launch {image.row} --slurm"
    if wanted == "pmix" and cluster.pmix and max(cluster.pmix) < PMIX_ACROSS_VERSIONS:
        why = f"Slurm's PMIx {max(cluster.pmix)} may be too old for PMIx {image.pmix or 'of the image'}"
        todo = f"{line}: its script proves the world before the training"
        return Answer(
            about=about, outcome=Outcome.DOUBTFUL, why=why, todo=todo, source="PMIx Cross Version Matrix"
        )
    version = f" (PMIx {', '.join(map(str, cluster.pmix))})" if wanted == "pmix" and cluster.pmix else ""
    return Answer(about=about, outcome=Outcome.WORKS, why=f"srun has --mpi={wanted}{version}", todo=line)


def _without_pmi(image: Image, cluster: ClusterFacts) -> str:
    if cluster.mpi and cluster.mpi[0] == image.mpi.flavour:
        return "mpirun of the cluster, before apptainer exec, in an allocation; or ask for the plugin"
    return "ask for the plugin, or take a row with the other MPI"


def container(image: Image, cluster: ClusterFacts) -> Answer:
    about = "container"
    if cluster.runtime is None:
        if cluster.pyxis:
            todo = f"launch {image.row} --slurm --pyxis"
            return Answer(
                about=about, outcome=Outcome.WORKS, why="srun has pyxis, and there is no Apptainer", todo=todo
            )
        why = "neither apptainer nor singularity nor pyxis here"
        return Answer(
            about=about, outcome=Outcome.NOT_FOUND, why=why, todo="module avail apptainer singularity"
        )
    name, version = cluster.runtime
    if cluster.kernel and as_numbers(cluster.kernel.split("-")[0])[:2] < ZSTD_SINCE:
        why = f"Linux {cluster.kernel} cannot mount a SIF that is compressed with zstd"
        todo = "unpack it: apptainer build --sandbox FOLDER FILE.sif"
        source = "Linux commit 87bf54bb43dd"
        return Answer(about=about, outcome=Outcome.DOUBTFUL, why=why, todo=todo, source=source)
    if as_numbers(version)[0] < 3 and name.startswith("singularity"):
        return Answer(
            about=about, outcome=Outcome.FAILS, why=f"{name} {version} knows no SIF", todo="ask for Apptainer"
        )
    return Answer(about=about, outcome=Outcome.WORKS, why=f"{name} {version}")


def processor(image: Image, cluster: ClusterFacts) -> Answer:
    """Return whether this node's processors run the image's programs; those of other nodes may be others."""
    about, todo = PROCESSOR, "ask on a compute node: srun lscpu"
    if cluster.machine is None:
        why = _hung(cluster, "lscpu") or "lscpu does not say what the processors are"
        return Answer(about=about, outcome=Outcome.NOT_FOUND, why=why, todo=todo)
    if cluster.machine != image.machine:
        why = f"the row is for {image.machine}, and this node is {cluster.machine}"
        todo = "a row of this platform: platform in the matrix; or nodes of the other partition"
        return Answer(about=about, outcome=Outcome.FAILS, why=why, todo=todo)
    lacked = sorted({*image.cpu_features} - {*cluster.cpu_features})
    if lacked and cluster.cpu_features:
        why = f"this node's processors lack {', '.join(lacked)}: programs end with an illegal instruction"
        return Answer(about=about, outcome=Outcome.FAILS, why=why, todo="nodes with later processors")
    has = f" with {', '.join(image.cpu_features)}" if image.cpu_features and cluster.cpu_features else ""
    return Answer(about=about, outcome=Outcome.WORKS, why=f"{cluster.machine}{has}, as this node has it")


def own_mpi(image: Image, cluster: ClusterFacts) -> Answer:
    """Return whether the cluster's own MPI can be bound in, for a fabric that the image's does not know."""
    about = OWN_MPI
    without = "start by srun, without --host-mpi"
    if cluster.mpi is None and cluster.other_mpi:
        why = f"mpirun here says {cluster.other_mpi!r}, which is no MPI whose ABI is known"
        return Answer(about=about, outcome=Outcome.DOUBTFUL, why=why, todo=without)
    if cluster.mpi is None:
        why, todo = _hung(cluster, "mpirun") or "no mpirun here", "module load it, and ask again"
        return Answer(about=about, outcome=Outcome.NOT_FOUND, why=why, todo=todo)
    flavour, version = cluster.mpi
    named = f"{flavour} {version} here, {image.mpi.flavour} {image.mpi.version} in the image"
    if refusal := _other_abi(image, flavour, version) or _later_glibc(image, cluster):
        return Answer(about=about, outcome=Outcome.FAILS, why=f"{named}: {refusal}", todo=without)
    if doubt := _doubt(image, cluster, flavour, version):
        return Answer(
            about=about, outcome=Outcome.DOUBTFUL, why=f"{named}: {doubt[0]}", todo=without, source=doubt[1]
        )
    todo = f"launch {image.row} --slurm --host-mpi {shlex.quote(cluster.prefix or 'FOLDER')}"
    if cluster.pml and not {"ucx", "cm"} & set(cluster.pml):
        why = f"{named}: the same ABI, but built without UCX and libfabric"
        return Answer(about=about, outcome=Outcome.FALLS_BACK, why=why, todo=without)
    return Answer(about=about, outcome=Outcome.WORKS, why=f"{named}: the same ABI", todo=todo)


def _other_abi(image: Image, flavour: str, version: str) -> str:
    if (flavour in MPICH_ABI) != (image.mpi.flavour in MPICH_ABI):
        return "another ABI"
    if flavour == "openmpi" and as_numbers(version)[0] < image.mpi_major:
        return "an earlier release does not serve a program of a later one"
    return ""


def _later_glibc(image: Image, cluster: ClusterFacts) -> str:
    if cluster.glibc and image.glibc and as_numbers(cluster.glibc) > as_numbers(image.glibc):
        return f"its libraries may ask for glibc {cluster.glibc}, and the image has {image.glibc}"
    return ""


def _doubt(image: Image, cluster: ClusterFacts, flavour: str, version: str) -> tuple[str, str] | None:
    """Return what speaks against it, and where that was read."""
    if cluster.prefix in SYSTEM:
        return f"it lies in {cluster.prefix}, which cannot be bound over that of the image", ""
    if flavour == "openmpi" and as_numbers(version)[0] > image.mpi_major:
        source = "Open MPI, docs/building-apps/abi-compatibility.rst; open-mpi/ompi #13253 (libmpi_cxx)"
        return "the ABI is kept for C, and the C++ bindings are gone in 5", source
    if flavour in MPICH_ABI:
        said = f"the same ABI, but the image asks for {image.library}, and the cluster has libmpi.so.12"
        return f"{said}: it takes a link of that name", "https://www.mpich.org/abi/"
    return None


def fabric(image: Image, cluster: ClusterFacts) -> Answer:
    about, todo = "fabric", "ask on a compute node: srun ibv_devinfo, srun fi_info"
    if other := _other_fabric(cluster):
        return _through_libfabric(other, image, cluster)
    if cluster.ports is None:
        why = _hung(cluster, "ibv_devinfo") or "no ibv_devinfo here; a login node may have none"
        return Answer(about=about, outcome=Outcome.NOT_FOUND, why=why, todo=todo)
    active = tuple(port for port in cluster.ports if port.active)
    if not active:
        why = "no port is active" if cluster.ports else "no device for RDMA"
        return Answer(about=about, outcome=Outcome.FALLS_BACK, why=f"{why} on this node", todo=todo)
    infiniband = tuple(port for port in active if port.link == "InfiniBand")
    port, *others = infiniband or active
    kind = "InfiniBand" if infiniband else "RoCE"
    more = f", and {len(others)} more" if others else ""
    why = f"{kind} on {port.device}, port {port.number}{more}, by libibverbs and UCX {image.ucx}".rstrip()
    alone = f" --hca {port.device}:{port.number}" if not others and len(active) > 1 else ""
    todo = f"launch … --fabric infiniband{alone}: fails where TCP would be taken"
    return Answer(about=about, outcome=Outcome.WORKS, why=why, todo=todo)


def _other_fabric(cluster: ClusterFacts) -> str | None:
    named = [PROVIDERS[provider] for provider in cluster.providers if provider in PROVIDERS]
    devices = [port.device for port in cluster.ports or ()]
    named += [name for device in devices for begin, name in DEVICES.items() if device.startswith(begin)]
    return named[0] if named else None


def _older_libfabric(image: Image, cluster: ClusterFacts) -> str:
    """https://github.com/aws/aws-ofi-nccl/issues/241: compiled with a later one, a plugin does not load."""
    needed = image.oldest_libfabric if image.plugin else ""
    if not needed or not cluster.libfabric or as_numbers(cluster.libfabric) >= as_numbers(needed):
        return ""
    return f"the image's plugin asks for libfabric {needed} or later, and the host has {cluster.libfabric}"


def _through_libfabric(name: str, image: Image, cluster: ClusterFacts) -> Answer:
    """Return what goes over a fabric without verbs, and what to bind in where the image lacks it."""
    own = [provider for provider in image.providers if PROVIDERS[provider] == name]
    if own and image.mpi.flavour == "openmpi":
        why = (
            f"{name} by the image's libfabric {image.libfabric}, provider {own[0]}, and NCCL's plugin for it"
        )
        todo = f"launch … --fabric ofi --provider {own[0]}: fails where TCP would be taken"
        return Answer(about="fabric", outcome=Outcome.WORKS, why=why, todo=todo, source=OFI_PLUGIN)
    doubt = _older_libfabric(image, cluster) or _later_glibc(image, cluster)
    why = f"{name} is not driven by the image's UCX and NCCL: they take TCP"
    libfabric = f"its libfabric {cluster.libfabric}" if cluster.libfabric else "its libfabric"
    plugin = "" if image.plugin else " and NCCL's plugin for libfabric (aws-ofi-nccl)"
    parts = f"its MPI (--host-mpi){' and' if image.plugin else ','} {libfabric}{plugin}"
    way = "--fabric ofi" if image.plugin else "NCCL_NET='AWS Libfabric'"
    todo = f"bind in from the host: {parts}; with {way} NCCL fails where it would take TCP"
    if not image.plugin:
        todo += ". A row with fabric: [verbs, ofi] has the plugin"
    return Answer(
        about="fabric", outcome=Outcome.FALLS_BACK, why=f"{why}; {doubt}" if doubt else why, todo=todo,
        source=OFI_PLUGIN,
    )  # fmt: skip


def driver(image: Image, cluster: ClusterFacts) -> Answer:
    about, todo = "driver", f"ask on a compute node: srun --gpus=1 {CUDA.query}"
    if cluster.driver is None:
        why = _hung(cluster, CUDA.query) or f"no answer of {CUDA.query} here; a login node may have no GPU"
        return Answer(about=about, outcome=Outcome.NOT_FOUND, why=why, todo=todo)
    major = image.cuda.split(".")[0]
    least = dict(distributions.DRIVER_FLOOR).get(major)
    if least is None:
        return Answer(
            about=about, outcome=Outcome.DOUBTFUL, why=f"no lowest driver is known for CUDA {major}"
        )
    if as_numbers(cluster.driver)[0] < least:
        why = f"CUDA {image.cuda} needs a driver of release {least} or later, and this is {cluster.driver}"
        todo = "a row of an earlier CUDA, or a later driver"
        return Answer(
            about=about, outcome=Outcome.FAILS, why=why, todo=todo, source=distributions.NVIDIA_COMPAT.source
        )
    return Answer(about=about, outcome=Outcome.WORKS, why=f"driver {cluster.driver}, CUDA {image.cuda}")


def device(image: Image, cluster: ClusterFacts) -> Answer:
    """SASS runs on a device of the same major and of the same or a later minor capability."""
    about = "GPU"
    if not cluster.capabilities:
        return Answer(
            about=about,
            outcome=Outcome.NOT_FOUND,
            why=f"{CUDA.query} does not say which capability the GPUs have",
        )
    built = [as_numbers(arch) for arch in image.gpu_arch]
    for capability in cluster.capabilities:
        major, minor = as_numbers(capability)[:2]
        if built and not any(kernel[0] == major and kernel[1] <= minor for kernel in built):
            why = f"the row's kernels ({', '.join(image.gpu_arch)}) do not run on capability {capability}"
            return Answer(
                about=about, outcome=Outcome.FAILS, why=why, todo=f"gpu_arch: [{capability}] in the matrix"
            )
    return Answer(about=about, outcome=Outcome.WORKS, why=f"capability {', '.join(cluster.capabilities)}")


QUESTIONS: tuple[Callable[[Image, ClusterFacts], Answer], ...] = (
    start,
    container,
    processor,
    driver,
    device,
    fabric,
    own_mpi,
)
OPTIONAL = (OWN_MPI,)
"""Answers that do not decide whether a row fits: there is another way."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A row on this cluster. ``fits``: nothing that it cannot do without fails."""

    image: Image
    answers: tuple[Answer, ...]

    @property
    def needed(self) -> tuple[Answer, ...]:
        return tuple(answer for answer in self.answers if answer.about not in OPTIONAL)

    @property
    def fits(self) -> bool:
        return not any(answer.outcome is Outcome.FAILS for answer in self.needed)

    @property
    def verdict(self) -> str:
        """Return the answer as text, with its reason."""
        told = [answer.about for answer in self.needed if answer.outcome is not Outcome.NOT_FOUND]
        if not self.fits:
            return f"no row fits; {self.image.row} is the nearest"
        if not {*told} - {PROCESSOR}:
            return "nothing of a cluster is found here, so that no row can be preferred"
        rest = f", as far as {len(told)} of {len(self.needed)} answers tell"
        rest = "" if len(told) == len(self.needed) else rest
        return f"{self.image.row} fits best{rest}"


def judge(images: Iterable[Image], cluster: ClusterFacts) -> tuple[Judged, ...]:
    """Return the rows, the best one first: fewest failures, doubts and fallbacks, then the latest CUDA."""
    judged = (Judged(image, tuple(ask(image, cluster) for ask in QUESTIONS)) for image in images)
    return tuple(sorted(judged, key=_order))


def _order(judged: Judged) -> tuple[object, ...]:
    counts = tuple(sum(answer.outcome == outcome for answer in judged.needed) for outcome in Outcome)
    return (
        not judged.fits,
        *counts[:-1],
        tuple(-part for part in as_numbers(judged.image.cuda)),
        judged.image.row,
    )
