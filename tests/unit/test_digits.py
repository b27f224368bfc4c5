"""The digits of the examples: in the shape of MNIST, the same each time, shared out, and learnable."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rows import ROOT

from stackwright.core.components.table import MODULES

FOLDER = ROOT / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


@pytest.fixture(scope="module")
def digits() -> Any:
    spec = importlib.util.spec_from_file_location("digits", FOLDER / "digits.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_they_have_the_shape_of_mnist(digits: Any) -> None:
    images, labels = digits.draw(200, seed=1)
    assert (images.shape, images.dtype) == ((200, 28, 28, 1), np.float32)
    assert (images.min() >= 0.0, images.max() <= 1.0) == (True, True)
    assert set(labels) == set(range(10))


def test_a_seed_gives_the_same_digits_and_another_seed_others(digits: Any) -> None:
    first, again, other = (digits.draw(20, seed=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_ranks_share_them_out(digits: Any) -> None:
    images, labels = digits.draw(10, seed=1)
    parts = [digits.shard(10, 1, rank, 3) for rank in range(3)]
    assert [len(part[1]) for part in parts] == [3, 3, 3]
    assert np.array_equal(np.concatenate([part[0] for part in parts]), images[:9])
    assert np.array_equal(np.concatenate([part[1] for part in parts]), labels[:9])
    with pytest.raises(SystemExit, match="2 images"):
        digits.shard(2, 1, 0, 3)


def test_no_two_digits_look_alike_and_each_shows_its_own(digits: Any) -> None:
    """The glyph that fits best, wherever it lies, is that of the label: there is something to learn."""
    images, labels = digits.draw(60, seed=3)
    shapes = digits.glyphs() - digits.glyphs().mean((1, 2), keepdims=True)
    shapes /= np.sqrt((shapes**2).sum((1, 2), keepdims=True))
    windows = np.lib.stride_tricks.sliding_window_view(images[..., 0], shapes.shape[1:], axis=(1, 2))
    scores = np.einsum("nyxhw,dhw->ndyx", windows, shapes).max((2, 3))
    assert (scores.argmax(1) == labels).mean() > 0.9


def test_every_framework_has_an_example() -> None:
    assert {path.stem.removesuffix("_mnist") for path in FOLDER.glob("*_mnist.py")} == {
        *(module.name for module in MODULES),
        "torch_distributed",
        "jax",
    }


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_nothing_is_loaded_from_elsewhere(path: Path) -> None:
    """No data set, no hub: only the framework, Horovod, what every Python has, and what lies beside it."""
    known = {
        *(module.name for module in MODULES),
        "horovod",
        "jax",
        "numpy",
        "os",
        "sys",
        "tensorboard",
        "argparse",
        "json",
        "time",
        "common",
        "digits",
    }
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    taken = {
        f"{node.module}.{name.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert {name.partition(".")[0] for name in plain | taken} <= known
    assert not [name for name in plain | taken if "datasets" in name or "hub" in name]
