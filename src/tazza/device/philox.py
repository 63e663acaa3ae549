"""Random numbers that can be made in any order: number n of a stream follows from the seed and n alone.

Philox makes four words of 32 bits of a counter and a key, by ten rounds of products. Word n of the stream of a seed is
word n % 4 of the counter n // 4 under the key (seed, 0). So threads of a device make numbers side by side, and the host
makes the same. With r the words:

    uniform    u = (r & 0xffffff) / 2**24, then low + u * (high - low)
    gaussian   by pairs (u, v) of words 2k and 2k + 1: sqrt(-2 ln(1 - v)) * cos(2 pi u), then * sin(2 pi u)
    integers   low + r mod (high - low + 1)

These are the maps of `generator`, whose words are the twister's: so the numbers of both differ. Where another of the
maps is asked for than the last time, what is left of four words is not used: no word goes into two numbers that differ.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011; the words of its known answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.device.generator import fresh_seed

FACTORS = 0xD2511F53, 0xCD9E8D57
STEPS = 0x9E3779B9, 0xBB67AE85
"""What is added to the two words of the key between rounds."""
ROUNDS = 10
WORDS = 4
"""Of one counter."""
TURN = np.float64(np.float32(2 * np.pi))


def philox(counters: NDArray[np.uint64], key: int) -> NDArray[np.uint32]:
    """Return (n, 4) words of n counters under a key of 32 bits.

    >>> [f"{int(word):x}" for word in philox(np.zeros(1, np.uint64), 0)[0]]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    a, b = counters & low, counters >> shift
    c = d = np.zeros_like(a)
    for turn in range(ROUNDS):
        keys = [np.uint64((one + turn * step) % 2**32) for one, step in zip((key, 0), STEPS, strict=True)]
        first, second = a * np.uint64(FACTORS[0]), c * np.uint64(FACTORS[1])
        a, b, c, d = second >> shift ^ b ^ keys[0], second & low, first >> shift ^ d ^ keys[1], first & low
    return np.stack([a, b, c, d], axis=1).astype(np.uint32)


class CounterGenerator:
    """A stream of random numbers of a seed, which is where it stands: `position` counts its words.

    It has the methods of `Generator`, and other numbers.

    >>> CounterGenerator(seed=1).uniform(3)
    array([0.9063482 , 0.03928733, 0.94584274], dtype=float32)
    """

    def __init__(self, seed: int | None = None) -> None:
        """Begin with a seed, 0 <= seed < 2**32; None draws one from the operating system."""
        self.seed = seed
        self.key = fresh_seed() if seed is None else seed
        self.position = 0
        self._kind = ""

    def begin(self, kind: str, count: int) -> int:
        """Return the first word of the next `count` numbers of a kind, and go on behind them."""
        if kind != self._kind:
            self.position = -(-self.position // WORDS) * WORDS
        self._kind, first = kind, self.position
        self.position += count
        return first

    def raw(self, count: int) -> NDArray[np.uint32]:
        """Return the next `count` words."""
        return self._words(self.begin("raw", count), count)

    def _words(self, first: int, count: int) -> NDArray[np.uint32]:
        whole = np.arange(first // WORDS, -(-(first + count) // WORDS), dtype=np.uint64)
        return philox(whole, self.key).reshape(-1)[first % WORDS :][:count]

    def uniform(self, count: int, low: float = 0.0, high: float = 1.0) -> NDArray[np.float32]:
        """Return `count` float32 numbers, uniform in [low, high)."""
        u = _unit(self._words(self.begin("uniform", count), count))
        return u * np.float32(np.float32(high) - np.float32(low)) + np.float32(low)

    def gaussian(self, count: int, mean: float = 0.0, std: float = 1.0) -> NDArray[np.float32]:
        """Return `count` float32 numbers from N(mean, std**2) (Box, Muller 1958)."""
        first = self.begin("gaussian", count)
        whole = first // 2 * 2
        u, v = _unit(self._words(whole, -(-(first + count - whole) // 2) * 2)).astype(np.float64).reshape(-1, 2).T
        radius, angle = np.sqrt(-2.0 * np.log(1.0 - v)), TURN * u
        z = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).astype(np.float32)
        return z.reshape(-1)[first - whole :][:count] * np.float32(std) + np.float32(mean)

    def integers(self, count: int, low: int, high: int, dtype: Any = np.int32) -> NDArray[Any]:
        """Return `count` integers in [low, high], both included; high - low < 2**32."""
        words = self._words(self.begin("integers", count), count).astype(np.int64)
        return (words % (high - low + 1) + low).astype(dtype)


def _unit(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Return numbers in [0, 1) of the lower 24 bits."""
    return (words & np.uint32(0xFFFFFF)).astype(np.float32) * np.float32(2.0**-24)
