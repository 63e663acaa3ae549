"""What an engine may do otherwise by docs/differences.md: each line here quotes the row that allows it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.judge.draw import Problem
from tests.judge.hand import Array
from tests.judge.verdict import Allowance, Wanted

TILE = 2.0**12
"""By so much the sums within a tile, over up to 70 channels, are larger than one product."""


@dataclass(frozen=True)
class Declared:
    """The beginning of a row, the engine, the types it is about, and which elements may be otherwise."""

    row: str
    engine: str
    types: Callable[[str], bool]
    allows: Callable[[Problem, Array, Wanted], Array]
    condition: Callable[[Problem], bool] = lambda _: True
    """Of these types the problems that it is about."""
    dtype: str = ""
    """What is computed in; any where it says nothing."""

    def about(self, problem: Problem) -> bool:
        """Whether a problem is one that it is about."""
        return self.types(problem.type) and self.condition(problem)


def _not_finite(problem: Problem) -> bool:
    return any(x.dtype.kind == "f" and not bool(np.isfinite(x).all()) for x in problem.inputs.values())


def _overflows(problem: Problem) -> bool:
    """Whether a pixel is not finite, or no number where a weight is added to others: their product is too large."""
    sizes = [float(np.abs(x).max(initial=0.0)) for name, x in problem.inputs.items() if name in ("X", "W", "dY")]
    largest = max([0.0, *(a * b for a, b in itertools.combinations(sizes, 2))])
    return _not_finite(problem) or largest > float(np.finfo(np.float32).max) / TILE


def _has_relu(problem: Problem) -> bool:
    """Whether it is a layer whose epilogue has a rectifier, or a sigmoid."""
    return _in_epilogue(problem, "max(", "relu(", "sigmoid(")


def _in_epilogue(problem: Problem, *functions: str) -> bool:
    texts = [a.s.decode() for a in problem.definition.arg if a.name in ("epilogue", "inner")]
    return any(name in text for name in functions for text in texts)


def _of_types(*types: str) -> Callable[[str], bool]:
    return lambda type: type in types


def _named(part: str) -> Callable[[str], bool]:
    return lambda type: part in type


def _any(type: str) -> bool:
    del type
    return True


def _behind_nan(problem: Problem, result: Array, wanted: Wanted) -> Array:
    """The gradient itself where Y or X is NaN, and a number where a sum over such elements is."""
    dY = problem.inputs["dY"]
    if dY.shape != wanted.value.shape:
        return np.isnan(wanted.value)
    known = [problem.inputs[name] for name in ("X", "Y") if name in problem.inputs]
    spoilt = np.logical_or.reduce([np.isnan(x) for x in known])
    return spoilt & ((result == dY) | (np.isnan(result) & np.isnan(dY)))


def _is_max_pool(type: str) -> bool:
    return type.startswith("MaxPool") and not type.endswith("Gradient")


def _zero_for_nan(problem: Problem, result: Array, wanted: Wanted) -> Array:
    """Zero, and what an epilogue makes of it: that goes on behind its maximum."""
    del problem
    return np.isnan(wanted.value) & ~np.isnan(result)


def _largest_number(problem: Problem, result: Array, wanted: Wanted) -> Array:
    """The largest number where a NaN is wanted."""
    X = problem.inputs["X"]
    return np.isnan(wanted.value) & np.isin(result, X[~np.isnan(X)])


def _least_finite(problem: Problem, result: Array, wanted: Wanted) -> Array:
    """The least finite number where minus infinity is wanted, or NaN."""
    del problem
    return (np.isnan(wanted.value) | np.isneginf(wanted.value)) & (result == np.finfo(np.float32).min)


def _spoilt(problem: Problem, result: Array, wanted: Wanted) -> Array:
    del problem, wanted
    return ~np.isfinite(result)


def _largest(problem: Problem, result: Array, wanted: Wanted) -> Array:
    """Within 3e-5 of the largest element with 512 channels, by the square root of their number.

    Large is also what a weight would give at a pixel that it does not meet: all weights of a tile are added first.
    """
    finite = wanted.value[np.isfinite(wanted.value)]
    largest = float(np.abs(finite).max()) if finite.size else 0.0
    meeting = [float(np.abs(x).max(initial=0.0)) for name, x in problem.inputs.items() if name in ("X", "W", "dY")]
    products = [a * b for a, b in itertools.combinations(meeting, 2) if np.isfinite(a * b)]
    channels = max(problem.inputs["W"].shape[:2])
    with np.errstate(all="ignore"):
        return np.abs(result - wanted.value) <= 3e-5 * max([largest, *products]) * max(1.0, channels / 512) ** 0.5


def _nan_for_infinity(problem: Problem, result: Array, wanted: Wanted) -> Array:
    del problem
    return np.isnan(result) & np.isinf(wanted.value)


def _scale_overflows(problem: Problem, result: Array, wanted: Wanted) -> Array:
    """Where the cube of scale, or X * X, is beyond float32: scale^-0.75 is the fourth root of scale^-3 there.

    scale itself is got back from Y, so it is NaN where X is infinite.
    """
    del wanted
    numbers = {argument.name: argument for argument in problem.definition.arg}
    alpha = numbers["alpha"].f if "alpha" in numbers else 0.0
    X = problem.inputs["X"]
    axis = X.ndim - 1 if numbers["order"].s.upper() == b"NHWC" else 1
    reach, squares = numbers["size"].i, np.square(X, dtype=np.float64)
    large = (alpha / reach * squares > 1e12) | (squares > np.finfo(np.float32).max)
    near = large.copy()
    for shift in range(1, reach):
        front = np.roll(large, shift, axis), np.roll(large, -shift, axis)
        near |= front[0] | front[1]
    if problem.type != "LRN":
        return near
    return near & (np.isfinite(result) | np.isinf(X) & np.isnan(result))


DECLARED = (
    Declared(
        "engine `onednn`: `LRN` where scale is above 7e12", "onednn", _of_types("LRN", "LRNGradient"), _scale_overflows
    ),
    Declared("engine `onednn`: an epilogue with max", "onednn", _any, _zero_for_nan, _has_relu),
    Declared("engine `onednn`: `PReluGradient` where", "onednn", _of_types("PReluGradient"), _behind_nan),
    Declared("engine `onednn`: `MaxPool` of a window with NaN", "onednn", _is_max_pool, _largest_number),
    Declared("engine `onednn`: `MaxPool` of a window that holds", "onednn", _is_max_pool, _least_finite),
    Declared(
        "engine `onednn` in bfloat16: a convolution of",
        "onednn",
        _named("Conv"),
        _nan_for_infinity,
        _not_finite,
        "bfloat16",
    ),
    Declared(
        "engine `native/channels_last`: a channel that holds an infinity",
        "native/channels_last",
        _named("SpatialBN"),
        _nan_for_infinity,
        _not_finite,
    ),
    Declared("engine `native/winograd`: a pixel that is infinite or NaN", "native/winograd", _any, _spoilt, _overflows),
    Declared("engine `native/winograd`: rounding of convolutions", "native/winograd", _any, _largest),
)


EXCUSED: Counter[str] = Counter()
"""Row -> how many elements it has excused in this process that would have been wrong."""


def allowance(problem: Problem, engine: str, dtype: str = "float32") -> Allowance:
    """Return what tells which elements may be otherwise, by what is documented of the engine."""
    found = [one for one in DECLARED if one.engine == engine and one.dtype in ("", dtype) and one.about(problem)]

    def allows(result: Array, wanted: Wanted, bad: Array) -> Array:
        allowed = np.zeros(wanted.value.shape, bool)
        for one in found:
            excused = bad & one.allows(problem, result, wanted)
            EXCUSED[one.row] += int(excused.sum())
            allowed |= excused
        return allowed

    return allows
