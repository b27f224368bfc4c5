"""One rank of the benchmark: an allreduce of several sizes through Horovod and through torch.distributed,
in turn with a copy on the device, so that all three are measured in the same minute of the same process.

horovodrun starts it. Both ways are of NCCL on a GPU, and of Gloo on the CPU. Each measurement begins and
ends with an idle device, so that the time of a small one is its latency.
Usage: allreduce.py FOLDER cuda|cpu; leaves FOLDER/rank-R.json
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZES = {
    "cuda": (2**12, 2**16, 2**20, 2**24, 2**28, 2**30),
    "cpu": (2**12, 2**20),
}
"""Bytes of a tensor."""
ROUNDS = 20
WARM_UP = 3
"""The first calls of a size make communicators and buffers."""
SHARE = 8
"""A tensor is at most this part of the memory that is free."""


def measured(torch: Any, dist: Any, hvd: Any, size: int, device: str) -> dict[str, Any]:
    """Medians over rounds, in seconds. A lone rank has nothing to add, and in place NCCL would move nothing:
    there both sums go into another tensor, by which the data is copied. Several ranks add in place."""
    alone = hvd.size() == 1
    source, target = (torch.empty(size // 4, device=device) for _ in range(2))

    def copy() -> Any:
        return target.copy_(source)

    def by_horovod() -> Any:
        reduce, given = (hvd.allreduce, source) if alone else (hvd.allreduce_, target)
        return reduce(given, op=hvd.Sum, name=f"sum.{size}")

    def by_torch() -> Any:
        if alone:
            target.copy_(source)
        dist.all_reduce(target)
        return target

    seconds: dict[str, list[float]] = {"copy": [], "horovod": [], "torch_distributed": []}
    right = True
    for turn in range(WARM_UP + ROUNDS):
        for name, way in zip(seconds, (copy, by_horovod, by_torch), strict=True):
            source.fill_(hvd.rank() + 1.0)
            target.fill_(0.0 if alone else hvd.rank() + 1.0)
            dist.barrier()
            took, result = timed(way, torch, device)
            seconds[name] += [took] if turn >= WARM_UP else []
            right = right and (name == "copy" or correct(result, hvd.size()))
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    return {"bytes": size, "right": right, "seconds": medians}


def timed(way: Callable[[], Any], torch: Any, device: str) -> tuple[float, Any]:
    idle(torch, device)
    began = time.perf_counter()
    result = way()
    idle(torch, device)
    return time.perf_counter() - began, result


def idle(torch: Any, device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def correct(tensor: Any, ranks: int) -> bool:
    wanted = ranks * (ranks + 1) / 2
    return bool(tensor.min() == wanted and tensor.max() == wanted)


def fitting(sizes: tuple[int, ...], free: int) -> tuple[int, ...]:
    return tuple(size for size in sizes if size * SHARE <= free)


def main(folder: Path, device: str) -> None:
    torch, dist, hvd = map(importlib.import_module, ("torch", "torch.distributed", "horovod.torch"))
    hvd.init()
    sizes = SIZES[device]
    if device == "cuda":
        torch.cuda.set_device(hvd.local_rank())
        free = torch.tensor([torch.cuda.mem_get_info()[0]])
        sizes = fitting(sizes, int(hvd.allreduce(free, op=hvd.Min, name="free")))
    dist.init_process_group(
        {"cuda": "nccl", "cpu": "gloo"}[device], init_method=f"file://{folder}/store", rank=hvd.rank(),
        world_size=hvd.size(),
    )  # fmt: skip
    found = [measured(torch, dist, hvd, size, device) for size in sizes]
    answer = {"rank": hvd.rank(), "size": hvd.size(), "device": device, "rounds": ROUNDS, "sizes": found}
    (folder / f"rank-{hvd.rank()}.json").write_text(json.dumps(answer, indent=1, sort_keys=True))
    dist.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
