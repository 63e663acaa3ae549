"""What an operator must give: the reference kernel in float64, and how far from it each element may lie.

Let u be the unit roundoff of the type that is computed in, and D the largest change of an element, in units of u, that
was seen when all inputs and float arguments were moved by relative steps around u. Then an element y may lie

    u (6 |y| + 6 sqrt(n) D)

from the float64 result, n being the number of operations for one element: D is the condition of the element itself, a
large neighbour that it does not depend on widens nothing. sqrt(n) is how rounding errors of sums grow beyond those of
their terms (Higham, Mikaitis 2019, "A new approach to probabilistic rounding error analysis").

Where the result jumps (a tie, the bound of a clip) D is no condition. There an operator that rounds nothing, which is
seen by the reference giving in float32 exactly what it gives in float64, must give just that; others may give what lies
between the values that were seen around it.

Numbers that are infinite or NaN must stand where the reference has them in float64 or in float32, with denormal inputs
as they are or as zeros: intermediate results overflow and underflow in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from tazza.errors import NumericError
from tazza.operator import OpView
from tazza.operator.choice import find_kernel
from tazza.proto import OperatorDef
from tazza.tensor import DataType
from tazza.testing.value import STEPS
from tests.judge.condition import Condition, conditions, in_float64, letters_read, operations
from tests.judge.draw import Problem, compute
from tests.judge.hand import Array
from tests.judge.meaning import has_meaning

ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
NARROW = 2.0**-16
"""Unit roundoffs above are those of narrow types."""
HUGE = 1e18
PLACES = 12
"""So many that hardly a branch is missed."""
SLACK = 6.0
LEAST = 2.0**-126
"""The least normal float32: what is smaller may be flushed to zero."""
MOST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Wanted:
    """One output: its values in float64, the other values that count too, and the bounds of each element.

    Where it `overflows` a float32 of that size, or none, will do; what lies behind numbers whose squares overflow is
    `excused`, since steps on the way may be infinite or not.
    """

    value: Array
    others: tuple[Array, ...]
    bound: Array
    low: Array
    high: Array
    overflows: Array
    excused: Array
    steps: int = 0
    """How far integers with a scale may be apart."""
    relative: float = 0.0
    """By how much of themselves other values are rounded."""

    @property
    def judged(self) -> Array:
        """Of which elements something can be said: not any number would do."""
        if self.value.dtype.kind != "f":
            return ~self.excused
        return ~self.overflows & ~self.excused & ~(np.isfinite(self.value) & np.isinf(self.bound))


Allowance: TypeAlias = Callable[[Array, Wanted, Array], Array]


@dataclass(frozen=True)
class Standard:
    """What a problem must give, by blob name."""

    wanted: Mapping[str, Wanted] = field(default_factory=dict[str, Wanted])

    @property
    def decides(self) -> bool:
        """Whether there is a result that would be wrong, of each output that has elements."""
        return all(one.value.size == 0 or bool(one.judged.any()) for one in self.wanted.values())


def is_random(type: str) -> bool:
    """Whether an operator draws random numbers: its reference kernel asks for a generator."""
    kernel = find_kernel(type, "cpu", "reference")
    return (
        kernel.function is None
        or "random" in kernel.function.__code__.co_varnames[: kernel.function.__code__.co_argcount]
    )


def standard(problem: Problem, dtype: str = "float32") -> Standard:
    """Return what a problem must give when it is computed in `dtype`."""
    if has_meaning(problem.schema):
        return _by_steps(problem)
    op = problem.schema.view(problem.definition)
    inputs = list(problem.inputs.values())
    plain, single = in_float64(op, inputs), list(compute(problem, times=4).values())
    exact = all(map(_fits, plain, single))
    others = [single] + ([in_float64(op, [_flushed(x) for x in inputs])] if _has_denormals(inputs) else [])
    u = ROUNDOFF[dtype]
    found: dict[str, Wanted] = {}
    flops = operations(op, inputs, plain)
    states = conditions(op, inputs, plain, u, np.random.default_rng(problem.seed))
    with np.errstate(all="ignore"):
        excused = _behind_huge(op, inputs, plain)
    for i, name in enumerate(problem.definition.output):
        if problem.schema.outputs_by_letter[op.output_letters[i]].dims == "0":
            continue  # nobody writes it
        roundoff = max(u, ROUNDOFF[single[i].dtype.name]) if plain[i].dtype.kind == "f" else 0.0
        scale = Scale(roundoff, u, max(1.0, flops / max(1, plain[i].size)), exact)
        values = tuple(np.asarray(one[i], np.float64) if plain[i].dtype.kind == "f" else one[i] for one in others)
        found[name] = _wanted(plain[i], values, states[i], scale, excused[i])
    return Standard(found)


def _by_steps(problem: Problem) -> Standard:
    """Return what the reference gives: integers with a scale may be a step apart, numbers as float32 rounds them."""
    found: dict[str, Wanted] = {}
    for name, value in compute(problem, times=4).items():
        bound = SLACK * ROUNDOFF["float32"] * np.abs(value.astype(np.float64))
        nothing = np.zeros(value.shape, bool)
        steps = STEPS if value.dtype.kind != "f" else 0
        found[name] = Wanted(value, (), bound, value, value, nothing, nothing, steps)
    return Standard(found)


@dataclass(frozen=True)
class Scale:
    """Unit roundoff of the result and of what it is made of, operations for an element, whether none of them rounds."""

    roundoff: float
    u: float
    steps: float
    exact: bool


def _wanted(y: Array, others: tuple[Array, ...], state: Condition, scale: Scale, excused: Array) -> Wanted:
    if y.dtype.name == "bfloat16":  # rounded once, on both sides, from float32 numbers that need not be the same
        value, never = y.astype(np.float64), np.zeros(y.shape, bool)
        with np.errstate(all="ignore"):
            bound = 2 * ROUNDOFF["bfloat16"] * np.abs(value) + 4 * LEAST
        return Wanted(value, (), bound, value, value, never, never)
    if y.dtype.kind != "f":
        nothing, never = np.zeros(y.shape), np.zeros(y.shape, bool)
        return Wanted(y, others, nothing, nothing, nothing, never, never)
    narrow = scale.u > NARROW
    # In bfloat16 what is rounded is inputs and results, sums are those of float32.
    growth = SLACK * (1 + np.sqrt(scale.steps) * NARROW) if narrow else SLACK * np.sqrt(scale.steps)
    with np.errstate(all="ignore"):
        bound = scale.roundoff * SLACK * np.abs(y) + growth * state.change + 4 * LEAST
        overflows = np.isfinite(y) & (np.abs(y) + growth * state.change / scale.u >= MOST / 16)
    stays = scale.exact and not narrow
    low, high = (y, y) if stays else (state.low, state.high)
    return Wanted(y, others, bound, low, high, overflows, excused, relative=scale.roundoff * SLACK)


def _fits(wide: Array, single: Array) -> bool:
    """Whether nothing was rounded: the numbers of the smaller type are those of float64, bit for bit."""
    if wide.dtype.kind != "f":
        return True
    with np.errstate(all="ignore"):
        return bool(np.array_equal(wide, single, equal_nan=True))


def _behind_huge(op: OpView, inputs: list[Array], plain: list[Array]) -> list[Array]:
    """Return which elements depend on a number whose square overflows: float32 has no say there."""
    huge = [np.isfinite(x) & (np.abs(x) > HUGE) if x.dtype.kind == "f" else np.zeros(x.shape, bool) for x in inputs]
    pointwise = op.schema.formulas is not None  # these say by which steps they compute, squares or not
    if pointwise or not any(one.any() for one in huge):
        return [np.zeros(y.shape, bool) for y in plain]
    # Seen at other places, where nothing is multiplied by an accidental 0, and where one or another branch is taken.
    rng = np.random.default_rng(0)
    found = [np.zeros(y.shape, bool) for y in plain]
    still = letters_read(op, inputs)  # shapes follow from them
    huge = [one & (letter not in still) for letter, one in zip(op.input_letters, huge, strict=True)]
    for _ in range(PLACES):
        there = [x if letter in still else _placed(x, rng) for letter, x in zip(op.input_letters, inputs, strict=True)]
        try:
            seen = _moved(op, there, huge, rng)
        except NumericError:  # some numbers mean something, such as probabilities: it is seen where they are
            seen = _moved(op, inputs, huge, rng)
        found = [one | (other if other.shape == one.shape else True) for one, other in zip(found, seen, strict=True)]
    return found


def _moved(op: OpView, inputs: list[Array], huge: list[Array], rng: np.random.Generator) -> list[Array]:
    """Return which elements are others where the huge numbers are: all of an output that has another size there."""
    moved = [
        np.where(one, x * rng.uniform(2, 3, x.shape), x).astype(x.dtype) if one.any() else x
        for one, x in zip(huge, inputs, strict=True)
    ]
    both = zip(in_float64(op, inputs), in_float64(op, moved), strict=True)
    return [a != b if a.shape == b.shape else np.ones(a.shape, bool) for a, b in both]


def _placed(x: Array, rng: np.random.Generator) -> Array:
    """Return floats above 0 of several sizes, anything else as it is."""
    found = rng.uniform(0.01, 0.1, x.shape) * rng.choice((1, 10), x.shape)
    return found.astype(x.dtype) if x.dtype.kind == "f" else x


def _has_denormals(inputs: list[Array]) -> bool:
    return any(x.dtype == np.float32 and bool(((x != 0) & (np.abs(x) < LEAST)).any()) for x in inputs)


def _flushed(x: Array) -> Array:
    return np.where(np.abs(x) < LEAST, np.copysign(np.zeros_like(x), x), x) if x.dtype == np.float32 else x


def wrong(
    got: Mapping[str, Array], problem: Problem, wanted: Standard, allowed: Allowance | None = None
) -> Iterator[str]:
    """Yield a line for each output that is wrong: how many elements, and the worst of them.

    `allowed(result, wanted, bad)` tells which of the elements that are not as wanted may be otherwise.
    """
    for name, one in wanted.wanted.items():
        result = got[name].astype(np.float64) if got[name].dtype.name == "bfloat16" else got[name]
        if result.shape != one.value.shape:
            yield f"{name} has the shape {result.shape}, not {one.value.shape}"
            continue
        bad = _bad(result, one, finite=not problem.wild)
        if bad.any() and allowed is not None:
            bad &= ~allowed(result, one, bad)
        if bad.any():
            yield _told(name, result, one, bad)


def _bad(result: Array, one: Wanted, *, finite: bool) -> Array:
    if one.steps:
        return np.abs(result.astype(np.int64) - one.value.astype(np.int64)) > one.steps
    if result.dtype.kind != "f":
        others = () if finite else one.others  # what is compared may be denormal
        bad = np.asarray(np.logical_and.reduce([result != wanted for wanted in (one.value, *others)]))
        return bad & ~_both_nan(result, one.value)
    y = np.asarray(result, np.float64)
    right = _near(y, one.value, one.bound)
    if not finite or not right.all():
        with np.errstate(all="ignore"):
            right |= np.isfinite(one.value) & (y >= one.low - one.bound) & (y <= one.high + one.bound)
        if not finite:
            for other in one.others:
                with np.errstate(all="ignore"):
                    bound = one.bound + one.relative * np.abs(other)
                right |= _near(y, other, bound)
        right |= one.overflows & ~(np.abs(y) < MOST / 64)
        right |= one.excused & ~(finite & np.isfinite(y))
    return ~right


def _both_nan(result: Array, wanted: Array) -> Array:
    """Return where both are NaN; what is no float, or a type that NumPy does not count to them, may have none."""
    if DataType.of(result) is not DataType.BFLOAT16:
        return np.zeros(result.shape, bool)
    return np.isnan(result.astype(np.float32)) & np.isnan(wanted.astype(np.float32))


def _near(y: Array, wanted: Array, bound: Array) -> Array:
    with np.errstate(all="ignore"):
        single = np.asarray(np.asarray(wanted, np.float32), np.float64)
        same = (y == single) | (np.isnan(y) & np.isnan(wanted))
        return same | (np.isfinite(y) & np.isfinite(wanted) & (np.abs(y - wanted) <= bound))


def _told(name: str, result: Array, one: Wanted, bad: Array) -> str:
    with np.errstate(all="ignore"):
        far = np.where(
            bad, np.abs(np.asarray(result, np.float64) - np.asarray(one.value, np.float64)) / (one.bound + 1e-300), -1.0
        )
    far = np.where(bad & ~np.isfinite(far), np.inf, far)
    place = tuple(int(n) for n in np.unravel_index(int(np.argmax(far)), far.shape))
    value, bound = one.value[place], one.bound[place]
    worst = f"{name}{list(place)} = {result[place]!s} for {value!s} +- {bound:.3g}"
    return f"{name}: {int(bad.sum())} of {bad.size} elements, {worst}"


def rewritten(problem: Problem, engine: str) -> OperatorDef:
    """Return the operator with an engine asked for."""
    definition = OperatorDef.FromString(problem.definition.SerializeToString())
    definition.engine = engine
    return definition
