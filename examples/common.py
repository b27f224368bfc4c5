"""What the examples have in common besides the digits: options, logs, and the line that they print."""

import argparse
import json
import os
import sys
import time


def options(description):
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=5, help="2 or more: the first is not timed")
    parser.add_argument("--images", type=int, default=4096, help="per epoch, over all ranks")
    parser.add_argument("--held-out", type=int, default=1024, help="images that accuracy is measured on")
    parser.add_argument("--batch-size", type=int, default=64, help="of each rank")
    parser.add_argument("--learning-rate", type=float, default=0.001, help="of one rank")
    parser.add_argument("--logs", default="logs", help="folder for TensorBoard, of rank 0; '' for none")
    given = parser.parse_args()
    if given.epochs < 2 or min(given.images, given.held_out, given.batch_size) < 1:
        parser.error("--epochs has to be 2 or more, and what is counted 1 or more")
    return given


class EpochClock:
    """Wall time of each epoch."""

    def __init__(self):
        self.seconds = []
        self._start = None

    def start(self):
        self._start = time.perf_counter()

    def stop(self):
        self.seconds.append(time.perf_counter() - self._start)

    def images_per_second(self, images):
        """Of ``images`` an epoch. Without the first epoch, which traces graphs and chooses algorithms."""
        return images * (len(self.seconds) - 1) / sum(self.seconds[1:])


class Logs:
    """What rank 0 writes for TensorBoard; nothing where the image has no TensorBoard."""

    def __init__(self, given, hvd):
        self._writer = None
        if hvd.rank() != 0 or not given.logs:
            return
        folder = os.path.join(given.logs, time.strftime("%Y%m%d-%H%M%S"))
        try:
            from tensorboard.summary import Writer  # which may load TensorFlow

            os.makedirs(folder)
        except ImportError:
            return
        except OSError as error:
            print(f"no logs for TensorBoard: {error}", file=sys.stderr)
            return
        self._writer = Writer(folder)

    def epoch(self, number, clock, loss):
        """The loss is that of the last batch of rank 0."""
        if self._writer:
            self._writer.add_scalar("loss", float(loss), number)
            self._writer.add_scalar("seconds", clock.seconds[-1], number)
            self._writer.flush()


def report(framework, device, hvd, given, clock, accuracy):
    """One JSON object in one line, from one rank. Images per second are those of all ranks together."""
    if hvd.rank() != 0:
        return
    trained = given.images // hvd.size() * hvd.size()
    line = {
        "framework": framework,
        "device": device,
        "world_size": hvd.size(),
        "local_size": hvd.local_size(),
        "epochs": given.epochs,
        "images": trained,
        "images_per_second": round(clock.images_per_second(trained), 1),
        "accuracy": round(float(accuracy), 4),
    }
    print(json.dumps(line), flush=True)
