"""The examples train over the nodes, in short: every framework of the image, one rank and four."""

from __future__ import annotations

from bench import nodes
from bench.scaling import lines, measure

SHORT = ("--epochs", "3", "--images", "2048", "--held-out", "512", "--batch-size", "32")
CHANCE = 0.1


def test_each_framework_trains_on_one_rank_and_on_four(cluster: nodes.Nodes) -> None:
    runs = tuple(measure(cluster, SHORT, configurations=((1, 1), (2, 2))))
    assert [run.framework for run in runs[::2]] == list(cluster.frameworks)
    assert [run.world_size for run in runs] == [1, 4] * len(cluster.frameworks)
    assert all(run.accuracy > 3 * CHANCE for run in runs), runs
    for one, four in zip(lines(runs)[::2], lines(runs)[1::2], strict=True):
        assert four.speedup == four.run.images_per_second / one.run.images_per_second
        assert four.efficiency == four.speedup / 4
