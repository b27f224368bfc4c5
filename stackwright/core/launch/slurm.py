"""A script for sbatch: srun starts the ranks, each in a container of its own.

Three ways into the container: its own MPI over the PMI of Slurm (hybrid), the cluster's MPI bound in, and
pyxis, where srun itself makes the container.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from stackwright.core.launch.fabric import BIND_WHY, nccl, proofs, ucx, uses_ucx
from stackwright.core.launch.mpirun import openmpi_transport
from stackwright.core.launch.recipe import Batch, Fabric, Option, Site, Target, Variable
from stackwright.core.model.row import MpiFlavour

HYBRID = "on a cluster with Slurm and Apptainer: the container's own MPI connects its ranks through srun"
BOUND = (
    "on a cluster with Slurm and Apptainer whose own MPI knows a fabric that the image's does not "
    "(Slingshot, Omni-Path), and it has the flavour and the ABI of the image's and asks for no newer glibc"
)
PYXIS = "on a cluster with Slurm, pyxis and enroot: srun makes the container, and no apptainer is needed"

PMI: Mapping[str, str] = {MpiFlavour.OPENMPI: "pmix", MpiFlavour.MPICH: "pmi2"}
"""srun --mpi=…: run with Debian's Open MPI 5.0.7 and MPICH 4.2.1 against Slurm 24.11; PMI-2 starts Open MPI's
ranks alone, and PMIx those of Debian's MPICH."""
PMI_WHY = "how the ranks find each other: with another one each is rank 0 of 1, and nothing is said"


def slurm(target: Target, site: Site, command: tuple[str, ...]) -> Batch:
    way, when, before = _way(target, site)
    return Batch(
        directives=tuple(_directives(target, site)),
        variables=tuple(_variables(target, site)),
        step=(*_step(target), *way),
        proofs=tuple(proofs(site, '"$SLURM_NTASKS"')),
        command=command,
        when=when,
        before=before,
    )


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
    chooses = bound and site.fabric is Fabric.TCP
    if target.mpi.flavour is MpiFlavour.OPENMPI:
        for name, value, why in openmpi_transport(site, modern=target.mpi_major >= 5):
            if not (chooses and name in ("pml", "btl")):
                yield Variable(f"OMPI_MCA_{name}", value, why)
    if uses_ucx(target, site) and not chooses:
        yield from ucx(site)
    if uses_ucx(target, site) or bound:
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


def _way(target: Target, site: Site) -> tuple[tuple[Option, ...], str, tuple[str, ...]]:
    """Return the words that lead into the container, when to use them, and what is done before."""
    if site.pyxis:
        return _pyxis(target)
    start = (
        Option(
            ("apptainer", "exec"), "without --containall and --cleanenv, which hide the PMI from the ranks"
        ),
        Option(("--nv",), "the driver's libraries come from the node"),
    )
    file = Option((target.sif,), "on a disk that every node sees")
    before = ("Submit it with sbatch, -p and -t for your partition and time.",)
    if site.host_mpi is None:
        return (*start, file), HYBRID, before
    return (*start, *_bound(site.host_mpi), file), BOUND, before


def _bound(folder: str) -> tuple[Option, ...]:
    return (
        Option(("--bind", f"{folder}:{folder}:ro"), "the cluster's own MPI, under its own name"),
        Option(
            ("--env", f"LD_LIBRARY_PATH={folder}/lib"),
            "its libmpi is found before the image's; what it needs besides (libpmix, libucx, libfabric) lies "
            "elsewhere most of the time: bind those folders as well, and name them here",
        ),
    )


def _pyxis(target: Target) -> tuple[tuple[Option, ...], str, tuple[str, ...]]:
    file = f"{target.row}.sqsh"
    way = (
        Option((f"--container-image=./{file}",), "a file of enroot, on a disk that every node sees"),
        Option(("--container-mounts=$PWD:/workspace",), "the folder with your program", expands=True),
        Option(("--container-workdir=/workspace",), "where the program is started"),
    )
    before = (
        f"First, once: {shlex.join(('enroot', 'import', '-o', file, _enroot(target)))}",
        "PMIx reaches the container only if the cluster's enroot has its hook 50-slurm-pmi.sh.",
        "Submit it with sbatch, -p and -t for your partition and time.",
    )
    return way, PYXIS, before


def _enroot(target: Target) -> str:
    """Return enroot's notation: # behind the registry, and a digest instead of the tag (its docker.sh)."""
    if not target.registry:
        return f"dockerd://{target.image}"
    path, at, digest = target.image.removeprefix(f"{target.registry}/").partition("@")
    return f"docker://{target.registry}#" + (f"{path.partition(':')[0]}:{digest}" if at else path)
