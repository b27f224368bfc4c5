"""JAX on drawn digits, on any number of ranks: the batch is divided over the ranks, the weights are not.

    mpirun -np 2 --bind-to none python jax_mnist.py
    srun python jax_mnist.py

Over several nodes both need MASTER_ADDR, the name of the first node.
"""

import os

DEVICE = "cuda" if os.path.exists("/dev/nvidiactl") else "cpu"
os.environ.setdefault("JAX_PLATFORMS", DEVICE)

import jax  # noqa: E402 (it reads the variable)
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import common  # noqa: E402
import digits  # noqa: E402

PLACES = (
    # what sets them: mpirun of Open MPI, mpirun of MPICH, srun
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

    def connect(self):
        """One device for each rank; rank 0 is where all others connect to."""
        first = os.environ.get("MASTER_ADDR", "127.0.0.1"), os.environ.get("MASTER_PORT", "29500")
        jax.distributed.initialize(
            coordinator_address=":".join(first), num_processes=self._size, process_id=self._rank,
            local_device_ids=[self._local_rank if DEVICE == "cuda" else 0],
        )  # fmt: skip


def fresh():
    """The same weights on each rank, which need no broadcast then: the seed is the same."""
    shapes = {"first": (3, 3, 1, 32), "second": (3, 3, 32, 64), "hidden": (1600, 128), "out": (128, 10)}
    keys = jax.random.split(jax.random.PRNGKey(0), len(shapes))
    return {
        name: jax.random.normal(key, shape) * (2.0 / np.prod(shape[:-1])) ** 0.5
        for key, (name, shape) in zip(keys, shapes.items())
    }


def network(weights, images):
    for name in ("first", "second"):
        images = jax.lax.conv_general_dilated(
            images, weights[name], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        images = jax.nn.relu(images)
        images = jax.lax.reduce_window(images, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    hidden = jax.nn.relu(images.reshape(len(images), -1) @ weights["hidden"])
    return hidden @ weights["out"]


def loss_of(weights, images, labels):
    scores = jax.nn.log_softmax(network(weights, images))
    return -jnp.take_along_axis(scores, labels[:, None], 1).mean()


@jax.jit
def step(weights, moments, count, rate, images, labels):
    """One step of Adam. The mean is over the whole batch, so that XLA sums the ranks' gradients itself."""
    gradients = jax.grad(loss_of)(weights, images, labels)
    first = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, moments[0], gradients)
    second = jax.tree.map(lambda old, new: 0.999 * old + 0.001 * new**2, moments[1], gradients)

    def moved(weight, one, two):
        return weight - rate * (one / (1 - 0.9**count)) / (jnp.sqrt(two / (1 - 0.999**count)) + 1e-8)

    return jax.tree.map(moved, weights, first, second), (first, second)


@jax.jit
def right(weights, images, labels):
    return (network(weights, images).argmax(1) == labels).mean()


def batches(ranks, sharding, count, seed, batch_size, order):
    """Each rank brings its own part of the batch, and all ranks see one array."""
    images, labels = digits.shard(count, seed, ranks.rank(), ranks.size())
    chosen = order(len(labels))
    for start in range(0, len(labels), batch_size):
        part = chosen[start : start + batch_size]
        mine = images[part], labels[part].astype("int32")
        yield tuple(jax.make_array_from_process_local_data(sharding, one) for one in mine)


def main():
    given = common.options(__doc__)
    ranks = Ranks()
    ranks.connect()
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("ranks",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("ranks"))
    weights = jax.tree.map(np.asarray, fresh())
    moments = jax.tree.map(np.zeros_like, weights), jax.tree.map(np.zeros_like, weights)
    random, count, clock = np.random.RandomState(ranks.rank()), 0, common.EpochClock()
    rate = given.learning_rate * ranks.size()  # a step sees the images of all ranks: it may be larger
    for _ in range(given.epochs):
        clock.start()
        for images, labels in batches(ranks, sharding, given.images, 1, given.batch_size, random.permutation):
            count += 1
            weights, moments = step(weights, moments, count, rate, images, labels)
        jax.block_until_ready(weights)
        clock.stop()
    held_out = batches(ranks, sharding, given.held_out, 2, given.held_out, np.arange)
    accuracy = np.mean([right(weights, *batch) for batch in held_out])
    common.report("jax", DEVICE, ranks, given, clock, accuracy)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
