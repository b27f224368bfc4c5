"""One rank of an allreduce by torch.distributed's NCCL on the GPU, and what PyTorch sees of the device.

Runs inside the image with the image's own Python, only where a GPU was given to the container, and imports
nothing of Stackwright. mpirun starts it.
Usage: gpu_torch_distributed.py FOLDER torch_distributed; leaves FOLDER/rank-R-of-N-PID.json
"""

import os
import sys

devices = os.environ.get("CUDA_VISIBLE_DEVICES")

from collective import leave  # noqa: E402 (it hides the devices from what comes after)

if devices is None:
    del os.environ["CUDA_VISIBLE_DEVICES"]
else:
    os.environ["CUDA_VISIBLE_DEVICES"] = devices

from collective_torch_distributed import LIMIT, place  # noqa: E402
from gpu import WIDTH, driver_version  # noqa: E402


def main(folder):
    import torch
    import torch.distributed as dist

    _, rank, size, local_rank, _ = place()
    torch.cuda.set_device(local_rank)
    where = "tcp://127.0.0.1:" + os.environ["MASTER_PORT"]
    dist.init_process_group("nccl", init_method=where, rank=rank, world_size=size, timeout=LIMIT)
    given = [float((rank + 1) * 10**digit) for digit in range(WIDTH)]
    total = torch.tensor(given, device="cuda")
    dist.all_reduce(total)
    cuda, driver = driver_version()
    capabilities = [torch.cuda.get_device_capability(index) for index in range(torch.cuda.device_count())]
    facts = {
        "rank": rank, "size": dist.get_world_size(), "given": given, "sum": total.tolist(),
        "device": total.device.type, "capabilities": ["%d.%d" % pair for pair in capabilities],
        "architectures": torch.cuda.get_arch_list(), "driver_cuda": cuda, "driver": driver,
    }  # fmt: skip
    dist.destroy_process_group()
    leave(folder, facts)


if __name__ == "__main__":
    main(sys.argv[1])
