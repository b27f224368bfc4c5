"""One rank of an NCCL allreduce on the GPU, and what the framework sees of the device.

Runs inside the image with the image's own Python, only where a GPU was given to the container, and
imports nothing of Stackwright. With fewer GPUs than ranks NCCL cannot run, so N is the number of GPUs.
Usage: gpu.py FOLDER EXTENSION; leaves FOLDER/rank-R-of-N-PID.json
"""

import ctypes
import importlib
import json
import os
import sys

WIDTH = 4


def driver_version():
    """CUDA version that the driver offers, as in 12040, and the driver's own version."""
    value = ctypes.c_int(0)
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(value))
    with open("/proc/driver/nvidia/version") as handle:
        return value.value, handle.readline().strip()


def with_torch(hvd, given):
    import torch

    torch.cuda.set_device(hvd.local_rank())
    result = hvd.allreduce(torch.tensor(given, device="cuda"), op=hvd.Sum, name="sum")
    devices = [torch.cuda.get_device_capability(index) for index in range(torch.cuda.device_count())]
    found = ["%d.%d" % pair for pair in devices]
    return result.tolist(), result.device.type, found, torch.cuda.get_arch_list()


def with_tensorflow(hvd, given):
    import tensorflow as tf

    devices = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices(devices[hvd.local_rank()], "GPU")
    with tf.device("/GPU:0"):
        result = hvd.allreduce(tf.constant(given), op=hvd.Sum, name="sum")
    details = [tf.config.experimental.get_device_details(device) for device in devices]
    found = ["%d.%d" % detail["compute_capability"] for detail in details]
    kind = "cuda" if "GPU" in result.device else result.device
    built_for = tf.sysconfig.get_build_info().get("cuda_compute_capabilities")
    return result.numpy().tolist(), kind, found, built_for


def with_mxnet(hvd, given):
    import mxnet as mx

    result = hvd.allreduce(mx.nd.array(given, ctx=mx.gpu(hvd.local_rank())), average=False, name="sum")
    kind = "cuda" if result.context.device_type == "gpu" else result.context.device_type
    return result.asnumpy().tolist(), kind, ["?"] * mx.context.num_gpus(), None


FRAMEWORKS = {"torch": with_torch, "tensorflow": with_tensorflow, "mxnet": with_mxnet}


def main(extension):
    hvd = importlib.import_module("horovod." + extension)
    hvd.init()
    given = [float((hvd.rank() + 1) * 10**place) for place in range(WIDTH)]
    result, device, capabilities, architectures = FRAMEWORKS[extension](hvd, given)
    cuda, driver = driver_version()
    facts = {
        "rank": hvd.rank(), "size": hvd.size(), "given": given, "sum": result, "device": device,
        "capabilities": capabilities, "architectures": architectures,
        "nccl": int(hvd.nccl_built()), "driver_cuda": cuda, "driver": driver,
    }  # fmt: skip
    hvd.shutdown()
    return facts


if __name__ == "__main__":
    facts = main(sys.argv[2])
    name = "rank-%d-of-%d-%d.json" % (facts["rank"], facts["size"], os.getpid())
    with open(os.path.join(sys.argv[1], name), "w") as handle:
        json.dump(facts, handle, indent=1, sort_keys=True)
