"""What is known of torch.distributed on a CPU. Data only."""

from __future__ import annotations

from stackwright.core.facts.provenance import documented, read, unchecked

LAUNCHERS = ("torchrun", "mpi", "srun")
"""What the collective probe starts ranks with; srun: by the variables that it sets."""

NEEDED = ("nccl", "gloo")
"""Backends without which a row with torch.distributed has no use."""

WITHOUT_GPU = "ProcessGroupNCCL is only supported with GPUs, no GPUs found!"
"""What the NCCL backend says where there is no GPU (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp)."""

FULLY_SHARD = "2.7"
FULLY_SHARD_TRIED = read(
    "the wheels of PyTorch 2.6.0, 2.7.0, 2.7.1 and 2.8.0, each with two ranks by Gloo: fully_shard trains on "
    "a CPU from 2.7.0 on; 2.6.0 raises 'Stream' object has no attribute 'record_event'",
    "2026-11-22",
)
"""From which release ``fully_shard`` trains on a CPU; FSDP does in all of them."""

OLDEST = "2.6"
UNTRIED = unchecked("the probe of torch.distributed with PyTorch before 2.6", "2026-11-22")

PART = documented("PyTorch, docs/source/distributed.md: wheels for Linux have NCCL and Gloo", "2026-11-22")
