"""The evaluator `numpy`: a program block by block, so that what lies between its steps stays in the cache.

It takes every program and every type, and is the judge of the others. Half-precision values are kept in float32 between
steps and rounded where they are cast or stored. Infinities and NaN are results, so NumPy's warnings are off.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tazza.array.evaluator import EVALUATORS, Array, Prepared, Sweep
from tazza.array.program import REDUCTIONS, ElementProgram, accumulator_type, initial, types_of
from tazza.runtime.cache import remembered
from tazza.tensor.dtype import DataType
from tazza.tensor.function import CASTS, FUNCTIONS

BLOCK = 1 << 15
"""Elements of a block: 128 KiB of float32 for each value that is alive."""
HALVES = frozenset({DataType.FLOAT16, DataType.BFLOAT16})

_Move = tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]
"""A function, the numbers of its operands, and the numbers of values that nobody needs after it."""


def wide(dtype: DataType) -> np.dtype[Any]:
    """Return the NumPy type in which values are kept between steps."""
    return DataType.FLOAT.numpy if dtype in HALVES else dtype.numpy


@remembered("casts", entries=1024)
def casting(source: DataType, target: DataType, computed: bool) -> Callable[[Any], Any]:
    """Return what casts; a half-precision value that was computed is rounded first."""

    def cast(x: Any) -> Any:
        value = np.asarray(x)
        if computed and source in HALVES:
            value = value.astype(source.numpy)
        return value.astype(target.numpy).astype(wide(target))

    return cast


@remembered("moves of programs", entries=1024)
def _moves(program: ElementProgram) -> tuple[_Move, ...]:
    """Return what is to do, step by step."""
    types, first = types_of(program), len(program.operands)
    last: dict[int, int] = {}
    for number, (_, operands) in enumerate(program.steps):
        last.update(dict.fromkeys(operands, number))
    moves: list[_Move] = []
    for number, (name, operands) in enumerate(program.steps):
        function = FUNCTIONS[name].evaluate
        if name in CASTS:
            function = casting(types[operands[0]], CASTS[name], operands[0] >= first)
        dead = tuple(one for one, end in last.items() if end == number and one not in program.results)
        moves.append((function, operands, dead))
    return tuple(moves)


def _compute(program: ElementProgram, sources: list[Array]) -> list[Any]:
    """Return the results for a block."""
    pairs = zip(sources, program.operands, strict=True)
    values: list[Any] = [x.astype(np.float32) if dtype in HALVES else x for x, dtype in pairs]
    for function, operands, dead in _moves(program):
        values.append(function(*[values[one] for one in operands]))
        for one in dead:
            values[one] = None
    return [values[one] for one in program.results]


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Yield the ranges of blocks of at most `BLOCK` elements that cover a shape."""
    inner, axis = 1, len(shape)
    while axis > 0 and inner * shape[axis - 1] <= BLOCK:
        axis -= 1
        inner *= shape[axis]
    if axis == 0:
        yield tuple(slice(0, extent) for extent in shape)
        return
    step = max(1, BLOCK // inner)
    cut = axis - 1
    rest = tuple(slice(0, extent) for extent in shape[axis:])
    for index in itertools.product(*(range(extent) for extent in shape[:cut])):
        head = tuple(slice(i, i + 1) for i in index)
        for start in range(0, shape[cut], step):
            yield (*head, slice(start, min(start + step, shape[cut])), *rest)


def _store(targets: Sequence[Array], values: list[Any]) -> None:
    """Write results; one that is an operand itself, and so may be a target before it, is copied first."""
    for k in range(1, len(values)):
        if any(np.may_share_memory(values[k], target) for target in targets[:k]):
            values[k] = np.array(values[k])
    for target, value in zip(targets, values, strict=True):
        np.copyto(target, value, casting="unsafe")


def _pointwise(task: Sweep) -> None:
    if math.prod(task.shape) <= BLOCK:
        _store(task.targets, _compute(task.program, list(task.sources)))
        return
    spread = [np.broadcast_to(x, task.shape) for x in task.sources]
    for block in _blocks(task.shape):
        found = _compute(task.program, [x[block] for x in spread])
        _store([target[block] for target in task.targets], found)


def _reduce(task: Sweep) -> None:
    """Join the parts of a reduction block by block, in a type that is wide enough."""
    program, (target,) = task.program, task.targets
    reduction, dtype = program.reduction, types_of(program)[program.results[0]]
    carried = wide(accumulator_type(reduction, dtype))
    join: Any = FUNCTIONS[REDUCTIONS[reduction]].evaluate
    total = target if carried == target.dtype else np.empty(target.shape, carried)
    total[...] = np.array(initial(reduction, dtype)).astype(carried)
    spread = [np.broadcast_to(x, task.shape) for x in task.sources]
    for block in _blocks(task.shape) if 0 not in task.shape else ():
        (value,) = _compute(program, [x[block] for x in spread])
        whole = np.broadcast_to(value, [one.stop - one.start for one in block])
        part = join.reduce(whole.astype(carried, copy=False), axis=task.axes, keepdims=True)
        place = tuple(slice(0, 1) if axis in task.axes else one for axis, one in enumerate(block))
        total[place] = join(total[place], part)
    if reduction == "mean":
        total[...] = total / math.prod(task.shape[axis] for axis in task.axes)
    if total is not target:
        np.copyto(target, total, casting="unsafe")


@EVALUATORS.solving("numpy", help="NumPy in blocks of the cache's size; takes everything")
def prepare_blocks(task: Sweep) -> Prepared:
    """Take every task."""
    work = _reduce if task.program.reduction else _pointwise

    def run() -> None:
        if task.program.reduction or 0 not in task.shape:
            with np.errstate(all="ignore"):
                work(task)

    return Prepared(run, f"NumPy, step by step over blocks of {BLOCK} elements", cached=True)
