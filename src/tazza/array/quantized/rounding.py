"""Ways to make a whole number of a real one; `ROUNDINGS` has them by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.registry import Registry

Reals = npt.NDArray[np.float64]
Round = Callable[[Reals, "np.random.Generator | None"], Reals]


@dataclass(frozen=True, slots=True)
class Rounding:
    """How to round, and how far from x the result may be: |round(x) - x| <= `reach`."""

    round: Round
    reach: float


ROUNDINGS: Registry[str, Rounding] = Registry("rounding")


def _rounding(name: str, reach: float, doc: str) -> Callable[[Round], Round]:
    def decorate(function: Round) -> Round:
        ROUNDINGS.register(name, Rounding(function, reach), help=doc)
        return function

    return decorate


@_rounding("nearest_even", 0.5, "to the nearest, ties to the even one")
def _nearest_even(x: Reals, generator: np.random.Generator | None) -> Reals:
    del generator
    return np.rint(x)


@_rounding("nearest_away", 0.5, "to the nearest, ties away from zero")
def _nearest_away(x: Reals, generator: np.random.Generator | None) -> Reals:
    del generator
    whole = np.trunc(x)
    # Adding a half first would round 0.49999999999999994 up: the sum is not exact, this difference is.
    return whole + np.copysign((np.abs(x - whole) >= 0.5).astype(np.float64), x)


@_rounding("floor", 1.0, "down")
def _floor(x: Reals, generator: np.random.Generator | None) -> Reals:
    del generator
    return np.floor(x)


@_rounding("stochastic", 1.0, "up with the probability of the fraction, else down: right on average")
def _stochastic(x: Reals, generator: np.random.Generator | None) -> Reals:
    if generator is None:
        raise ArgumentError(
            "stochastic rounding draws random numbers, and generator is None",
            hint="give generator=numpy.random.default_rng(seed)",
        )
    below = np.floor(x)
    return below + (generator.random(x.shape) < x - below)
