"""One rank of a real collective and of a short training run, on the CPU, for one Horovod extension or Keras.

Runs inside the image with the image's own Python and imports nothing of Stackwright. Something else
starts N of these, by mpirun or by horovodrun. Each rank writes what it gave and what it received.
Usage: collective.py FOLDER EXTENSION; leaves FOLDER/rank-R-of-N-PID.json
"""

import importlib
import json
import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

WIDTH = 4
ROOT = 1
"""Rank that broadcasts: not 0, so that a broadcast that does nothing is seen on rank 0."""
STEPS = 30
SAMPLES = 64
RATE = 0.1
TRUE_WEIGHTS = (2.0, -3.0, 0.5, 1.0)


def given(rank):
    """Different on each rank, and such that no sum of ranks equals that of others."""
    return [float((rank + 1) * (10**place)) for place in range(WIDTH)]


def rows(rank):
    """Different numbers of rows, so that an allgather that assumes equal shapes is seen."""
    return [[float(rank), float(index)] for index in range(rank + 2)]


def samples(rank):
    """Data of one rank: inputs and targets of a linear function, from a generator without a library."""
    state, values = 12345 + 9876 * rank, []
    for _ in range(SAMPLES * len(TRUE_WEIGHTS)):
        state = (1103515245 * state + 12345) % 2**31
        values.append(2.0 * state / 2**31 - 1.0)
    width = len(TRUE_WEIGHTS)
    inputs = [values[start : start + width] for start in range(0, len(values), width)]
    return inputs, [[sum(x * w for x, w in zip(row, TRUE_WEIGHTS))] for row in inputs]


def with_torch(hvd):
    import torch

    torch.set_num_threads(1)
    rank = hvd.rank()
    facts = {
        "sum": hvd.allreduce(torch.tensor(given(rank)), op=hvd.Sum, name="sum").tolist(),
        "average": hvd.allreduce(torch.tensor(given(rank)), op=hvd.Average, name="average").tolist(),
        "broadcast": hvd.broadcast(torch.tensor(given(rank)), root_rank=ROOT, name="broadcast").tolist(),
        "allgather": hvd.allgather(torch.tensor(rows(rank)), name="allgather").tolist(),
    }
    torch.manual_seed(rank)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

    def weights():
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).tolist()

    before = weights()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=ROOT)
    inputs, targets = (torch.tensor(part) for part in samples(rank))
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return dict(facts, training={"before": before, "after": weights(), "losses": losses})


def with_tensorflow(hvd):
    import tensorflow as tf

    rank = hvd.rank()
    value = tf.constant(given(rank))
    facts = {
        "sum": hvd.allreduce(value, op=hvd.Sum, name="sum").numpy().tolist(),
        "average": hvd.allreduce(value, op=hvd.Average, name="average").numpy().tolist(),
        "broadcast": hvd.broadcast(value, root_rank=ROOT, name="broadcast").numpy().tolist(),
        "allgather": hvd.allgather(tf.constant(rows(rank)), name="allgather").numpy().tolist(),
    }
    tf.random.set_seed(rank)
    shapes = ((WIDTH, 8), (8,), (8, 1), (1,))
    variables = [tf.Variable(tf.random.normal(shape, stddev=0.4)) for shape in shapes]

    def weights():
        return [float(x) for v in variables for x in tf.reshape(v, [-1]).numpy()]

    before = weights()
    hvd.broadcast_variables(variables, root_rank=ROOT)
    inputs, targets = (tf.constant(part) for part in samples(rank))
    losses = []
    for _ in range(STEPS):
        with tf.GradientTape() as tape:
            hidden = tf.tanh(inputs @ variables[0] + variables[1])
            loss = tf.reduce_mean((hidden @ variables[2] + variables[3] - targets) ** 2)
        tape = hvd.DistributedGradientTape(tape)
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(RATE * gradient)
        losses.append(float(loss.numpy()))
    return dict(facts, training={"before": before, "after": weights(), "losses": losses})


def with_keras(hvd):
    """fit() with Horovod's callbacks: the way that Keras is used, and what Keras 3 broke."""
    import tensorflow as tf

    def plain(value):
        return (value.numpy() if hasattr(value, "numpy") else value).tolist()

    rank, keras = hvd.rank(), tf.keras
    facts = {
        "sum": plain(hvd.allreduce(given(rank), op=hvd.Sum, name="sum")),
        "average": plain(hvd.allreduce(given(rank), op=hvd.Average, name="average")),
        "broadcast": plain(hvd.broadcast(given(rank), root_rank=ROOT, name="broadcast")),
        "allgather": plain(hvd.allgather(rows(rank), name="allgather")),
    }
    keras.utils.set_random_seed(rank)
    layers = [keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((WIDTH,)), *layers])

    def weights():
        return [float(x) for array in model.get_weights() for x in array.reshape(-1)]

    before = weights()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(RATE))
    # XLA, which Keras 3 asks by default, does not know Horovod's operations.
    model.compile(optimizer=optimizer, loss="mse", jit_compile=False)
    inputs, targets = (tf.constant(part) for part in samples(rank))
    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(ROOT)
    history = model.fit(
        inputs, targets, batch_size=SAMPLES, epochs=STEPS, shuffle=False, verbose=0,
        callbacks=[broadcast, hvd.callbacks.MetricAverageCallback()],
    )  # fmt: skip
    losses = [float(loss) for loss in history.history["loss"]]
    return dict(facts, training={"before": before, "after": weights(), "losses": losses})


def with_mxnet(hvd):
    import mxnet as mx

    rank = hvd.rank()
    value = mx.nd.array(given(rank))
    facts = {
        "sum": hvd.allreduce(value, average=False, name="sum").asnumpy().tolist(),
        "average": hvd.allreduce(value, average=True, name="average").asnumpy().tolist(),
        "broadcast": hvd.broadcast(value, root_rank=ROOT, name="broadcast").asnumpy().tolist(),
        "allgather": hvd.allgather(mx.nd.array(rows(rank)), name="allgather").asnumpy().tolist(),
    }
    mx.random.seed(rank)
    model = mx.gluon.nn.HybridSequential()
    model.add(mx.gluon.nn.Dense(8, activation="tanh", in_units=WIDTH), mx.gluon.nn.Dense(1, in_units=8))
    model.initialize(mx.init.Normal(0.4))
    parameters = model.collect_params()

    def weights():
        arrays = (parameters[name].data().asnumpy() for name in sorted(parameters))
        return [float(x) for array in arrays for x in array.reshape(-1)]

    before = weights()
    hvd.broadcast_parameters(parameters, root_rank=ROOT)
    trainer = hvd.DistributedTrainer(parameters, "sgd", {"learning_rate": RATE})
    inputs, targets = (mx.nd.array(part) for part in samples(rank))
    losses = []
    for _ in range(STEPS):
        with mx.autograd.record():
            loss = mx.nd.mean((model(inputs) - targets) ** 2)
        loss.backward()
        trainer.step(1)
        losses.append(float(loss.asscalar()))
    return dict(facts, training={"before": before, "after": weights(), "losses": losses})


FRAMEWORKS = {"torch": with_torch, "tensorflow": with_tensorflow, "keras": with_keras, "mxnet": with_mxnet}
MODULES = {"keras": "tensorflow.keras"}


def main(extension, folder):
    """Write facts step by step: the world that a failed rank saw explains most failures."""
    hvd = importlib.import_module("horovod." + MODULES.get(extension, extension))
    hvd.init()
    rank = hvd.rank()
    facts = {
        "rank": rank,
        "size": hvd.size(),
        "local_rank": hvd.local_rank(),
        "local_size": hvd.local_size(),
        "mpi_enabled": bool(hvd.mpi_enabled()),
        "gloo_enabled": bool(hvd.gloo_enabled()),
        "root": ROOT,
        "given": given(rank),
        "rows": rows(rank),
        "data": samples(rank)[0][0],
        "error": None,
    }
    try:
        facts.update(FRAMEWORKS[extension](hvd))
        hvd.shutdown()
    except Exception as error:
        facts["error"] = "%s: %s" % (type(error).__name__, error)
        raise
    finally:
        leave(folder, facts)


def leave(folder, facts):
    """What a rank found, in a file of its own: a world of two by mistake twice leaves two of rank 0."""
    name = "rank-%d-of-%d-%d.json" % (facts["rank"], facts["size"], os.getpid())
    with open(os.path.join(folder, name), "w") as handle:
        json.dump(facts, handle, indent=1, sort_keys=True)


if __name__ == "__main__":
    main(sys.argv[2], sys.argv[1])
