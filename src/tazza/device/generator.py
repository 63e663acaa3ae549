"""Random numbers as Caffe2 draws them: one MT19937 per operator, and the maps from its 32-bit outputs to numbers.

With r the 32-bit outputs of the twister (seeded like `numpy.random.RandomState(seed)`):

    uniform    u = (r & 0xffffff) / 2**24, then low + u * (high - low)
    gaussian   by pairs (u, v): sqrt(-2 ln(1 - v)) * cos(2 pi u), then * sin(2 pi u)
    integers   low + r mod (high - low + 1)
    bernoulli  two outputs a number, the first one high: 53 bits / 2**53 < p

All maps agree with Caffe2 to the last bit. That fixes where the Gaussian rounds to float32: 2 pi, the angle, the
radius and the product; logarithm, sine and cosine are taken in float64.

Source: recorded runs of Caffe2 1.8.1 with fixed seeds.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.errors import FormatError

_WORDS = 624
"""Of the state of a twister, without its position in them."""
_BLOCK = 1 << 14
"""Numbers that are mapped at a time: what lies between output and number stays in the caches."""
_TURN = np.float64(np.float32(2 * np.pi))


def fresh_seed() -> int:
    """Return a seed that the operating system draws: 0 <= seed < 2**32."""
    return int.from_bytes(os.urandom(4))


class Generator:
    """A stream of random numbers that belongs to one operator; not thread-safe, since an operator runs once at a time.

    >>> Generator(seed=1).uniform(3)
    array([0.7576316 , 0.27931088, 0.40306926], dtype=float32)
    """

    def __init__(self, seed: int | None = None) -> None:
        """Seed with `seed` (0 <= seed < 2**32); None draws a seed from the operating system."""
        self.seed = seed
        self._twister = np.random.MT19937(0)
        self._state = np.random.RandomState(self._twister)
        self._state.seed(fresh_seed() if seed is None else seed)
        self._kept = np.zeros(2, np.int32)

    @property
    def twister_address(self) -> int:
        """Where the state of the twister lies, for kernels that draw by themselves: 624 words, the position in them."""
        return int(self._twister.ctypes.state_address)

    @property
    def half_pair_address(self) -> int:
        """Where it lies whether the second half of a pair is kept (int32), and that number (float32)."""
        return int(self._kept.ctypes.data)

    @property
    def _half_pair(self) -> NDArray[np.float32]:
        """The second half of a pair, or nothing."""
        return self._kept[1 : 1 + self._kept[0]].view(np.float32)

    @_half_pair.setter
    def _half_pair(self, kept: NDArray[np.float32]) -> None:
        self._kept[0] = kept.size
        self._kept[1 : 1 + kept.size] = kept.view(np.int32)

    def state(self) -> NDArray[np.int32]:
        """Return where it is, as numbers that `restore` takes: it goes on from there, to the last bit.

        >>> first, second = Generator(seed=1), Generator(seed=2)
        >>> first.uniform(3).size, second.restore(first.state())
        (3, None)
        >>> bool(first.uniform(1) == second.uniform(1))
        True
        """
        state = self._state.get_state(legacy=False)["state"]
        position = np.array([state["pos"]], np.uint32)
        return np.concatenate([state["key"], position, self._half_pair.view(np.uint32)]).view(np.int32)

    def restore(self, state: NDArray[np.int32]) -> None:
        """Go on from a state that `state` returned.

        Raises:
            FormatError: these numbers are no state.
        """
        words = np.ascontiguousarray(state, np.int32).reshape(-1).view(np.uint32)
        if not _WORDS < len(words) <= _WORDS + 2 or words[_WORDS] > _WORDS:
            raise FormatError(
                f"{len(words)} numbers are no state of a random generator, which has {_WORDS + 1} or more"
            )
        twister = {"key": words[:_WORDS], "pos": int(words[_WORDS])}
        self._state.set_state({"bit_generator": "MT19937", "state": twister, "has_gauss": 0, "gauss": 0.0})
        self._half_pair = words[_WORDS + 1 :].view(np.float32)

    def raw(self, count: int) -> NDArray[np.uint32]:
        """Return the next `count` 32-bit outputs of the twister."""
        return self._state.randint(0, 2**32, size=count, dtype=np.uint32)

    def uniform(self, count: int, low: float = 0.0, high: float = 1.0) -> NDArray[np.float32]:
        """Return `count` float32 numbers, uniform in [low, high)."""
        found = np.empty(count, np.float32)
        for block in _blocks(found):
            block[...] = self.raw(block.size).view(np.int32) & 0xFFFFFF  # signed ones become floats faster
            block *= np.float32(2.0**-24)
            block *= np.float32(np.float32(high) - np.float32(low))
            block += np.float32(low)
        return found

    def gaussian(self, count: int, mean: float = 0.0, std: float = 1.0) -> NDArray[np.float32]:
        """Return `count` float32 numbers from N(mean, std**2); the second half of a pair is kept for the next call."""
        kept = self._half_pair.copy()
        pairs = (max(count - kept.size, 0) + 1) // 2
        z = np.empty(kept.size + 2 * pairs, np.float32)
        z[: kept.size] = kept
        for block in _blocks(z[kept.size :]):
            self._pairs(block.reshape(-1, 2))
        self._half_pair = z[count:]
        z *= np.float32(std)
        z += np.float32(mean)
        return z[:count]

    def _pairs(self, z: NDArray[np.float32]) -> None:
        """Fill `z` (count, 2) with the standard normal numbers of `count` pairs (Box, Muller 1958)."""
        u, v = np.ascontiguousarray(self.uniform(z.size).reshape(-1, 2).T, np.float64)
        radius = np.sqrt(-2.0 * np.log(1.0 - v)).astype(np.float32).astype(np.float64)
        angle = (_TURN * u).astype(np.float32).astype(np.float64)
        z[:, 0] = radius * np.cos(angle)
        z[:, 1] = radius * np.sin(angle)

    def integers(self, count: int, low: int, high: int, dtype: Any = np.int32) -> NDArray[Any]:
        """Return `count` integers in [low, high], both included; high - low < 2**32."""
        found, span = np.empty(count, dtype), high - low + 1
        for block in _blocks(found):
            r = self.raw(block.size)
            if span < 2**32:
                r -= r // np.uint32(span) * np.uint32(span)  # the remainder; NumPy divides by one number fast
            np.add(r, low, out=block, dtype=np.int64, casting="unsafe")
        return found

    def bernoulli(self, count: int, probability: float) -> NDArray[np.bool_]:
        """Return `count` booleans that are True with `probability`."""
        # A number has 53 bits, 21 of one output and 32 of the next: mostly the upper ones tell whether it is below.
        words = self.raw(2 * count)
        least = math.ceil(min(max(0.0, probability), 1.0) * 2**53)  # the least number that is not; 2**53 times is exact
        upper, lower = divmod(least, 2**32)
        high = words[0::2] & np.uint32(2**21 - 1)
        found = high < np.uint32(upper)
        if lower:
            ties = np.flatnonzero(high == np.uint32(upper))
            found[ties] = words[1::2][ties] < np.uint32(lower)
        return found


def _blocks(numbers: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield the parts of an array that are drawn at a time; an even number of them but for the last."""
    for start in range(0, numbers.size, _BLOCK):
        yield numbers[start : start + _BLOCK]
