"""What the examples have in common besides the digits: their options, and the line that they print."""

import argparse
import json
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
