"""How much a result changes when what it is made of moves a little: its condition, element by element."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np

from tazza.errors import TazzaError
from tazza.operator import OpView, formulas_of
from tazza.tensor import DataType, TensorSpec
from tazza.tensor.expression import Expression
from tazza.tensor.function import FUNCTIONS, Rule
from tazza.testing.gradient import specs_told
from tests.check import evaluate
from tests.judge.hand import Array

DRAWS = 8
"""So many that hardly an element meets but small changes."""
FINE = 2.0**-8
"""How much smaller the steps are that tell a jump from a slope."""
JUMP = 0.25
"""A change that does not shrink by more than this when the steps do by `FINE` is a jump."""
MOVED = ("float32", "float64")
UNROUNDED = frozenset(
    {"max", "min", "maximum", "minimum", "relu", "abs", "neg", "where", "sign", "floor", "ceil", "round"}
)
"""Functions whose value is one of their operands', or an integer."""


Factor: TypeAlias = Callable[[tuple[int, ...], float], Any]
"""Shape and number of terms -> 1 with an error of a rounding; that of a sum of so many terms grows by their root."""
Stepped: TypeAlias = Callable[[OpView, list[Array], Factor], "list[Array] | None"]
STEPPED: dict[str, Stepped] = {}
"""Operator type -> its outputs when what it computes first is rounded; None where it is given that."""


def steps_of(*types: str) -> Callable[[Stepped], Stepped]:
    """Register how these operators compute: what they compute first is rounded, and its moves may be all there is.

    Of what normalizes a channel with one huge number, for one, nothing changes when that number does, but much when the
    mean is a little off; nor does the sign of the distance of two numbers, though their mean is rounded as they are.
    """

    def decorate(function: Stepped) -> Stepped:
        STEPPED.update(dict.fromkeys(types, function))
        return function

    return decorate


def stepwise(op: OpView, inputs: list[Array], plain: list[Array], factor: Factor) -> list[Array] | None:
    """Return the outputs with each step inside rounded otherwise; None where nothing is known of the steps."""
    if op.type in STEPPED:
        return STEPPED[op.type](op, inputs, factor)
    formulas = formulas_of(op)
    if not formulas or any(x.dtype.kind in "iu" for x in inputs) or all(x.dtype.kind == "b" for x in inputs):
        return None
    return _by_formula(op, inputs, plain, formulas, lambda shape: factor(shape, 1.0))


def operations(op: OpView, inputs: list[Array], outputs: list[Array]) -> float:
    """Return the number of operations, by the schema."""

    def specs(arrays: list[Array]) -> list[TensorSpec]:
        return [TensorSpec(x.shape, DataType.FLOAT if x.dtype == np.float64 else DataType.of(x)) for x in arrays]

    return float(op.schema.infer_cost(op, specs(inputs), specs(outputs)).flops)


@dataclass(frozen=True)
class Condition:
    """Of one output: `change` for steps of relative size `step`, where it jumps, and between which values it lies."""

    change: Array
    jumps: Array
    low: Array
    high: Array


def conditions(
    op: OpView, inputs: list[Array], plain: list[Array], step: float, rng: np.random.Generator
) -> list[Condition]:
    """Return the condition of each output: the sum over what each input, the arguments, and each rounding brings.

    Inputs move one by one, since some belong together: the gradient of a maximum compares X with Y.
    """
    found = [Condition(np.zeros(y.shape), np.zeros(y.shape, bool), _real(y), _real(y)) for y in plain]
    with np.errstate(all="ignore"):
        for move in _moves(op, inputs, plain, rng):
            around = [move(step) for _ in range(DRAWS)]
            near = [move(step * FINE) for _ in range(2)]
            found = [
                _joined(one, _real(y), [_real(run[i]) for run in around], [_real(run[i]) for run in near])
                for i, (one, y) in enumerate(zip(found, plain, strict=True))
            ]
    return found


def _real(y: Array) -> Array:
    return np.asarray(y, np.float64) if y.dtype.kind == "f" else np.zeros(y.shape)


def _joined(before: Condition, y: Array, around: list[Array], near: list[Array]) -> Condition:
    change, fine = _largest(y, around), _largest(y, near)
    jumps = fine > JUMP * change
    low, high = before.low, before.high
    for values in (one for one in (*around, *near) if one.shape == y.shape):
        low, high = np.where(jumps, np.fmin(low, values), low), np.where(jumps, np.fmax(high, values), high)
    return Condition(before.change + np.where(jumps, 0.0, change), before.jumps | jumps, low, high)


def _largest(y: Array, around: list[Array]) -> Array:
    """Return the largest finite change of each element."""
    found = np.zeros(y.shape)
    for one in around:
        if one.shape != y.shape:  # of an output whose size depends on data: nothing can be told of its elements
            return np.full(y.shape, np.inf)
        change = np.abs(one - y)
        found = np.maximum(found, np.where(np.isfinite(change), change, 0.0))
    return found


def in_float64(op: OpView, inputs: list[Array]) -> list[Array]:
    """Return what the reference kernel gives for float64 in place of float32."""
    with np.errstate(all="ignore"):
        return [_least_of_float32(y) for y in evaluate(op, [wide(x) for x in inputs])]


def _least_of_float32(y: Array) -> Array:
    """Return y with the ends of float64, which a reduction of nothing gives, as those of float32."""
    if y.dtype != np.float64:
        return y
    return np.where(np.abs(y) == np.finfo(np.float64).max, np.sign(y) * np.finfo(np.float32).max, y)


def wide(x: Array) -> Array:
    """Return float64 for float32, anything else as it is."""
    return x.astype(np.float64) if x.dtype == np.float32 else x


def _moves(
    op: OpView, inputs: list[Array], plain: list[Array], rng: np.random.Generator
) -> Iterator[Callable[[float], list[Array]]]:
    def factor(step: float, shape: tuple[int, ...] = ()) -> Any:
        return 1.0 + step * rng.uniform(0.5, 1.5, shape) * rng.choice((-1.0, 1.0), shape)

    still = letters_read(op, inputs)
    letters = [letter for letter, x in zip(op.input_letters, inputs, strict=True) if x.dtype.name in MOVED]
    for letter in dict.fromkeys(letters):
        if letter not in still:

            def move(step: float, letter: str = letter) -> list[Array]:
                moved = [
                    wide(x) * factor(step, x.shape) if own == letter and x.dtype.name in MOVED else wide(x)
                    for own, x in zip(op.input_letters, inputs, strict=True)
                ]
                try:
                    return evaluate(op, moved)
                except TazzaError:
                    return plain  # values that must fit each other, such as probabilities

            yield move
    if any(_are_reals(value) for value in op.arguments.values()):
        yield partial(_argue, op, inputs, plain, factor)
    if stepwise(op, inputs, plain, lambda shape, terms: 1.0) is not None:
        yield partial(_step_by_step, op, inputs, plain, factor)


def _are_reals(value: Any) -> bool:
    """Whether an argument is a real number, or some of them."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        return isinstance(value, float)
    numbers = cast("Sequence[Any]", value)
    return len(numbers) > 0 and all(isinstance(one, float) for one in numbers)


def _argue(op: OpView, inputs: list[Array], plain: list[Array], factor: Callable[..., Any], step: float) -> list[Array]:
    values = dict(op.arguments)
    for name, value in values.items():
        if isinstance(value, float):
            values[name] = value * float(factor(step))
        elif _are_reals(value):
            values[name] = [one * float(factor(step)) for one in value]
    try:
        moved = evaluate(OpView(op.schema, op.definition, values), [wide(x) for x in inputs])
    except TazzaError:
        return plain  # shapes follow from them
    return moved if [y.shape for y in moved] == [y.shape for y in plain] else plain


def _step_by_step(
    op: OpView, inputs: list[Array], plain: list[Array], factor: Callable[..., Any], step: float
) -> list[Array]:
    found = stepwise(op, inputs, plain, lambda shape, terms: 1.0 + (factor(step, shape) - 1.0) * terms**0.5)
    return plain if found is None else found


def letters_read(op: OpView, inputs: list[Array]) -> frozenset[str]:
    """Return the letters of which inference reads the values."""
    return op.schema.infer_specs(
        op, specs_told(op, inputs), lambda letter: inputs[op.input_letters.index(letter)]
    ).reads


def _by_formula(
    op: OpView,
    inputs: list[Array],
    plain: list[Array],
    formulas: dict[str, Expression],
    factor: Callable[[tuple[int, ...]], Any],
) -> list[Array]:
    """Return the outputs by their formulas, each step of which is rounded otherwise."""
    names = _formula_names(op)
    specs = {name: TensorSpec(x.shape, DataType.of(x)) for name, x in zip(names, inputs, strict=True)}
    align = op.schema.formulas.align if op.schema.formulas is not None else None
    lies: dict[str, tuple[int, ...]] = {} if align is None else dict(align(op, specs))
    values = {name: wide(x).reshape(lies.get(name, x.shape)) for name, x in zip(names, inputs, strict=True)}
    outputs = _output_names(op)
    found: list[Array] = []
    for name, y in zip(outputs, plain, strict=True):
        text = formulas.get(name)
        found.append(
            y if text is None or y.dtype.kind != "f" else np.broadcast_to(_rounded(text, values, factor), y.shape)
        )
    return found


def _rounded(text: Expression, values: dict[str, Array], factor: Callable[[tuple[int, ...]], Any]) -> Array:
    known: dict[Any, Any] = {}
    for node in text.nodes():
        if node.head == "name":
            known[node] = values[str(node.value)]
        elif node.head == "constant":
            value = np.float64(node.value)
            known[node] = value if float(np.float32(value)) == value else value * factor(())
        else:
            function = FUNCTIONS[node.head]
            result = function.evaluate(*(known[one] for one in node.arguments))
            exact = node.head in UNROUNDED or function.rule in (Rule.TRUTH, Rule.LOGIC)
            known[node] = result if exact or np.asarray(result).dtype.kind != "f" else result * factor(np.shape(result))
    return np.asarray(known[text.root])


def _formula_names(op: OpView) -> list[str]:
    return _numbered(op.input_letters, {spec.name for spec in op.schema.inputs if spec.variadic})


def _output_names(op: OpView) -> list[str]:
    return _numbered(op.output_letters, {spec.name for spec in op.schema.outputs if spec.variadic})


def _numbered(letters: tuple[str, ...], variadic: set[str]) -> list[str]:
    counts: dict[str, int] = {}
    names: list[str] = []
    for letter in letters:
        number = counts.get(letter, 0)
        counts[letter] = number + 1
        names.append(f"{letter}{number}" if letter in variadic else letter)
    return names
