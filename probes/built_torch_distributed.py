"""What torch.distributed was compiled with, and the libraries that it loads.

Runs inside the image with the image's own Python and imports nothing of Stackwright.
Usage: built_torch_distributed.py FACTS.json torch_distributed
"""

import json
import os
import re
import sys
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""

import built


def available(distributed):
    """The backends that say that they are there."""
    asked = ("nccl", "gloo", "mpi", "ucc")
    found = {name: getattr(distributed, "is_%s_available" % name, None) for name in asked}
    return {name: bool(ask()) if ask else None for name, ask in found.items()}


def configured(torch):
    """What PyTorch notes of its build: USE_NCCL=1 or USE_NCCL=ON, by name in lower case."""
    noted = re.findall(r"\bUSE_(NCCL|GLOO|MPI|UCC)=(\w+)", torch.__config__.show())
    return {name.lower(): value in ("1", "ON") for name, value in noted}


def without_gpu(distributed):
    """What the backend of NCCL says where there is no GPU; None where it starts."""
    with tempfile.TemporaryDirectory() as folder:
        where = "file://" + os.path.join(folder, "store")
        try:
            distributed.init_process_group("nccl", init_method=where, rank=0, world_size=1)
        except Exception as error:
            return "%s: %s" % (type(error).__name__, str(error).split("\n")[0])
        distributed.destroy_process_group()
    return None


def main():
    import torch
    from torch import distributed

    if not distributed.is_available():
        return {"error": "torch.distributed is not available"}
    libraries = built.libraries()  # before NCCL is asked for: those that the import alone loads
    return {
        "version": torch.__version__,
        "available": available(distributed),
        "configured": configured(torch),
        "nccl": list(torch.cuda.nccl.version()),
        "nccl_without_gpu": without_gpu(distributed),
        "libraries": libraries,
    }


if __name__ == "__main__":
    facts = main()
    with open(sys.argv[1], "w") as handle:
        json.dump(facts, handle, indent=1, sort_keys=True)
