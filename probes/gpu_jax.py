"""One rank of a sum over processes by JAX's NCCL on the GPU, and what JAX sees of the device.

Runs inside the image with the image's own Python, only where a GPU was given to the container, and imports
nothing of Stackwright. mpirun starts it. It was written without a GPU and was never run on one.
Usage: gpu_jax.py FOLDER jax; leaves FOLDER/rank-R-of-N-PID.json
"""

import os
import sys

devices = os.environ.get("CUDA_VISIBLE_DEVICES")

import collective_jax  # noqa: E402 (it hides the devices from what comes after, and takes the CPU)

os.environ["JAX_PLATFORMS"] = "cuda"
del os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"]
if devices is None:
    del os.environ["CUDA_VISIBLE_DEVICES"]
else:
    os.environ["CUDA_VISIBLE_DEVICES"] = devices

from collective import leave  # noqa: E402
from collective_torch_distributed import place  # noqa: E402
from gpu import WIDTH, driver_version  # noqa: E402


def main(folder):
    import jax

    launcher, rank, size, local_rank, _ = place()
    collective_jax.connect(jax, launcher, rank, size, local_device_ids=[local_rank])
    given = [float((rank + 1) * 10**digit) for digit in range(WIDTH)]
    total = collective_jax.World(jax).over(lambda one: jax.lax.psum(one, collective_jax.AXIS))
    cuda, driver = driver_version()
    facts = {
        "rank": rank, "size": jax.process_count(), "given": given, "sum": total(given).tolist(),
        "device": "cuda" if jax.default_backend() == "gpu" else jax.default_backend(),
        "capabilities": [one.compute_capability for one in jax.local_devices()],
        "architectures": None, "driver_cuda": cuda, "driver": driver,
    }  # fmt: skip
    jax.distributed.shutdown()
    leave(folder, facts)


if __name__ == "__main__":
    main(sys.argv[1])
