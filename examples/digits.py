"""Drawn digits in the shape of MNIST: nothing is downloaded, and a small network can learn them."""

import numpy as np

CLASSES = 10
SIDE = 28
"""Pixels of a side."""
SCALE = 3
"""Pixels of an image for one of a glyph."""
GLYPHS = (
    "01110 10001 10011 10101 11001 10001 01110",
    "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00010 00100 01000 11111",
    "11111 00010 00100 00010 00001 10001 01110",
    "00010 00110 01010 10010 11111 00010 00010",
    "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110",
    "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110",
    "01110 10001 10001 01111 00001 00010 01100",
)


def glyphs():
    """float32 (10, 21, 15): each digit, enlarged."""
    rows = [[list(map(int, line)) for line in glyph.split()] for glyph in GLYPHS]
    return np.kron(np.array(rows, "float32"), np.ones((1, SCALE, SCALE), "float32"))


def draw(count, seed):
    """Images, float32 (count, 28, 28, 1) from 0 to 1, and their labels, int64 (count,).

    Each digit is somewhere in its image, more or less bright, and under noise.
    """
    random = np.random.RandomState(seed)
    labels = random.randint(0, CLASSES, count).astype("int64")
    images = random.normal(0.0, 0.25, (count, SIDE, SIDE)).astype("float32")
    ink = glyphs()[labels] * random.uniform(0.4, 1.0, (count, 1, 1)).astype("float32")
    _, height, width = ink.shape
    for image, digit in zip(images, ink):
        top, left = random.randint(0, SIDE - height + 1), random.randint(0, SIDE - width + 1)
        image[top : top + height, left : left + width] += digit
    return np.clip(images, 0.0, 1.0)[..., None], labels


def shard(count, seed, rank, size):
    """This rank's part of the digits; every rank gets the same number, so that none waits for another."""
    if count < size:
        raise SystemExit(f"{count} images cannot be shared out among {size} ranks")
    images, labels = draw(count, seed)
    part = slice(rank * (count // size), (rank + 1) * (count // size))
    return images[part], labels[part]
