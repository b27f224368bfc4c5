"""PyTorch on drawn digits, on any number of ranks.

    mpirun -np 2 --bind-to none python torch_mnist.py

`./build.py launch ROW --mpirun --hosts a:2,b:2` prints the line for several hosts.
"""

import horovod.torch as hvd
import torch
from torch import nn

import common
import digits


def network():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 5 * 5, 128), nn.ReLU(), nn.Linear(128, digits.CLASSES),
    )  # fmt: skip


def loader(count, seed, batch_size, shuffle):
    images, labels = digits.shard(count, seed, hvd.rank(), hvd.size())
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
        right = [model(images.to(device)).argmax(1).cpu() == labels for images, labels in batches]
    return hvd.allreduce(torch.cat(right).float().mean(), name="accuracy").item()


def main():
    given = common.options(__doc__)
    hvd.init()
    torch.manual_seed(hvd.rank())
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.cuda.set_device(hvd.local_rank())
    batches = loader(given.images, 1, given.batch_size, shuffle=True)
    held_out = loader(given.held_out, 2, given.batch_size, shuffle=False)

    model = network().to(device)
    # Each step sees the images of all ranks, so it may be larger.
    optimizer = torch.optim.Adam(model.parameters(), lr=given.learning_rate * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    clock, logs = common.EpochClock(), common.Logs(given, hvd)
    for epoch in range(given.epochs):
        clock.start()
        loss = train_epoch(model, optimizer, batches, device)
        clock.stop()
        logs.epoch(epoch, clock, loss)
    common.report("torch", device, hvd, given, clock, accuracy(model, held_out, device))


if __name__ == "__main__":
    main()
