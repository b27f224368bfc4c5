"""What each rank runs before the training where GPUs of several nodes communicate over InfiniBand. It fails
where NCCL took TCP, and says so where NCCL could not be asked.

The recipes carry it, and the image's own Python runs it: it imports nothing but Python's own library, and
leaves Horovod to a process that it starts.
Usage: gpu_rank.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

DEVICE = "/dev/nvidiactl"
PATIENCE = 600
TAIL = 12
SUM = """
import importlib.util

name = next(name for name in ("torch", "tensorflow", "mxnet") if importlib.util.find_spec(name))
hvd = importlib.import_module("horovod." + name)
hvd.init()
if name == "torch":
    import torch
    torch.cuda.set_device(hvd.local_rank())
    hvd.allreduce(torch.ones(1, device="cuda"), name="fabric")
elif name == "tensorflow":
    import tensorflow as tf
    tf.config.set_visible_devices(tf.config.list_physical_devices("GPU")[hvd.local_rank()], "GPU")
    with tf.device("/GPU:0"):
        hvd.allreduce(tf.ones(1), name="fabric")
else:
    import mxnet as mx
    hvd.allreduce(mx.nd.ones(1, ctx=mx.gpu(hvd.local_rank())), name="fabric").wait_to_read()
hvd.shutdown()
"""
"""NCCL connects all ranks when it is used for the first time."""

CHANNEL = re.compile(r"NCCL INFO .* via NET/([^/\n]+)/")
NETWORK = re.compile(r"NCCL INFO Using network (.+?)\s*$", re.M)
SOCKET = "Socket"
"""NCCL's name of its way over TCP; others are IB, IBext_v8, AWS Libfabric: src/transport of its source."""


def ways(log: str) -> list[str]:
    """NCCL's names of the networks that it took; which lines there are differs between its releases."""
    return sorted({*CHANNEL.findall(log), *NETWORK.findall(log)})


def slow(found: list[str]) -> str:
    """What is wrong with the networks that one rank of several nodes took."""
    if not found:
        return (
            "fabric: NCCL does not tell which network it took; was NCCL_DEBUG_FILE set, or is there no NCCL?"
        )
    if SOCKET in found:
        return (
            "fell back to TCP: the site has a faster fabric, and NCCL takes NET/Socket. Next, in the "
            "container on a compute node: ls /dev/infiniband; ulimit -l (unlimited); ibv_devinfo, fi_info -l"
        )
    return ""


def asked() -> tuple[bool, str]:
    """Whether a sum over the GPUs of all ranks came back, and all that was written.

    NCCL is left to choose, so that it names what it would fall back to. Descriptors stay open: PMI_FD is one.
    """
    environment = {**os.environ, "NCCL_DEBUG": "INFO"}
    for name in ("NCCL_NET", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"):
        environment.pop(name, None)
    try:
        done = subprocess.run(
            [sys.executable, "-c", SUM], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=PATIENCE, close_fds=False, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return False, (late.stdout or b"").decode(errors="replace") + f"\nno sum after {PATIENCE} s"
    return done.returncode == 0, done.stdout.decode(errors="replace")


def main() -> str:
    """What is wrong, or nothing."""
    if not os.path.exists(DEVICE):  # noqa: PTH110 (as short as what is pasted should be)
        print("fabric: NCCL was not asked: the container sees no GPU", flush=True)
        return ""
    came, log = asked()
    found = ways(log)
    wrong = slow(found) if came or SOCKET in found else ""
    if not came and not wrong:
        wrong = "\n".join(["NCCL did not sum over the GPUs of all ranks:", *log.splitlines()[-TAIL:]])
    return wrong


if __name__ == "__main__":
    sys.exit(main() or None)
