"""MXNet's Gluon on drawn digits, on any number of ranks.

    mpirun -np 2 --bind-to none python mxnet_mnist.py

`./build.py launch ROW --mpirun --hosts a:2,b:2` prints the line for several hosts.
"""

import horovod.mxnet as hvd
import mxnet as mx
from mxnet import autograd, gluon

import common
import digits

loss_of = gluon.loss.SoftmaxCrossEntropyLoss()


def network():
    layers = gluon.nn
    net = layers.HybridSequential()
    net.add(
        layers.Conv2D(32, 3, in_channels=1, activation="relu"), layers.MaxPool2D(),
        layers.Conv2D(64, 3, in_channels=32, activation="relu"), layers.MaxPool2D(),
        layers.Flatten(),
        layers.Dense(128, in_units=64 * 5 * 5, activation="relu"), layers.Dense(digits.CLASSES, in_units=128),
    )  # fmt: skip
    return net


def loader(count, seed, batch_size, shuffle):
    images, labels = digits.shard(count, seed, hvd.rank(), hvd.size())
    images = images.transpose(0, 3, 1, 2)  # MXNet wants the channel first
    data = gluon.data.ArrayDataset(images, labels.astype("float32"))
    return gluon.data.DataLoader(data, batch_size, shuffle=shuffle)


def train_epoch(model, trainer, batches, context):
    """Return the loss of the last batch."""
    for images, labels in batches:
        with autograd.record():
            loss = loss_of(model(images.as_in_context(context)), labels.as_in_context(context))
        loss.backward()
        trainer.step(len(images))
    mx.nd.waitall()  # MXNet works behind our back; the clock must not run ahead of it
    return loss.mean().asscalar()


def accuracy(model, batches, context):
    """Of all ranks: each has its own part of the held-out images."""
    metric = mx.metric.Accuracy()
    for images, labels in batches:
        metric.update(labels, model(images.as_in_context(context)))
    return hvd.allreduce(mx.nd.array([metric.get()[1]]), name="accuracy").asscalar()


def main():
    given = common.options(__doc__)
    hvd.init()
    mx.random.seed(hvd.rank())
    context = mx.gpu(hvd.local_rank()) if mx.context.num_gpus() else mx.cpu()
    batches = loader(given.images, 1, given.batch_size, shuffle=True)
    held_out = loader(given.held_out, 2, given.batch_size, shuffle=False)

    model = network()
    model.initialize(mx.init.Xavier(), ctx=context)
    model.hybridize()
    parameters = model.collect_params()
    hvd.broadcast_parameters(parameters, root_rank=0)
    # Each step sees the images of all ranks, so it may be larger.
    rate = {"learning_rate": given.learning_rate * hvd.size()}
    trainer = hvd.DistributedTrainer(parameters, "adam", rate)

    clock, logs = common.EpochClock(), common.Logs(given, hvd)
    for epoch in range(given.epochs):
        clock.start()
        loss = train_epoch(model, trainer, batches, context)
        clock.stop()
        logs.epoch(epoch, clock, loss)
    common.report(
        "mxnet",
        "cuda" if context.device_type == "gpu" else "cpu",
        hvd,
        given,
        clock,
        accuracy(model, held_out, context),
    )


if __name__ == "__main__":
    main()
