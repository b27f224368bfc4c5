"""What each rank runs before the training. It fails where the ranks are not one world of as many as were
started, and where messages between nodes go by TCP although the site said InfiniBand.

The recipes carry it, and the image's own Python runs it: it imports nothing but Python's own library.
Usage: rank.py RANKS FABRIC, where FABRIC may be followed by = and a provider of libfabric
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import sys
import tempfile
import time

INFINIBAND, OFI = "infiniband", "ofi"
"""On a site with one, nothing may go by TCP between nodes; with "auto" and "tcp" it may."""
LIBRARIES = ("libmpi.so.40", "libmpich.so.12", "libmpi.so.12")
"""Open MPI 4 and 5; Debian's MPICH; the name that MPICH's ABI has elsewhere, as when it is bound in."""
MPICH_COMM_WORLD, MPICH_BYTE = 0x44000000, 0x4C00010D
"""https://www.mpich.org/abi/: its handles are integers. Open MPI's are addresses of objects."""
NAME = 256
"""MPI_MAX_PROCESSOR_NAME of Open MPI; MPICH's is less."""
BLOCK = 1024
"""Bytes from each rank to each: with 200 or fewer some algorithms go by way of other ranks."""
PATIENCE = 300
TAIL = 12
"""Lines of what MPI wrote that are shown where it failed."""

SAY = {
    "UCX_LOG_LEVEL": "info", "OMPI_MCA_pml_base_verbose": "10", "OMPI_MCA_bml_base_verbose": "100",
    "OMPI_MCA_btl_base_verbose": "10", "OMPI_MCA_mtl_base_verbose": "10",
    "OMPI_MCA_opal_common_ofi_verbose": "1",
}  # fmt: skip
"""Lets MPI tell on stderr which way it took."""
CHOOSE = {"OMPI_MCA_pml": "^v", "OMPI_MCA_pml_ucx_devices": "any"}
FORCED = ("UCX_TLS", "UCX_NET_DEVICES")
"""MPI is left to choose, so that it names what it would fall back to; forced, it would end without a word."""

ALONE = (
    "the container's MPI did not reach what started it. Next, with srun: srun --mpi=list; Open MPI needs "
    "--mpi=pmix, MPICH --mpi=pmi2; the container must see the host's /tmp and the variables PMIX_* and PMI_* "
    "(no --containall, no --cleanenv)"
)
REFUSES = re.compile(r"direct launched using .srun.|SLURM's PMI")
"""Open MPI 4 does not start where it sees srun and no PMI; 5 and MPICH start alone."""

UCX = re.compile(r"UCX +INFO .*?(?:(self|intra-node|inter-node) cfg#\d+ ?|ep_cfg\[\d+\]: )\w+\(([^\s)]+)")
"""The first lane is the fastest. Until 1.12 UCX does not say to which side; then it shows by the lane."""
ONE_NODE = ("self", "sysv", "posix", "cma", "knem", "xpmem", "sm", "vader", "smcuda")
BTL = re.compile(r"\[([^\]:]+):\d+\] mca: bml: Using (\w+) btl for send to \[\S+ on node (\S+)")
MTL = re.compile(r"mtl:ofi:prov(?:ider)?: (\S+)|select:\( *mtl\) Selected component \[(\w+)\]")
PML = re.compile(r"select: component (\w+) selected")
TCP = re.compile(r"(tcp|udp|sockets|net)\b")
NEXT = {
    INFINIBAND: "ls /dev/infiniband; ulimit -l (unlimited); ucx_info -d",
    OFI: "fi_info -l; ulimit -l (unlimited); --provider NAME takes one alone",
}


def fault(asked: int, size: int) -> str:
    """What is wrong where ``asked`` ranks were started and one of them is in a world of ``size``."""
    if size == asked:
        return ""
    if size != 1:
        return f"wrong world: {asked} ranks were started, and this one sees {size}"
    return f"singleton trap: {asked} ranks were started, and each is rank 0 of 1: {ALONE}"


def ways(log: str) -> list[str]:
    """By what MPI sends to other nodes, as it says itself: ["tcp/eth0"], ["rc_mlx5/mlx5_0:1"], ["psm2"]."""
    chosen = PML.findall(log)[-1:]
    if chosen == ["ob1"]:
        found = {
            btl for here, btl, there in BTL.findall(log)
            if btl not in ONE_NODE and here.partition(".")[0] != there.partition(".")[0]
        }  # fmt: skip
    elif chosen == ["cm"]:
        every = (provider or component for provider, component in MTL.findall(log))
        found = {way for way in every if way != "ofi"}  # which may be anything
    else:
        lanes = UCX.findall(log)
        found = {
            lane for side, lane in lanes
            if side == "inter-node" or (not side and lane.partition("/")[0] not in ONE_NODE)
        }  # fmt: skip
    return sorted(found)


def slow(site: str, nodes: int, found: list[str]) -> str:
    """What is wrong with the ways between nodes on a site with this fabric."""
    fabric, _, provider = site.partition("=")
    if fabric not in (INFINIBAND, OFI) or nodes < 2:
        return ""
    if not found:
        return (
            f"fabric: the site says {fabric}, and MPI does not tell by what it reaches the other nodes. "
            "Open MPI and MPICH over UCX do; with another MPI leave out --fabric"
        )
    if provider:
        others = [way for way in found if provider not in re.split("[;/]", way)]
        said = f"fabric: the site says {provider}, and MPI reaches other nodes by {', '.join(others)}"
        return said if others else ""
    if by := [way for way in found if TCP.match(way)]:
        return (
            f"fell back to TCP: the site says {fabric}, and MPI reaches other nodes by {', '.join(by)}. "
            f"Next, in the container on a compute node: {NEXT[fabric]}"
        )
    return ""


def exchange() -> dict[str, int]:
    """Send from each rank to each, as the library does that the training would load."""
    for name in LIBRARIES:
        try:
            mpi = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
            break
        except OSError as error:
            missing = error
    else:
        sys.exit(f"no MPI in the container: {missing}")
    open_mpi = hasattr(mpi, "ompi_mpi_comm_world")
    comm = mpi.ompi_mpi_comm_world if open_mpi else ctypes.c_int(MPICH_COMM_WORLD)
    byte = mpi.ompi_mpi_byte if open_mpi else ctypes.c_int(MPICH_BYTE)
    rank, size, length = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if mpi.MPI_Init(None, None) or mpi.MPI_Comm_size(comm, ctypes.byref(size)):
        sys.exit("MPI cannot be asked for the size of its world")
    mpi.MPI_Comm_rank(comm, ctypes.byref(rank))
    own, every = ctypes.create_string_buffer(NAME), ctypes.create_string_buffer(NAME * size.value)
    mpi.MPI_Get_processor_name(own, ctypes.byref(length))
    given, taken = (ctypes.create_string_buffer(BLOCK * size.value) for _ in range(2))
    if (
        mpi.MPI_Allgather(own, NAME, byte, every, NAME, byte, comm)
        or mpi.MPI_Alltoall(given, BLOCK, byte, taken, BLOCK, byte, comm)
        or mpi.MPI_Finalize()
    ):
        sys.exit("MPI cannot send from each rank to each")
    hosts = {every.raw[at : at + NAME].partition(b"\0")[0] for at in range(0, len(every) - 1, NAME)}
    return {"rank": rank.value, "size": size.value, "nodes": len(hosts)}


def asked(fabric: str) -> tuple[dict[str, int], str]:
    """Return the result of the exchange in a separate process, and all that MPI wrote meanwhile."""
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as log:
        child = os.fork()
        if child == 0:
            os.environ.update({**SAY, **CHOOSE} if fabric == INFINIBAND else SAY)
            for name in ("UCX_LOG_FILE", *(FORCED if fabric == INFINIBAND else ())):
                os.environ.pop(name, None)
            with contextlib.suppress(BaseException):
                child_main(answer.fileno(), log.fileno())
            os._exit(1)
        end = time.monotonic() + PATIENCE
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                log.write(f"no message from each rank to each in {PATIENCE} s\n".encode())
                break
            time.sleep(0.02)
        texts = []
        for file in (answer, log):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return (json.loads(texts[0]) if texts[0] else {}), texts[1]


def child_main(answer: int, log: int) -> None:
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        os.write(answer, json.dumps(exchange()).encode())
    except SystemExit as ended:
        os.write(log, f"{ended}\n".encode())


def main(ranks: int, fabric: str) -> str:
    """What is wrong, or nothing."""
    found, log = asked(fabric)
    if not found:
        alone = f"singleton trap: {ranks} ranks were started, and none finds another: {ALONE}"
        first = alone if REFUSES.search(log) else "MPI did not start:"
        return "\n".join([first, *log.splitlines()[-TAIL:]])
    between = ways(log)
    wrong = fault(ranks, found["size"]) or slow(fabric, found["nodes"], between)
    if not wrong and found["rank"] == 0 and found["nodes"] > 1:
        way = ", ".join(between) or "a way that it does not tell"
        print(f"fabric: MPI goes between {found['nodes']} nodes by {way}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]) or None)
