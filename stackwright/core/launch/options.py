"""What a person wrote about the nodes, read with one notation each; all else is a UsageError."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TypedDict, Unpack

from stackwright.core.errors import UsageError
from stackwright.core.launch.recipe import Fabric, Host, Site

MOST_RANKS = 4096
WAYS = ("pyxis", "edf", "podman_hpc")
"""Fields of a ``Site``: ways into the container, without Apptainer."""

_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(
    rf"(?P<name>(?=.{{1,253}}(:|\Z)){_LABEL}(\.{_LABEL})*)(:(?P<slots>[0-9]{{1,4}}))?", re.ASCII
)
_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}", re.ASCII)
"""IFNAMSIZ of Linux is 16, with the final zero."""
_HCA = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,31}:[0-9]{1,3}", re.ASCII)
_PROVIDER = re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII)
_KEY = re.compile(r"[A-Za-z0-9_./~][A-Za-z0-9_./~-]{0,254}", re.ASCII)
"""Open MPI and horovodrun hand this to ssh without quotes."""
KEY_NOTATION = "a path of letters, digits and _ . / ~ -"
_FOLDER = re.compile(r"(/[A-Za-z0-9_+][A-Za-z0-9_.+-]{0,100}){1,20}", re.ASCII)
"""Apptainer reads ":" and "," in a bind as its own."""


def hosts(text: str) -> tuple[Host, ...]:
    """Read ``a:2,b:2``; a host without a number gets one rank. UsageError where it has another notation."""
    found = tuple(_host(part) for part in text.split(","))
    names = [host.name.lower() for host in found]
    double = next((name for name in names if names.count(name) > 1), None)
    if double:
        raise UsageError(f"--hosts names {double} twice", hint="give each host once, with all its ranks")
    if sum(host.slots for host in found) > MOST_RANKS:
        raise UsageError(f"--hosts asks for more than {MOST_RANKS} ranks", hint="use the cluster's scheduler")
    return found


def _host(text: str) -> Host:
    match = _HOST.fullmatch(text)
    if not match or (match["slots"] and int(match["slots"]) == 0):
        cause = f"--hosts: {text!r} is not a host name with a number of ranks"
        raise UsageError(cause, hint="write it as in --hosts node1:4,node2:4")
    return Host(name=match["name"], slots=int(match["slots"] or 1))


class NodeFields(TypedDict, total=False):
    """Fields of a ``Site`` as a person wrote them."""

    nodes: int
    per_node: int
    interface: str | None
    hca: str | None
    provider: str | None
    ssh_port: int
    ssh_key: str | None
    host_mpi: str | None
    pyxis: bool
    edf: bool
    podman_hpc: bool
    benchmark: bool
    link_speed: int | None


def site(*, hosts_text: str | None = None, fabric: str = Fabric.AUTO, **fields: Unpack[NodeFields]) -> Site:
    """Return the site that the options describe. Raise UsageError for the first one that is wrong."""
    described = Site(**fields, fabric=Fabric(fabric))
    for option, value, notation, what, example in (
        ("--interface", described.interface, _INTERFACE, "a network interface", "--interface eth0"),
        ("--hca", described.hca, _HCA, "a device of InfiniBand with its port", "--hca mlx5_0:1"),
        ("--provider", described.provider, _PROVIDER, "a provider of libfabric", "--provider efa"),
        ("--ssh-key", described.ssh_key, _KEY, KEY_NOTATION, "--ssh-key /keys/id_ed25519"),
        (
            "--host-mpi",
            described.host_mpi,
            _FOLDER,
            "a folder from the root on",
            "--host-mpi /opt/openmpi-5.0.7",
        ),
    ):
        if value is not None and not notation.fullmatch(value):
            raise UsageError(f"{option}: {value!r} is not {what}", hint=f"write it as in {example}")
    if described.hca and described.fabric is not Fabric.INFINIBAND:
        raise UsageError("--hca is about InfiniBand", hint="add --fabric infiniband")
    if described.provider and described.fabric is not Fabric.OFI:
        raise UsageError("--provider is about libfabric", hint="add --fabric ofi")
    if described.link_speed and not described.benchmark:
        raise UsageError("--link-speed is about what is measured", hint="add --benchmark")
    others = [name for name in WAYS if getattr(described, name)]
    ways = [f"--{name.replace('_', '-')}" for name in others]
    if described.host_mpi and ways:
        raise UsageError(f"--host-mpi is about Apptainer, and {ways[0]} is another way", hint="leave one out")
    if len(ways) > 1:
        raise UsageError(f"{' and '.join(ways)} are two ways into the container", hint="leave one out")
    return replace(described, hosts=hosts(hosts_text)) if hosts_text is not None else described


def suits(launcher: str, reads: frozenset[str], given: set[str]) -> None:
    """Raise UsageError where an option is missing that the launcher cannot do without, or means nothing to
    it."""
    foreign = sorted(given - reads)
    if foreign:
        options = ", ".join(f"--{name}" for name in sorted(reads))
        raise UsageError(f"--{foreign[0]} means nothing to --{launcher}", hint=f"it reads {options}")
    if "hosts" in reads and "hosts" not in given:
        raise UsageError(f"--{launcher} needs --hosts", hint="write it as in --hosts node1:4,node2:4")
