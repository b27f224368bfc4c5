"""TensorFlow on drawn digits, on any number of ranks: a model of Keras, and a training loop of one's own.

    mpirun -np 2 --bind-to none python tensorflow_mnist.py

`./build.py launch ROW --mpirun --hosts a:2,b:2` prints the line for several hosts.
"""

import horovod.tensorflow as hvd
import tensorflow as tf

import common
import digits

loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def network():
    layers = tf.keras.layers
    return tf.keras.Sequential([
        tf.keras.Input((digits.SIDE, digits.SIDE, 1)),
        layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
        layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D(),
        layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(digits.CLASSES),
    ])  # fmt: skip


def dataset(count, seed, batch_size):
    images, labels = digits.shard(count, seed, hvd.rank(), hvd.size())
    return tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels)).batch(batch_size)


def tf_variables(variables):
    """Horovod knows tf.Variable; each variable of Keras 3 holds one."""
    return [one if isinstance(one, tf.Variable) else one.value for one in variables]


@tf.function
def train_step(model, optimizer, images, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(images, training=True))
    tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, tf_variables(model.trainable_variables))
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


def accuracy(model, batches):
    """Of all ranks: each has its own part of the held-out images."""
    right = [tf.argmax(model(images, training=False), axis=1) == labels for images, labels in batches]
    return hvd.allreduce(tf.reduce_mean(tf.cast(tf.concat(right, 0), tf.float32)), name="accuracy").numpy()


def main():
    given = common.options(__doc__)
    hvd.init()
    tf.random.set_seed(hvd.rank())
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    batches = dataset(given.images, 1, given.batch_size)
    held_out = dataset(given.held_out, 2, given.batch_size)

    model = network()
    # Each step sees the images of all ranks, so it may be larger.
    optimizer = tf.keras.optimizers.Adam(given.learning_rate * hvd.size())
    optimizer.build(model.trainable_variables)
    hvd.broadcast_variables(tf_variables(model.variables), root_rank=0)

    clock, logs = common.EpochClock(), common.Logs(given, hvd)
    for epoch in range(given.epochs):
        clock.start()
        for images, labels in batches:
            loss = train_step(model, optimizer, images, labels)
        clock.stop()
        logs.epoch(epoch, clock, loss)
    common.report("tensorflow", "cuda" if gpus else "cpu", hvd, given, clock, accuracy(model, held_out))


if __name__ == "__main__":
    main()
