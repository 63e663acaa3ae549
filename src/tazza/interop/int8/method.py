"""Methods of calibration: from how often numbers were seen to the range that bytes stand for.

"min-max" loses nothing and has the widest steps; "percentile" and "entropy" give up what is far out for finer steps.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.interop.int8.histogram import Histogram
from tazza.registry import Registry
from tazza.tensor import PerTensor

RARE = 0.0001
"""Share of the elements that "percentile" leaves out, at either end."""
FINE = 2048
"""Bins between 0 and the largest size of a number, of which "entropy" asks where to cut."""
EVERY = 16
"""How many bins its cuts are apart."""
STEPS = 255
FEWEST = 2 * STEPS
"""Bins that a cut leaves at least: with fewer than two for a step it would not see what steps lose."""
NONE = 1e-9
"""What counts as the share of a bin that bytes have nothing for."""


@dataclass(frozen=True, slots=True)
class Range:
    """Between which numbers the elements of a blob lie, and its shape; 0 is always among the numbers.

    >>> Range(-1.0, 4.1).quantization
    PerTensor(scale=0.019999999552965164, zero_point=50)
    """

    low: float
    high: float
    shape: tuple[int, ...] = ()

    @property
    def quantization(self) -> PerTensor:
        """The scale and the zero point that bring the range into bytes."""
        low, high = min(self.low, 0.0), max(self.high, 0.0)
        scale = (high - low) / STEPS if high > low else 1.0
        return PerTensor(max(scale, 2.0**-100), round(-low / scale))


Method = Callable[[Histogram], Range]
METHODS: Registry[str, Method] = Registry("method of calibration")
"""Name -> function from what was seen, at least one number, to its range."""


def find_method(name: str) -> Method:
    """Return a method by name.

    Raises:
        ArgumentError: there is no such method.
    """
    if name not in METHODS:
        raise ArgumentError(f"there is no method {name!r} of calibration", hint=f"take one of {', '.join(METHODS)}")
    return METHODS[name]


def min_max(seen: Histogram) -> Range:
    """Return the range from the least number to the largest."""
    return Range(seen.low, seen.high)


def percentile(seen: Histogram) -> Range:
    """Return the range without the share `RARE` of the numbers at either end."""
    return Range(seen.quantile(RARE), seen.quantile(1 - RARE))


def entropy(seen: Histogram) -> Range:
    """Return the range whose bytes tell most of how often numbers occur: the least divergence of the two.

    P says how often numbers of a bin occur, those beyond the cut counted into the last bin; Q is what is known of that
    where only 255 steps are told apart. The cut with the least sum of P log(P / Q) is taken. 0, which bytes hold
    exactly, is not counted.

    Source: Migacz, 8-bit inference with TensorRT, 2017; Kullback, Leibler 1951. Where numbers of either sign were seen,
    both sides are cut at the same size, unless one does not reach so far.
    """
    reach = max(-seen.low, seen.high)
    if reach <= 0:
        return min_max(seen)
    edges = np.linspace(-reach, reach, 2 * FINE + 1)
    edges[FINE] = 0.0
    mass = np.diff(seen.below(edges))
    mass[FINE] -= min(seen.zeros, mass[FINE])
    first = int(np.searchsorted(edges, seen.low, "right")) - 1
    last = int(np.searchsorted(edges, seen.high, "left"))
    best, size = float("inf"), reach
    for cut in range(FINE, 0, -EVERY):
        begin, end = max(FINE - cut, min(first, FINE)), min(FINE + cut, max(last, FINE))
        if cut < FINE and end - begin < FEWEST:
            break
        found = _divergence(mass, begin, end)
        if found < best:
            best, size = found, reach * cut / FINE
    return Range(max(seen.low, -size), min(seen.high, size))


def _divergence(mass: NDArray[np.float64], begin: int, end: int) -> float:
    """Return the sum of P log(P / Q) for bytes that stand for the bins from `begin` up to `end`."""
    inside = mass[begin:end]
    if not inside.sum():
        return float("inf")
    p = inside.copy()
    p[0] += mass[:begin].sum()
    p[-1] += mass[end:].sum()
    step = np.arange(len(p)) * STEPS // len(p)
    held = inside > 0
    of_step = np.bincount(step, inside, STEPS)[step] / np.maximum(np.bincount(step, held, STEPS)[step], 1)
    q = np.where(held, of_step, 0.0)
    p, q = p / p.sum(), np.maximum(q / q.sum(), NONE)
    some = p > 0
    return float((p[some] * np.log(p[some] / q[some])).sum())


METHODS.register("min-max", min_max, help="from the least to the largest element")
METHODS.register("percentile", percentile, help=f"without the {RARE:.2%} that lie farthest out, at either end")
METHODS.register("entropy", entropy, help="cut where bytes tell most of how often numbers occur")
