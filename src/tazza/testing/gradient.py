"""Gradients beside central differences of the reference kernel, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tazza.device import place_of
from tazza.errors import CheckError, TazzaError
from tazza.operator import SCHEMAS, DynamicOutput, OpView, RowSlices, find_schema, gradient_for_op
from tazza.operator.choice import find_kernel
from tazza.operator.schema import gather_all
from tazza.tensor import DataType, Tensor, TensorSpec
from tazza.tensor.place import CPU_KIND
from tazza.testing.case import Case, engines_of
from tazza.testing.law import law
from tazza.testing.running import Settle, run
from tazza.testing.value import TOLERANCE, Array, hold

STEP = 1e-6
"""How far the central difference goes to each side, in float64."""

DIRECTIONS = 3
"""How many directions are tried for a gradient until one meets no kink."""


def check_gradient(case: Case, engine: str, *, seed: int = 0, settle: Settle | None = None) -> None:
    """Compare the gradient of each input with a float64 central difference of the reference kernel in one direction.

    The tolerance is relative to the norm of the input's own gradient, which is what its product with a random direction
    amounts to.

    Raises:
        CheckError: they part.
    """
    random = np.random.default_rng(seed)
    with law(case, engine, "its gradient operators have its defaults"):
        _check_defaults(case)
    with law(case, engine, "its gradient operators run"):
        op, inputs, gradients, weights = _gradients(case, engine, random, settle)

    def along(position: int, direction: Array, step: float) -> float:
        moved = [x.astype(np.float64) if x.dtype == np.float32 else x for x in inputs]
        moved[position] = moved[position] + step * direction
        results = evaluate(op, moved)
        return sum(float(np.sum(w * y)) for w, y in zip(weights, results, strict=True) if w is not None)

    for position, gradient in enumerate(gradients):
        if gradient is None:
            continue
        middle = along(position, np.zeros(gradient.shape), 0.0)
        relative = TOLERANCE[gradient.dtype.name][0] * case.slack
        rounding = 1e-15 * (1.0 + abs(middle)) / STEP
        allowed = relative * float(np.linalg.norm(gradient.astype(np.float64))) + rounding
        analytic, numeric = in_some_direction(
            gradient, lambda direction, step, n=position: along(n, direction, step), middle, allowed, random
        )
        letter = op.input_letters[position]
        with law(case, engine, f"the gradient of input {letter} is the central difference of the reference kernel"):
            hold(
                abs(analytic - numeric) <= allowed,
                f"along a random direction the gradient operators give {analytic:.9g}, the difference is "
                f"{numeric:.9g}; they may part by {allowed:.2g}",
            )


def in_some_direction(
    gradient: Array,
    along: Callable[[Array, float], float],
    middle: float,
    allowed: float,
    random: np.random.Generator,
) -> tuple[float, float]:
    """Return the product of a gradient with a direction, and the central difference of `along(direction, step)`.

    `middle` is what `along` gives without a step. A direction along which the difference quotients of the two sides
    part by more than `allowed` lies across a kink: another one is drawn, up to `DIRECTIONS` in all; the last one is
    taken in any case.
    """
    analytic = numeric = 0.0
    for _ in range(DIRECTIONS):
        direction = random.standard_normal(gradient.shape)
        ahead, behind = along(direction, STEP), along(direction, -STEP)
        analytic, numeric = float(np.sum(direction * gradient)), (ahead - behind) / (2 * STEP)
        if abs(ahead - 2 * middle + behind) / STEP <= allowed:
            break
    return analytic, numeric


def _check_defaults(case: Case) -> None:
    """An argument that is left out is left out of the gradient operators too: there its default must be the same."""
    schema = find_schema(case.type)
    bare = case.definition()
    kept = [one for one in bare.arg if one.name not in schema.args or schema.args[one.name].required]
    del bare.arg[:]
    bare.arg.extend(kept)
    try:
        op = schema.view(bare)
        emitted, _ = gradient_for_op(op, [f"{name}_grad" for name in bare.output])
    except TazzaError:
        return  # nothing can be left out here
    for step in emitted:
        if step.type != f"{case.type}Gradient":
            continue  # an operator of its own, with defaults of its own
        theirs = SCHEMAS.get(step.type)
        args = {} if theirs is None else theirs.args
        for name in schema.args.keys() & args.keys() - {one.name for one in step.arg}:
            ours, other = schema.args[name].default, args[name].default
            hold(
                schema.args[name].required or ours == other,
                f"left out, argument {name!r} is {ours!r} in {case.type}, {other!r} in {step.type}",
            )


def _gradients(
    case: Case, engine: str, random: np.random.Generator, settle: Settle | None
) -> tuple[OpView, list[Array], list[Array | None], list[Array | None]]:
    """Run the operator and its emitted gradient; returns gradients by input, and the weights of each output."""
    inputs = case.arrays()
    outputs, operator = run(case.definition(engine), inputs, engine, settle=settle)
    op = operator.op
    weights = [random.standard_normal(y.shape).astype(y.dtype) if y.dtype.kind == "f" else None for y in outputs]
    given = [None if w is None else f"{name}_grad" for name, w in zip(op.definition.output, weights, strict=True)]
    emitted, names = gradient_for_op(op, given)
    blobs = dict(zip((*op.definition.input, *op.definition.output), (*inputs, *outputs), strict=True))
    blobs.update((n, w) for n, w in zip(given, weights, strict=True) if n is not None and w is not None)
    for step in emitted:
        there = engine in engines_of(step.type, place_of(step.device_option))
        made, _ = run(step, [blobs[name] for name in step.input], engine if there else None, settle=settle)
        blobs.update(zip(step.output, made, strict=True))
    dense = [None if name is None else _dense(name, blobs, x) for name, x in zip(names, inputs, strict=True)]
    return op, inputs, dense, weights


def specs_told(op: OpView, inputs: Sequence[Array]) -> list[TensorSpec]:
    """Return what the schema is told of inputs: float64 passes as float32, where that is taken."""

    def told(letter: str, x: Array) -> TensorSpec:
        own, dtype = op.schema.inputs_by_letter[letter].taken_on(host=True), DataType.of(x)
        passes = dtype is DataType.DOUBLE and (own is None or DataType.FLOAT in own)
        return TensorSpec(x.shape, DataType.FLOAT if passes else dtype)

    return [told(letter, x) for letter, x in zip(op.input_letters, inputs, strict=True)]


def evaluate(op: OpView, inputs: Sequence[Array]) -> list[Array]:
    """Run the reference kernel function directly; float inputs may be float64, which the schema would refuse."""
    specs = specs_told(op, inputs)

    def value(letter: str) -> Array:  # as inference sees it: extents that follow from values are those of a real run
        found = inputs[op.input_letters.index(letter)]
        return found.astype(np.float32) if found.dtype == np.float64 else found

    known = op.schema.infer_specs(op, specs, value)
    inferred = cast("Sequence[TensorSpec]", known.specs)
    dtypes = [DataType.DOUBLE if s.dtype is DataType.FLOAT else s.dtype for s in inferred]
    results: list[Any] = [
        np.zeros(s.shape, t.numpy) if s.shape_known else DynamicOutput(Tensor((0,), t), t)
        for s, t in zip(inferred, dtypes, strict=True)
    ]
    given = dict(zip(op.definition.input, inputs, strict=True))
    for name, result in zip(op.definition.output, results, strict=True):
        if name in given and given[name].shape == np.shape(result):  # what it leaves as it is stays, in place
            result[...] = given[name]
    reference = find_kernel(op.type, CPU_KIND, "reference")
    function = reference.function
    if function is None:
        raise CheckError(f"the reference kernel of {op.type} is no function on arrays, which alone has a gradient here")
    values = gather_all(op, (*inputs, *results)) | {"op": op}
    function(**{name: values[name] for name in reference.parameters})
    return [one.tensor.array if isinstance(one, DynamicOutput) else one for one in results]


def _dense(gradient: str | RowSlices[str], blobs: dict[str, Array], like: Array) -> Array:
    if not isinstance(gradient, RowSlices):
        return blobs[gradient]
    dense = np.zeros(like.shape, blobs[gradient.values].dtype)
    np.add.at(dense, blobs[gradient.indices].reshape(-1), blobs[gradient.values].reshape(-1, *like.shape[1:]))
    return dense
