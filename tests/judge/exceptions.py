"""What an engine may do otherwise by docs/differences.md: each line here quotes the row that allows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.judge.draw import Problem
from tests.judge.hand import Array
from tests.judge.verdict import Allowance, Wanted


@dataclass(frozen=True)
class Declared:
    """The beginning of a row, the engine, which problems it is about, and which elements may be otherwise."""

    row: str
    engine: str
    about: Callable[[Problem], bool]
    allows: Callable[[Problem, Array, Wanted], Array]


def _not_finite(problem: Problem) -> bool:
    return any(x.dtype.kind == "f" and not bool(np.isfinite(x).all()) for x in problem.inputs.values())


def _has_relu(problem: Problem) -> bool:
    """Whether it is a Relu, or a layer whose epilogue has one."""
    texts = [a.s.decode() for a in problem.definition.arg if a.name in ("epilogue", "inner")]
    return problem.type == "Relu" or any("max(" in text or "relu(" in text for text in texts)


def _is_max_pool(problem: Problem) -> bool:
    return problem.type.startswith("MaxPool") and not problem.type.endswith("Gradient")


def _where_nan(problem: Problem, result: Array, wanted: Wanted) -> Array:
    del problem, result
    return np.isnan(wanted.value)


def _where_not_finite(problem: Problem, result: Array, wanted: Wanted) -> Array:
    """Where a NaN is wanted the largest number may stand, in place of minus infinity the least finite one."""
    del problem
    return np.isnan(wanted.value) | (np.isneginf(wanted.value) & (result < -3e38))


def _spoilt(problem: Problem, result: Array, wanted: Wanted) -> Array:
    del problem, wanted
    return ~np.isfinite(result)


def _largest(problem: Problem, result: Array, wanted: Wanted) -> Array:
    """Within 3e-5 of the largest element with 512 channels, by the square root of their number."""
    finite = wanted.value[np.isfinite(wanted.value)]
    largest = float(np.abs(finite).max()) if finite.size else 0.0
    channels = max(problem.inputs["W"].shape[:2])
    with np.errstate(all="ignore"):
        return np.abs(result - wanted.value) <= 3e-5 * largest * max(1.0, channels / 512) ** 0.5


DECLARED = (
    Declared("engine `onednn`: `Relu` of NaN", "onednn", _has_relu, _where_nan),
    Declared("engine `onednn`: `MaxPool` of a window", "onednn", _is_max_pool, _where_not_finite),
    Declared("engine `winograd`: a pixel that is infinite or NaN", "winograd", _not_finite, _spoilt),
    Declared("engine `winograd`: rounding of convolutions", "winograd", lambda problem: True, _largest),
)


def allowance(problem: Problem, engine: str) -> Allowance:
    """Return what tells which elements may be otherwise, by what is documented of the engine."""
    found = [one for one in DECLARED if one.engine == engine and one.about(problem)]

    def allows(result: Array, wanted: Wanted) -> Array:
        allowed = np.zeros(wanted.value.shape, bool)
        for one in found:
            allowed |= one.allows(problem, result, wanted)
        return allowed

    return allows
