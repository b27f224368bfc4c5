"""A script for sbatch: srun starts the ranks, each in a container of its own.

Five ways into the container: Apptainer with the container's own MPI over the PMI of Slurm (hybrid) or with
the cluster's MPI bound in; pyxis and an environment definition file (EDF), where srun itself makes the
container; and podman-hpc. EDF and podman-hpc are as their documents say: they were never run.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from stackwright.core.launch.fabric import BIND_WHY, may_use_ucx, nccl, proofs, summary, ucx, uses_ucx
from stackwright.core.launch.mpirun import openmpi_transport
from stackwright.core.launch.recipe import Batch, Fabric, Option, Site, Target, Variable
from stackwright.core.model.row import MpiFlavour

HYBRID = "on a cluster with Slurm and Apptainer: the container's own MPI connects its ranks through srun"
BOUND = (
    "on a cluster with Slurm and Apptainer whose own MPI knows a fabric that the image's does not "
    "(Slingshot, Omni-Path), and it has the flavour and the ABI of the image's and asks for no newer glibc"
)
PYXIS = "on a cluster with Slurm, pyxis and enroot: srun makes the container, and no apptainer is needed"
EDF = (
    "on a cluster with Slurm and a container engine that reads environment definition files, as CSCS has: "
    "srun makes the container; the nodes need CPUs of the architecture that the image is for"
)
PODMAN = "on a cluster with Slurm and podman-hpc, as those of NERSC"
SUBMIT = "Submit it with sbatch, -p and -t for your partition and time."
UNTRIED = "Not tried on such a cluster: the check before the training says whether the ranks see each other."

PMI: Mapping[str, str] = {MpiFlavour.OPENMPI: "pmix", MpiFlavour.MPICH: "pmi2"}
"""srun --mpi=…: run with Debian's Open MPI 5.0.7 and MPICH 4.2.1 against Slurm 24.11; PMI-2 starts Open MPI's
ranks alone, and PMIx those of Debian's MPICH."""
PODMAN_PMI: Mapping[str, str] = {MpiFlavour.OPENMPI: "--openmpi-pmix", MpiFlavour.MPICH: "--openmpi-pmi2"}
"""Its modules, etc/modules.d of podman-hpc; the second one is for every MPI that asks for PMI-2."""
PMI_WHY = "how the ranks find each other: with another one each is rank 0 of 1, and nothing is said"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Into the container: the words for it, when to use them, what is done before, and the files for it."""

    options: tuple[Option, ...]
    when: str
    before: tuple[str, ...]
    extra: Mapping[str, str] = field(default_factory=dict)


def slurm(target: Target, site: Site, command: tuple[str, ...]) -> Batch:
    variables = tuple(_variables(target, site))
    way = _way(target, site, variables)
    checks = tuple(proofs(site, '"$SLURM_NTASKS"'))
    made = Batch(
        directives=tuple(_directives(target, site)),
        variables=variables,
        step=(*_step(target), *way.options),
        proofs=checks,
        command=command,
        when=way.when,
        before=way.before,
        extra=way.extra,
        summary=summary(site, '"$SLURM_NTASKS"'),
    )
    needs = f"It needs {' and '.join(made.files)} next to it: `launch … --into FOLDER` writes all."
    return replace(made, before=(needs, *way.before))


def _directives(target: Target, site: Site) -> Iterator[Option]:
    yield Option((f"--job-name={target.row}",), "as squeue shows it")
    yield Option((f"--nodes={site.nodes}",), "how many nodes")
    yield Option((f"--ntasks-per-node={site.per_node}",), "how many ranks on each: one per GPU")
    why = (
        "of the node and not of the rank: ranks reach each other's GPU directly only if they see all of them"
    )
    yield Option((f"--gpus-per-node={site.per_node}",), why)
    yield Option(
        ("--exclusive",), "whole nodes, with every core; on shared nodes give --cpus-per-task instead"
    )
    yield Option(("--mem=0",), "all memory of each node, which --exclusive alone does not give")


def _variables(target: Target, site: Site) -> Iterator[Variable]:
    """A cluster's own MPI is bound in for a fabric that only it knows, and is left to choose it."""
    yield from nccl(target, site)
    bound = site.host_mpi is not None
    chooses = bound and site.fabric is Fabric.AUTO
    if target.mpi.flavour is MpiFlavour.OPENMPI:
        for name, value, why in openmpi_transport(site, modern=target.mpi_major >= 5):
            if not (chooses and name in ("pml", "btl")):
                yield Variable(f"OMPI_MCA_{name}", value, why)
    if uses_ucx(target, site) and not chooses:
        yield from ucx(site)
    if may_use_ucx(target, site) or bound:
        why = (
            "ranks of one node share memory by its name: each container has its own user namespace, "
            "and /proc of the other one is closed"
        )
        yield Variable("UCX_POSIX_USE_PROC_LINK", "n", why)


def _step(target: Target) -> tuple[Option, ...]:
    return (
        Option((f"--mpi={PMI[target.mpi.flavour]}",), PMI_WHY),
        Option(("--cpu-bind=none",), BIND_WHY),
        Option(("--kill-on-bad-exit=1",), "one rank that ends badly ends all: the others would wait for it"),
    )


def _way(target: Target, site: Site, variables: tuple[Variable, ...]) -> Way:
    others: dict[str, Callable[[], Way]] = {
        "pyxis": lambda: _pyxis(target),
        "edf": lambda: _edf(target),
        "podman_hpc": lambda: _podman_hpc(target, variables),
    }
    for name, make in others.items():
        if getattr(site, name):
            return make()
    start = (
        Option(
            ("apptainer", "exec"), "without --containall and --cleanenv, which hide the PMI from the ranks"
        ),
        Option(("--nv",), "the driver's libraries come from the node"),
    )
    file = Option((target.sif,), "on a disk that every node sees")
    if site.host_mpi is None:
        return Way(options=(*start, file), when=HYBRID, before=(SUBMIT,))
    return Way(options=(*start, *_bound(site.host_mpi), file), when=BOUND, before=(SUBMIT,))


def _bound(folder: str) -> tuple[Option, ...]:
    return (
        Option(("--bind", f"{folder}:{folder}:ro"), "the cluster's own MPI, under its own name"),
        Option(
            ("--env", f"LD_LIBRARY_PATH={folder}/lib"),
            "its libmpi is found before the image's; what it needs besides (libpmix, libucx, libfabric) lies "
            "elsewhere most of the time: bind those folders as well, and name them here",
        ),
    )


def _pyxis(target: Target) -> Way:
    file = f"{target.row}.sqsh"
    options = (
        Option((f"--container-image=./{file}",), "a file of enroot, on a disk that every node sees"),
        Option(("--container-mounts=$PWD:/workspace",), "the folder with your program", expands=True),
        Option(("--container-workdir=/workspace",), "where the program is started"),
    )
    before = (
        _import(target),
        "PMIx reaches the container only if the cluster's enroot has its hook 50-slurm-pmi.sh.",
        SUBMIT,
    )
    return Way(options=options, when=PYXIS, before=before)


def _import(target: Target) -> str:
    line = shlex.join(("enroot", "import", "-o", f"{target.row}.sqsh", _enroot(target)))
    return f"First, once: {line}"


def _enroot(target: Target) -> str:
    """Return enroot's notation: # behind the registry, and a digest instead of the tag (its docker.sh)."""
    if not target.registry:
        return f"dockerd://{target.image}"
    path, at, digest = target.image.removeprefix(f"{target.registry}/").partition("@")
    return f"docker://{target.registry}#" + (f"{path.partition(':')[0]}:{digest}" if at else path)


def _edf(target: Target) -> Way:
    """https://docs.cscs.ch/software/container-engine/edf/: a file of TOML that srun is given."""
    name = f"{target.row}.toml"
    lines = [
        "# What srun --environment makes the container of.",
        f'image = "${{PWD}}/{target.row}.sqsh" # of enroot, on a disk that every node sees',
        'mounts = ["${PWD}:/workspace"] # the folder with your program',
        'workdir = "/workspace"',
        "entrypoint = false # as in a SIF: srun starts the ranks",
    ]
    if target.mpi.flavour is MpiFlavour.OPENMPI:
        lines += ["[env]", 'PMIX_MCA_psec = "native" # as Slurm proves who its ranks are']
    lines += [
        "# NCCL over Slingshot, where the cluster has the hook; the variant is that of the image's CUDA:",
        "# [annotations]",
        '# com.hooks.aws_ofi_nccl.enabled = "true"',
        '# com.hooks.aws_ofi_nccl.variant = "cuda12"',
    ]
    option = Option(
        (f"--environment=./{name}",), "the file that describes the container, next to this script"
    )
    return Way(
        options=(option,), when=EDF, before=(_import(target), UNTRIED, SUBMIT),
        extra={name: "\n".join(lines) + "\n"},
    )  # fmt: skip


def _podman_hpc(target: Target, variables: tuple[Variable, ...]) -> Way:
    passed = tuple(word for variable in variables for word in ("-e", variable.name))
    options = (
        Option(("podman-hpc", "run", "--rm"), "a container for each rank, which goes with it"),
        Option(("--gpu",), "the driver's libraries come from the node"),
        Option((PODMAN_PMI[target.mpi.flavour],), "what the ranks find each other by reaches the container"),
        *((Option(passed, "what is set above, which a container does not inherit"),) if passed else ()),
        Option(("-v", "$PWD:/workspace", "-w", "/workspace"), "the folder with your program", expands=True),
        Option((target.image,), "the image of the row"),
    )
    push = f"First push {target.image} to your registry and name it so below: this name is Docker Hub's."
    pull = f"First, once, on a login node: {shlex.join(('podman-hpc', 'pull', target.image))}"
    before = (pull, UNTRIED, SUBMIT) if target.registry else (push, pull, UNTRIED, SUBMIT)
    return Way(options=options, when=PODMAN, before=before)
