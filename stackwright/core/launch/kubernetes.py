"""An MPIJob (kubeflow.org/v2beta1) for the MPI Operator: a launcher and workers, connected by ssh.

What the operator does is read from its own pkg/controller/mpi_job_controller.go and examples/v2beta1/pi:
it mounts the job's keys (id_rsa, authorized_keys) in sshAuthMountPath and the list of hosts in /etc/mpi, sets
OMPI_MCA_orte_default_hostfile, which is not the name of Open MPI 5, and HYDRA_HOST_FILE.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stackwright.core.launch.fabric import RANKS_WHY, SHM_WHY
from stackwright.core.launch.mpirun import mpich_options, mpich_ssh, openmpi_options, proven
from stackwright.core.launch.recipe import Fabric, Line, Manifest, Option, Site, Target
from stackwright.core.model.row import MpiFlavour
from stackwright.core.model.target import CUDA

WHEN = (
    "on Kubernetes with Kubeflow's MPI Operator, which makes keys, starts the workers and then mpirun; "
    "the image has to be in a registry that the cluster reaches"
)
IMPLEMENTATION = {MpiFlavour.OPENMPI: "OpenMPI", MpiFlavour.MPICH: "MPICH"}
USER = 1000
"""Of the image, where its row names no other."""
KEYS = "/home/train/.ssh"
HOSTFILE = "/etc/mpi/hostfile"

SETTINGS = (
    ("mpiImplementation", "which notation the operator writes the list of hosts in"),
    ("slotsPerWorker", "how many ranks on each worker: one per GPU"),
    ("sshAuthMountPath", "where the image's user has its keys, which the operator makes for this job"),
    ("launcherCreationPolicy: WaitForWorkersReady", "else mpirun fails as long as no worker lets it in"),
    ("cleanPodPolicy: Running", "workers go when mpirun has ended"),
    ("restartPolicy: Never", "what failed stays with its log; restarted in place it goes after the last try"),
    ("sshd-as-user", "the worker's container: an SSH server without root, for the operator's key"),
    (CUDA.device, f"needs {CUDA.vendor}'s device plugin on the cluster"),
    ("emptyDir of memory in /dev/shm", SHM_WHY),
)  # fmt: skip

FABRIC = (
    "rdma/hca_shared_devices_a",
    "InfiniBand from the RDMA shared device plugin: the name is that of your cluster (kubectl describe node)",
)


def kubernetes(target: Target, site: Site, command: tuple[str, ...]) -> Manifest:
    settings = (*_settings(target, site), *SETTINGS, *((FABRIC,) if site.fabric is Fabric.INFINIBAND else ()))
    document = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": _name(target.row)},
        "spec": {
            "mpiImplementation": IMPLEMENTATION[target.mpi.flavour],
            "slotsPerWorker": site.per_node,
            "sshAuthMountPath": KEYS,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": {"cleanPodPolicy": "Running"},
            "mpiReplicaSpecs": {
                "Launcher": _replicas(1, target, _launcher(target, site, command)),
                "Worker": _replicas(site.nodes, target, _worker(target, site), volumes=[SHARED_MEMORY]),
            },
        },
    }
    return Manifest(document=document, settings=settings, when=WHEN, before=tuple(_before(target, site)))


def _before(target: Target, site: Site) -> Iterator[str]:
    if not target.registry:
        yield f"First push {target.image} to your registry and name it so below: this name is Docker Hub's."
    if site.fabric is Fabric.INFINIBAND:
        yield "RDMA locks memory: containerd needs LimitMEMLOCK=infinity, as IPC_LOCK helps no user but root."
    if site.fabric is Fabric.OFI:
        yield "Add the fabric's resource to the worker's limits, by its device plugin's name on your cluster."
    yield "kubectl apply -f this file"


def _name(row: str) -> str:
    """Return a row's name as a label of DNS (RFC 1035), which the operator makes the workers' names of."""
    kept = re.sub(r"[^a-z0-9]+", "-", row.lower()).strip("-")
    return (kept if kept[:1].isalpha() else f"row-{kept}")[:40].rstrip("-")


def _options(target: Target, site: Site) -> tuple[Option, ...]:
    """Of mpirun."""
    hosts = "-f" if target.mpi.flavour is MpiFlavour.MPICH else "--hostfile"
    counted = (
        Option(("-np", str(site.ranks)), RANKS_WHY),
        Option((hosts, HOSTFILE), "the workers, as the operator lists them"),
    )
    if target.mpi.flavour is MpiFlavour.MPICH:
        return (*counted, *mpich_options(target, site))
    modern = target.mpi_major >= 5
    keep = "--prtemca prte_keep_fqdn_hostnames 1" if modern else "--mca orte_keep_fqdn_hostnames 1"
    domain = Option(tuple(keep.split()), "a worker's name is known only with that of the job behind it")
    return (*counted, domain, *openmpi_options(target, site))


def _settings(target: Target, site: Site) -> tuple[tuple[str, str], ...]:
    return tuple((str(option), option.why) for option in _options(target, site))


def _launcher(target: Target, site: Site, command: tuple[str, ...]) -> dict[str, Any]:
    line = proven(Line(program="mpirun", options=_options(target, site), command=command, when=WHEN), site)
    container: dict[str, Any] = {
        "name": "launcher",
        "image": target.image,
        "command": [_literal(word) for word in (("bash", "-c", line.text) if line.proofs else line.argv)],
    }
    if target.mpi.flavour is MpiFlavour.MPICH:
        ssh = mpich_ssh(site)
        container["env"] = [{"name": ssh.name, "value": ssh.value}]
    return container


def _literal(word: str) -> str:
    """Return a word that Kubernetes hands on as it is: it puts values in place of $(NAME), and $ in that of
    $$."""
    return word.replace("$", "$$") if re.search(r"\$(\$|\([-._a-zA-Z0-9]+\))", word) else word


def _worker(target: Target, site: Site) -> dict[str, Any]:
    limits: dict[str, int] = {CUDA.device: site.per_node}
    if site.fabric is Fabric.INFINIBAND:
        limits[FABRIC[0]] = 1
    return {
        "name": "worker",
        "image": target.image,
        "command": ["sshd-as-user", str(site.ssh_port)],
        "readinessProbe": {"tcpSocket": {"port": site.ssh_port}},
        "resources": {"limits": limits},
        "volumeMounts": [{"name": "shared-memory", "mountPath": "/dev/shm"}],  # noqa: S108
    }


SHARED_MEMORY = {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}


def _replicas(
    count: int, target: Target, container: Mapping[str, Any], volumes: list[Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    pod: dict[str, Any] = {"securityContext": _user(target), "containers": [container]}
    if volumes:
        pod["volumes"] = volumes
    return {"replicas": count, "restartPolicy": "Never", "template": {"spec": pod}}


def _user(target: Target) -> dict[str, int]:
    """Return the image's user by number, which Kubernetes can tell from root's."""
    uid, _, gid = target.user.partition(":")
    return {"runAsUser": int(uid), "runAsGroup": int(gid)} if uid else {"runAsUser": USER}
