"""One rank of JAX by Gloo, on the CPU: collectives over processes, and a training on different data.

Runs inside the image with the image's own Python and imports nothing of Stackwright. Something else starts N
of these: mpirun, or processes with the variables that srun sets. Each has one device, and finds its place in
the world as a training would: under Slurm JAX reads it itself.
Usage: collective_jax.py FOLDER jax; leaves FOLDER/rank-R-of-N-PID.json
"""

import os
import sys

os.environ.update(
    JAX_PLATFORMS="cpu", JAX_CPU_COLLECTIVES_IMPLEMENTATION="gloo", JAX_SKIP_CUDA_CONSTRAINTS_CHECK="1"
)

import collective
from collective import RATE, ROOT, STEPS, WIDTH, given, rows, samples
from collective_torch_distributed import place

AXIS = "ranks"
LIMIT = 60
"""Seconds that a rank waits for the others."""


def connect(jax, launcher, rank, size, **more):
    """Say where rank 0 is. Of Open MPI's variables JAX reads a rank with mpi4py alone, of MPICH's never.

    Next to torch.distributed in one process JAX has a port of its own.
    """
    where = "127.0.0.1:" + (os.environ.get("JAX_COORDINATOR_PORT") or os.environ["MASTER_PORT"])
    place = {"num_processes": size, "process_id": rank, "cluster_detection_method": "deactivate"}
    jax.distributed.initialize(
        coordinator_address=where, coordinator_bind_address=where, initialization_timeout=LIMIT,
        **({} if launcher == "srun" else place), **more,
    )  # fmt: skip


class World:
    """All devices of all processes in one row, and what is computed over them."""

    def __init__(self, jax):
        import numpy

        self._jax, self._numpy = jax, numpy
        self._mesh = jax.sharding.Mesh(numpy.array(jax.devices()), (AXIS,))

    def each(self, values):
        """An array with a row of each rank, of which this process gives its own."""
        part = self._numpy.asarray(values, dtype="float32")[None]
        place = self._jax.sharding.NamedSharding(self._mesh, self._jax.sharding.PartitionSpec(AXIS))
        return self._jax.make_array_from_process_local_data(place, part)

    def over(self, function):
        """Compile a function over the ranks: of each rank's own values, and with the same result on all."""
        spec = self._jax.sharding.PartitionSpec

        def one(*parts):
            return function(*(self._jax.tree.map(lambda part: part[0], part) for part in parts))

        made = self._jax.jit(
            self._jax.shard_map(one, mesh=self._mesh, in_specs=spec(AXIS), out_specs=spec(), check_vma=False)
        )

        def run(*values):
            result = made(*(self._jax.tree.map(self.each, value, is_leaf=is_list) for value in values))
            return self._jax.tree.map(lambda one: self._numpy.asarray(one.addressable_data(0)), result)

        return run


def is_list(values):
    return isinstance(values, list)


def collectives(jax, world, rank):
    lax = jax.lax
    return {
        "sum": world.over(lambda one: lax.psum(one, AXIS))(given(rank)).tolist(),
        "average": world.over(lambda one: lax.pmean(one, AXIS))(given(rank)).tolist(),
        "broadcast": world.over(lambda one: from_root(jax, one))(given(rank)).tolist(),
        "allgather": uneven(world.over(lambda one: lax.all_gather(one, AXIS)), rows(rank)),
    }


def from_root(jax, tree):
    """The values of one rank on all: the sum of its own, and of zeros."""
    chosen = jax.lax.axis_index(AXIS) == ROOT
    return jax.tree.map(lambda one: jax.lax.psum(jax.numpy.where(chosen, one, 0 * one), AXIS), tree)


def uneven(gather, part):
    """Parts of different length: XLA gathers equal ones, so each is filled up, and cut again."""
    lengths = [int(one) for one in gather(float(len(part)))]
    filled = part + [[0.0] * len(part[0])] * (max(lengths) - len(part))
    return [row for one, length in zip(gather(filled).tolist(), lengths) for row in one[:length]]


def fresh(jax, rank):
    """A model with other weights on each rank."""
    keys = jax.random.split(jax.random.PRNGKey(rank), 2)
    return {
        "hidden": jax.random.normal(keys[0], (WIDTH, 8)) * 0.4, "bias": jax.numpy.zeros(8),
        "out": jax.random.normal(keys[1], (8, 1)) * 0.4,
    }  # fmt: skip


def flat(jax, weights):
    return [float(value) for one in jax.tree.leaves(weights) for value in one.reshape(-1)]


def train(jax, world, rank):
    """Each rank has its own data; the mean of the ranks' gradients is what all of them go by."""

    def loss_of(weights, inputs, targets):
        hidden = jax.numpy.tanh(inputs @ weights["hidden"] + weights["bias"])
        return jax.numpy.mean((hidden @ weights["out"] - targets) ** 2)

    def stepped(weights, inputs, targets):
        loss, gradients = jax.value_and_grad(loss_of)(weights, inputs, targets)
        gradients = jax.tree.map(lambda one: jax.lax.pmean(one, AXIS), gradients)
        weights = jax.tree.map(lambda one, by: one - RATE * by, weights, gradients)
        return weights, jax.lax.all_gather(loss, AXIS)

    weights = fresh(jax, rank)
    before = flat(jax, weights)
    weights = world.over(lambda tree: from_root(jax, tree))(weights)
    inputs, targets = samples(rank)
    step, losses = world.over(stepped), []
    for _ in range(STEPS):
        weights, loss = step(weights, inputs, targets)
        losses.append(float(loss[rank]))
    return {"before": before, "after": flat(jax, weights), "losses": losses}


def main(folder):
    """Write facts step by step: the world that a failed rank saw explains most failures."""
    import jax

    launcher, rank, size, local_rank, local_size = place()
    connect(jax, launcher, rank, size)
    facts = {
        "rank": jax.process_index(), "size": jax.process_count(), "devices": len(jax.devices()),
        "local_rank": local_rank, "local_size": local_size, "launched_by": launcher,
        "root": ROOT, "given": given(rank), "rows": rows(rank), "data": samples(rank)[0][0], "error": None,
    }  # fmt: skip
    try:
        world = World(jax)
        facts.update(collectives(jax, world, rank))
        facts["training"] = train(jax, world, rank)
        jax.distributed.shutdown()
    except Exception as error:
        facts["error"] = "%s: %s" % (type(error).__name__, error)
        raise
    finally:
        collective.leave(folder, facts)


if __name__ == "__main__":
    main(sys.argv[1])
