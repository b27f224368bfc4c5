"""PyTorch's DistributedDataParallel on drawn digits, on any number of ranks, without Horovod.

    torchrun --nproc-per-node 2 torch_distributed_mnist.py
    mpirun -np 2 --bind-to none python torch_distributed_mnist.py
    srun python torch_distributed_mnist.py

Over several nodes mpirun and srun need MASTER_ADDR, the name of the first node; torchrun sets it.
"""

import os

import torch
import torch.distributed as dist
from torch import nn

import common
import digits

PLACES = (
    # what sets them: torchrun, mpirun of Open MPI, mpirun of MPICH, srun
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
)  # fmt: skip


class Ranks:
    """The place of this process in the world, by the variables of what started it."""

    def __init__(self):
        names = next(names for names in PLACES if all(name in os.environ for name in names))
        self._rank, self._size, self._local_rank, self._local_size = (int(os.environ[name]) for name in names)

    def rank(self):
        return self._rank

    def size(self):
        return self._size

    def local_rank(self):
        return self._local_rank

    def local_size(self):
        return self._local_size


def network():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 5 * 5, 128), nn.ReLU(), nn.Linear(128, digits.CLASSES),
    )  # fmt: skip


def loader(ranks, count, seed, batch_size, shuffle):
    images, labels = digits.shard(count, seed, ranks.rank(), ranks.size())
    images = torch.from_numpy(images).permute(0, 3, 1, 2)  # PyTorch wants the channel first
    data = torch.utils.data.TensorDataset(images, torch.from_numpy(labels))
    return torch.utils.data.DataLoader(data, batch_size=batch_size, shuffle=shuffle)


def train_epoch(model, optimizer, batches, device):
    """Return the loss of the last batch."""
    model.train()
    for images, labels in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
    return loss.item()


def accuracy(model, batches, device):
    """Of all ranks: each has its own part of the held-out images."""
    model.eval()
    with torch.no_grad():
        right = [model(images.to(device)).argmax(1) == labels.to(device) for images, labels in batches]
    mean = torch.cat(right).float().mean()
    dist.all_reduce(mean)
    return mean.item() / dist.get_world_size()


def main():
    given = common.options(__doc__)
    ranks = Ranks()
    device, backend = ("cuda", "nccl") if torch.cuda.is_available() else ("cpu", "gloo")
    if device == "cuda":
        torch.cuda.set_device(ranks.local_rank())
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    dist.init_process_group(backend, rank=ranks.rank(), world_size=ranks.size())
    torch.manual_seed(ranks.rank())
    batches = loader(ranks, given.images, 1, given.batch_size, shuffle=True)
    held_out = loader(ranks, given.held_out, 2, given.batch_size, shuffle=False)

    # It sends the weights of rank 0 to all, and each step sees the images of all ranks: it may be larger.
    model = nn.parallel.DistributedDataParallel(network().to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=given.learning_rate * ranks.size())

    clock, logs = common.EpochClock(), common.Logs(given, ranks)
    for epoch in range(given.epochs):
        clock.start()
        loss = train_epoch(model, optimizer, batches, device)
        clock.stop()
        logs.epoch(epoch, clock, loss)
    common.report("torch", device, ranks, given, clock, accuracy(model.module, held_out, device))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
