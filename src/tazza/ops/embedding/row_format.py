"""Rows of numbers in few bits: each row has its own scale and bias, which stand behind its codes.

    x = code * scale + bias

A row of D numbers becomes D codes of `room` bits each, the first one in the lowest bits, and then scale and bias as
bytes of float32 or float16. Every number of the formats is that of Caffe2, to the bit. NaN has the code 0.

Source: Caffe2; the search for narrower bounds is that of Guan and others 2019, arXiv 1911.02079.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import Array

LARGEST = float(np.finfo(np.float32).max)
SEARCH_STEPS = 200
"""Parts of a row's range by which its bounds are moved."""
SEARCH_LEFT = 0.84
"""Share of the range that a search leaves at least."""

Pair = tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class _Search:
    """How a search for narrower bounds stands, for each row.

    Attributes:
        low: bounds that are looked at.
        high: bounds that are looked at.
        now: what these cost.
        best: what the best candidate costs, infinite without one.
        found: bounds of the best candidate.
    """

    low: Array
    high: Array
    now: Array
    best: Array
    found: Pair


@dataclass(frozen=True, slots=True)
class RowFormat:
    """How a row is kept.

    Attributes:
        bits: of a code, that is 2^bits values.
        room: bits that a code takes.
        scalars: type of scale and bias, as they are kept.
        exact: these are not rounded to float16 before codes are made.
        text: the format in words.
    """

    bits: int
    room: int
    scalars: Any
    text: str
    exact: bool = False

    @property
    def top(self) -> int:
        """The largest code."""
        return 2**self.bits - 1

    @property
    def in_byte(self) -> int:
        """Codes in a byte."""
        return 8 // self.room

    @property
    def behind(self) -> int:
        """Bytes of scale and bias."""
        return 2 * np.dtype(self.scalars).itemsize

    @property
    def mimics(self) -> bool:
        """Whether codes of fewer bits take a byte each, so that rows can be read as those of eight bits."""
        return self.bits < self.room

    def width(self, columns: int) -> int:
        """Return the bytes of a row of so many numbers, a multiple of `in_byte`."""
        return columns // self.in_byte + self.behind

    def columns(self, width: int) -> int:
        """Return how many numbers a row of so many bytes holds; negative where it is none."""
        return (width - self.behind) * self.in_byte

    def scale_and_bias(self, low: Array, high: Array) -> Pair:
        """Return both in float32, for the bounds of rows (..., 1)."""
        if self.exact:
            return (high - low) / np.float32(self.top), low
        bias = _half(low)
        spread = high - bias
        scale = _half(np.where(spread == 0, np.float32(1), spread / np.float32(self.top)))
        return (scale if self.mimics else np.where(scale == 0, np.float32(1), scale)), bias

    def codes(self, x: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
        """Return codes, scale and bias of rows x (..., D) of float32 between bounds (..., 1), all in float32."""
        scale, bias = self.scale_and_bias(low, high)
        inverse = np.float32(self.top) / (high - low + np.float32(1e-8)) if self.exact else np.float32(1) / scale
        found = np.rint((x - bias) * inverse)
        return np.where(np.isfinite(found), np.clip(found, 0, self.top), np.float32(0)), scale, bias

    def encode(self, x: Array, *, search: bool = False) -> Array:
        """Return the bytes (..., width) of rows (..., D) of float32.

        Args:
            x: rows; D is a multiple of `in_byte`.
            search: take narrower bounds where the squares of all errors of a row become less.
        """
        with np.errstate(all="ignore"):
            low, high = bounds(x, first=self.mimics or search)
            if search:
                low, high = self.searched(x, low, high)
            codes, *scalars = self.codes(x, low, high)
            kept = np.concatenate(scalars, axis=-1).astype(self.scalars)
        return np.concatenate([self.packed(codes.astype(np.uint8)), kept.view(np.uint8)], axis=-1)

    def decode(self, rows: Array) -> Array:
        """Return the numbers (..., D) of rows of bytes (..., width), in float32."""
        codes, kept = rows[..., : -self.behind], np.ascontiguousarray(rows[..., -self.behind :])
        scalars = kept.view(self.scalars).astype(np.float32)
        with np.errstate(all="ignore"):
            return self.unpacked(codes) * scalars[..., :1] + scalars[..., 1:]

    def packed(self, codes: Array) -> Array:
        """Return codes (..., D) of a byte each as bytes (..., D / in_byte)."""
        apart = codes.reshape(*codes.shape[:-1], codes.shape[-1] // self.in_byte, self.in_byte)
        return np.bitwise_or.reduce(apart << self.shifts(), axis=-1)

    def unpacked(self, bytes_: Array) -> Array:
        """Return the codes (..., D) in bytes (..., D / in_byte)."""
        apart = (bytes_[..., None] >> self.shifts()) & np.uint8(2**self.room - 1)
        return apart.reshape(*bytes_.shape[:-1], bytes_.shape[-1] * self.in_byte)

    def shifts(self) -> Array:
        """Return where each code of a byte begins."""
        return np.arange(0, 8, self.room, dtype=np.uint8)

    def errors(self, x: Array, low: Array, high: Array) -> Array:
        """Return the roots of the squared errors of rows (N, D), added up: (N, 1)."""
        codes, scale, bias = self.codes(x, low, high)
        errors = x - (codes * scale + bias)
        return np.sqrt((errors * errors).sum(-1, keepdims=True))

    def searched(self, x: Array, low: Array, high: Array) -> Pair:
        """Return narrower bounds (..., 1) of rows (..., D).

        Step by step that bound moves inward that costs less. Where either step would cost more than the bounds now do,
        these are a candidate, and the best candidate is taken; without one the bounds are left.
        """
        step = (high - low) / np.float32(SEARCH_STEPS)
        least = np.float32(SEARCH_STEPS * SEARCH_LEFT) * step
        state = _Search(low, high, self.errors(x, low, high), np.full_like(low, np.inf), (low, high))
        while (on := state.low + least < state.high).any():
            state = self._step(x, state, step, on)
        return state.found

    def _step(self, x: Array, at: _Search, step: Array, on: Array) -> _Search:
        """Return how a search stands after a step of the rows that are `on`."""
        low, high = at.low, at.high
        lower, upper = self.errors(x, low + step, high), self.errors(x, low, high - step)
        better = on & (at.now < lower) & (at.now < upper) & (at.now < at.best)
        up, down = on & (lower < upper), on & ~(lower < upper)
        return _Search(
            low=np.where(up, low + step, low),
            high=np.where(down, high - step, high),
            now=np.where(up, lower, np.where(down, upper, at.now)),
            best=np.where(better, at.now, at.best),
            found=(np.where(better, low, at.found[0]), np.where(better, high, at.found[1])),
        )


def _half(x: Array) -> Array:
    """Return float32 numbers as float16 has them."""
    return x.astype(np.float16).astype(np.float32)


def bounds(x: Array, *, first: bool) -> Pair:
    """Return the least and the greatest number of rows (..., D), as (..., 1); NaN counts where it stands first only.

    Args:
        x: rows.
        first: the first number is what others are compared with; else the largest numbers of float32 are.
    """
    if not first:
        low = np.fmin.reduce(x, axis=-1, keepdims=True, initial=np.float32(LARGEST))
        return low, np.fmax.reduce(x, axis=-1, keepdims=True, initial=np.float32(-LARGEST))
    head = x[..., :1]
    low, high = (one.reduce(x, axis=-1, keepdims=True) for one in (np.fmin, np.fmax))
    return np.where(np.isnan(head), head, low), np.where(np.isnan(head), head, high)


EIGHT = RowFormat(8, 8, np.float32, "a byte for each number, then scale and bias in float32", exact=True)
EIGHT_HALF = RowFormat(8, 8, np.float16, "a byte for each number, then scale and bias in float16")
FOUR = RowFormat(4, 4, np.float16, "half a byte for each number, then scale and bias in float16")
TWO = RowFormat(2, 2, np.float16, "a quarter of a byte for each number, then scale and bias in float16")
FOUR_IN_EIGHT = RowFormat(4, 8, np.float32, "codes of 4 bits, a byte each, then scale and bias in float32")
TWO_IN_EIGHT = RowFormat(2, 8, np.float32, "codes of 2 bits, a byte each, then scale and bias in float32")
