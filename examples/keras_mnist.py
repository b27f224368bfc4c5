"""Keras 2 or 3 on drawn digits, on any number of ranks: fit() with Horovod's callbacks.

    mpirun -np 2 --bind-to none python keras_mnist.py

`./build.py launch ROW --mpirun --hosts a:2,b:2` prints the line for several hosts.
"""

import horovod.tensorflow.keras as hvd
import tensorflow as tf
from tensorflow import keras

import common
import digits


def network():
    layers = keras.layers
    return keras.Sequential([
        keras.Input((digits.SIDE, digits.SIDE, 1)),
        layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
        layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D(),
        layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(digits.CLASSES),
    ])  # fmt: skip


class Clocked(keras.callbacks.Callback):
    def __init__(self, clock, written):
        super().__init__()
        self.clock, self.written = clock, written

    def on_epoch_begin(self, epoch, logs=None):
        self.clock.start()

    def on_epoch_end(self, epoch, logs=None):
        self.clock.stop()
        self.written.epoch(epoch, self.clock, logs["loss"])


def main():
    given = common.options(__doc__)
    hvd.init()
    keras.utils.set_random_seed(hvd.rank())
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    images, labels = digits.shard(given.images, 1, hvd.rank(), hvd.size())
    held_out = digits.shard(given.held_out, 2, hvd.rank(), hvd.size())

    model = network()
    # Each step sees the images of all ranks, so it may be larger.
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(given.learning_rate * hvd.size()))
    model.compile(
        optimizer=optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,  # XLA, which Keras 3 asks by default, does not know Horovod's operations
    )
    clock = common.EpochClock()
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        Clocked(clock, common.Logs(given, hvd)),
    ]
    model.fit(
        images, labels, batch_size=given.batch_size, epochs=given.epochs, callbacks=callbacks, verbose=0
    )
    _, right = model.evaluate(*held_out, batch_size=given.batch_size, verbose=0)
    accuracy = hvd.allreduce(tf.constant(right), name="accuracy")
    common.report("keras", "cuda" if gpus else "cpu", hvd, given, clock, accuracy)


if __name__ == "__main__":
    main()
