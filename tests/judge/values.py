"""The values of drawn inputs, by element type."""

from __future__ import annotations

import math

import numpy as np

from tazza.tensor import DataType
from tests.judge.hand import Array, Hand, Shape

WILD = (1e6, -1e6, 1e6, 1e9, 3e38, -3e38, 1e20, -1e20, 1e-20, -1e-30, -0.0, 0.0, 1e-40, -1e-45)
"""What `wild` scatters: large, tiny, signed zero, denormal."""
ENDLESS = (math.inf, -math.inf, math.nan)
"""The same for the first input alone: an infinite weight has no one meaning where a pixel of the padding meets it."""


def fill(hand: Hand, shape: Shape, dtype: DataType) -> Array:
    """Return an array of drawn values."""
    if dtype is DataType.STRING:
        words = [bytes(hand.rng.integers(0, 256, hand.integer(0, 5), dtype=np.uint8)) for _ in range(math.prod(shape))]
        found = np.empty(math.prod(shape), object)
        found[:] = words
        return found.reshape(shape)
    kind = dtype.numpy
    if dtype is DataType.BOOL:
        return hand.rng.random(shape) < 0.5
    if np.issubdtype(kind, np.integer):
        low, high = (0, 12) if np.issubdtype(kind, np.unsignedinteger) else (-9, 10)
        return hand.rng.integers(low, high, shape).astype(kind)
    with np.errstate(over="ignore"):  # a wild number is beyond float16
        return reals(hand, shape).astype(kind)


def reals(hand: Hand, shape: Shape) -> Array:
    """Return float64 values that float32 can hold: normal ones of some scale, positive ones, or small multiples."""
    style = hand.rng.random()
    if style < 0.65:
        found = hand.rng.standard_normal(shape) * hand.pick((0.1, 1.0, 1.0, 3.0))
    elif style < 0.85:
        found = hand.rng.uniform(0.05, 2.0, shape)
    else:  # many equal ones, zeros among them: ties and kinks
        found = hand.rng.integers(-6, 7, shape) / 4
    if hand.wild:
        found = scattered(hand, found, WILD if hand.filled else WILD + ENDLESS)
    hand.filled += 1
    with np.errstate(over="ignore"):
        return np.asarray(np.asarray(found, np.float32), np.float64)


def scattered(hand: Hand, values: Array, wild: tuple[float, ...]) -> Array:
    """Return a copy in which wild values stand at some places."""
    found = np.array(values, np.float64)
    flat = found.reshape(-1)
    if flat.size > 0:
        count = hand.pick((1, 1, 2, max(1, flat.size // 8)))
        places = hand.rng.integers(0, flat.size, count)
        kinds = hand.rng.choice(wild, hand.integer(1, 3))
        flat[places] = hand.rng.choice(kinds, count)
    return found
