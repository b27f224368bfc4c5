"""One rank of torch.distributed by Gloo, on the CPU: collectives, DDP, FSDP and fully_shard.

Runs inside the image with the image's own Python and imports nothing of Stackwright. Something else starts N
of these: torchrun, mpirun, or processes with the variables that srun sets. Each finds its place in the world
as a training would.
Usage: collective_torch_distributed.py FOLDER torch_distributed; leaves FOLDER/rank-R-of-N-PID.json
"""

import datetime
import os
import sys

import collective
from collective import RATE, ROOT, STEPS, WIDTH, given, rows, samples

PLACES = (
    # launcher, variables of the rank, of the size, of the rank on its node, and of the ranks there
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("mpi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
)  # fmt: skip
LIMIT = datetime.timedelta(seconds=60)
"""A rank that waits longer for another one ends."""


def place():
    """The launcher, the rank, the size of the world, and both on the node: of the first that has set them."""
    for launcher, *names in PLACES:
        if all(name in os.environ for name in names):
            return (launcher, *(int(os.environ[name]) for name in names))
    raise RuntimeError("no launcher set the variables of a rank")


def collectives(torch, dist, rank, size):
    total = torch.tensor(given(rank))
    dist.all_reduce(total)
    sent = torch.tensor(given(rank))
    dist.broadcast(sent, src=ROOT)
    return {
        "sum": total.tolist(),
        "average": (total / size).tolist(),
        "broadcast": sent.tolist(),
        "allgather": uneven(torch, dist, torch.tensor(rows(rank)), size).tolist(),
    }


def uneven(torch, dist, part, size):
    """Parts of different length: Gloo gathers equal ones, so each is filled up, and cut again."""
    lengths = [torch.zeros(1, dtype=torch.long) for _ in range(size)]
    dist.all_gather(lengths, torch.tensor([len(part)]))
    most = int(max(lengths))
    filled = torch.cat([part, torch.zeros(most - len(part), part.shape[1])])
    gathered = [torch.zeros(most, part.shape[1]) for _ in range(size)]
    dist.all_gather(gathered, filled)
    return torch.cat([one[: int(length)] for one, length in zip(gathered, lengths)])


def fresh(torch, rank):
    """A model with other weights on each rank."""
    torch.manual_seed(rank)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def flat(torch, tensors):
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).tolist()


def same_start(dist, model):
    for one in model.state_dict().values():
        dist.broadcast(one, src=ROOT)


def train(torch, model, rank):
    """Losses over the rank's own data."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    inputs, targets = (torch.tensor(part) for part in samples(rank))
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def with_ddp(torch, dist, rank):
    """DDP itself sends the first weights from rank 0."""
    model = fresh(torch, rank)
    before = flat(torch, model.parameters())
    losses = train(torch, torch.nn.parallel.DistributedDataParallel(model), rank)
    return {"before": before, "after": flat(torch, model.parameters()), "losses": losses}


def with_fsdp(torch, dist, rank):
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = fresh(torch, rank)
    before = flat(torch, model.parameters())
    same_start(dist, model)
    sharded = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
    held = sum(parameter.numel() for parameter in sharded.parameters())
    losses = train(torch, sharded, rank)
    with FullyShardedDataParallel.summon_full_params(sharded):
        after = flat(torch, sharded.parameters())
    return {"before": before, "after": after, "losses": losses, "held": held}


def with_fully_shard(torch, dist, rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = fresh(torch, rank)
    before = flat(torch, model.parameters())
    same_start(dist, model)
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    held = sum(parameter.to_local().numel() for parameter in model.parameters())
    losses = train(torch, model, rank)
    after = flat(torch, [parameter.full_tensor() for parameter in model.parameters()])
    return {"before": before, "after": after, "losses": losses, "held": held}


SHARDED = {"fsdp": with_fsdp, "fully_shard": with_fully_shard}


def sharded(torch, dist, rank):
    """Both ways to shard; a release may lack one on the CPU, and its error says so."""
    found = {}
    for name, run in SHARDED.items():
        try:
            found[name] = dict(run(torch, dist, rank), error=None)
        except Exception as error:
            found[name] = {"error": "%s: %s" % (type(error).__name__, error)}
        dist.barrier()
    return found


def main(folder):
    """Write facts step by step: the world that a failed rank saw explains most failures."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    launcher, rank, size, local_rank, local_size = place()
    where = "tcp://127.0.0.1:%s" % os.environ["MASTER_PORT"] if launcher != "torchrun" else "env://"
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=size, timeout=LIMIT)
    facts = {
        "rank": dist.get_rank(), "size": dist.get_world_size(),
        "local_rank": local_rank, "local_size": local_size, "launched_by": launcher,
        "root": ROOT, "given": given(rank), "rows": rows(rank), "data": samples(rank)[0][0], "error": None,
    }  # fmt: skip
    try:
        facts.update(collectives(torch, dist, rank, size))
        facts["training"] = with_ddp(torch, dist, rank)
        facts["sharded"] = sharded(torch, dist, rank)
        dist.destroy_process_group()
    except Exception as error:
        facts["error"] = "%s: %s" % (type(error).__name__, error)
        raise
    finally:
        collective.leave(folder, facts)


if __name__ == "__main__":
    main(sys.argv[1])
