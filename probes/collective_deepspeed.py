"""One rank of DeepSpeed by Gloo, on the CPU: collectives, and a training in each stage of ZeRO.

Runs inside the image with the image's own Python and imports nothing of Stackwright. mpirun or torchrun
starts N of these.
Usage: collective_deepspeed.py FOLDER deepspeed; leaves FOLDER/rank-R-of-N-PID.json
"""

import os
import sys

os.environ["DS_ACCELERATOR"] = "cpu"

from collective import RATE, ROOT, SAMPLES, STEPS, given, leave, rows, samples
from collective_torch_distributed import LIMIT, collectives, flat, fresh, place, same_start

STAGES = (1, 2, 3)


def start(deepspeed):
    """Join the world by the variables that DeepSpeed reads, whatever started this rank.

    Its operator for shared memory would be compiled first, which takes a minute: without it Gloo does it all.
    """
    deepspeed.ops.__compatible_ops__ = {}
    launcher, rank, size, local_rank, local_size = place()
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    os.environ.update(dict(zip(names, map(str, (rank, size, local_rank, local_size)))))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False, verbose=False, timeout=LIMIT)
    return launcher, local_rank, local_size


def train(torch, deepspeed, dist, stage, rank):
    model = fresh(torch, rank)
    before = flat(torch, model.parameters())
    same_start(dist, model)
    settings = {
        "train_micro_batch_size_per_gpu": SAMPLES,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    engine, optimizer, _, _ = deepspeed.initialize(
        model=model, optimizer=optimizer, config=settings, dist_init_required=False
    )
    inputs, targets = (torch.tensor(part) for part in samples(rank))
    losses = []
    for _ in range(STEPS):
        loss = torch.nn.functional.mse_loss(engine(inputs), targets)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    weights = list(model.parameters())
    if stage == 3:
        with deepspeed.zero.GatheredParameters(weights):
            after = flat(torch, weights)
    else:
        after = flat(torch, weights)
    return {"before": before, "after": after, "losses": losses, "optimizer": type(optimizer).__name__}


def main(folder):
    import deepspeed
    import torch

    torch.set_num_threads(1)
    launcher, local_rank, local_size = start(deepspeed)
    dist = deepspeed.comm
    rank, size = dist.get_rank(), dist.get_world_size()
    facts = {
        "rank": rank, "size": size, "local_rank": local_rank, "local_size": local_size,
        "launched_by": launcher, "root": ROOT, "given": given(rank), "rows": rows(rank),
        "data": samples(rank)[0][0], "error": None,
    }  # fmt: skip
    try:
        facts.update(collectives(torch, dist, rank, size))
        facts["zero"] = {str(stage): train(torch, deepspeed, dist, stage, rank) for stage in STAGES}
        facts["training"] = facts["zero"]["1"]
        dist.destroy_process_group()
    except Exception as error:
        facts["error"] = "%s: %s" % (type(error).__name__, error)
        raise
    finally:
        leave(folder, facts)


if __name__ == "__main__":
    main(sys.argv[1])
