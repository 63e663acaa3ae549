"""Layers with an epilogue: FusedConv, FusedConvTranspose, FusedFC, FusedMatMul. Graph rewriting makes them.

With `base` what the layer of that name gives for the same inputs and arguments,

    Y = epilogue(y = base(X, W, b), s0 = S[0], s1 = S[1] ...)

for each element. The epilogue is a text in the language of `tensor.expression`; each S has the shape of Y.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from tazza.errors import ArgumentError, SchemaError
from tazza.operator import (
    FLOAT,
    Array,
    BlobSpec,
    Cost,
    Expression,
    OpSchema,
    OpView,
    arg,
    blob,
    kernel,
    not_written,
    schema,
    show_dims,
)
from tazza.ops.axis import shapes_agree
from tazza.ops.conv import CONV, CONVS, conv, conv_cost, conv_infer
from tazza.ops.conv_transpose import (
    CONV_TRANSPOSE,
    conv_transpose,
    conv_transpose_cost,
    conv_transpose_infer,
    conv_transpose_validate,
)
from tazza.ops.fc import FC, fc, fc_cost, fc_infer
from tazza.ops.matmul import MATMUL, matmul, matmul_cost, matmul_infer
from tazza.tensor import TensorSpec

NO_GRADIENT = not_written("it is made by graph rewriting, after the backward pass was built")

FUSED: dict[str, str] = {}
"""Operator type -> the one with an epilogue."""


def epilogue_of(op: OpView) -> Expression:
    """Return the epilogue, over y, s0, s1 ..."""
    return Expression.parse(op.epilogue)


def _declare(
    type: str,
    base: OpSchema,
    *,
    example: str,
    bases: Sequence[OpSchema] = (),
    validate: Callable[[OpView], None] | None = None,
) -> OpSchema:
    """Declare the operator that is `base`, with its `validate`, and an epilogue; `bases` differ by name only."""
    inputs = [_without_pattern(spec) for spec in base.inputs]
    made = schema(
        type,
        f"Y = epilogue(y, s0, s1 ...), where y is what {base.type} gives and s0, s1 ... are the S.",
        inputs=[*inputs, blob("S", FLOAT, like="Y", variadic=True, optional=True, doc="each of the shape of Y")],
        outputs=[blob("Y", FLOAT)],
        args=[
            *base.args.values(),
            arg("operands", int, 0, minimum=0, doc="how many of the last inputs are S"),
            arg("epilogue", str, "y", doc="formula over y, s0, s1 ..."),
        ],
        in_place={"Y": "S"},
        no_gradient=NO_GRADIENT,
        ineffective=base.ineffective,
        source="tazza",
        example=example,
    )
    made.name_inputs(_slots_for([spec.name for spec in inputs], sum(not spec.optional for spec in inputs)))

    def check(op: OpView) -> None:
        if validate is not None:
            validate(op)
        _check_names(op)

    made.validate(check)
    if base.declares_batch:
        made.batched("X", "S")
    for one in bases if bases else (base,):
        FUSED[one.type] = type
    return made


def _without_pattern(spec: BlobSpec) -> BlobSpec:
    return blob(spec.name, spec.dtypes, spec.dims, optional=spec.optional, doc=spec.doc)


def _slots_for(letters: Sequence[str], least: int) -> Callable[[OpView, int], tuple[str, ...]]:
    def slots(op: OpView, count: int) -> tuple[str, ...]:
        given = count - op.operands
        if not least <= given <= len(letters):
            raise op.error(
                SchemaError,
                f"{count} inputs, of which {op.operands} are operands, leave {given} for {', '.join(letters)}",
                "check the argument operands",
            )
        return (*letters[:given], *["S"] * op.operands)

    return slots


def _check_names(op: OpView) -> None:
    check_formula(op, "epilogue", {"y", *(f"s{number}" for number in range(op.operands))})


def check_formula(op: OpView, argument: str, known: Collection[str]) -> None:
    """Check that the formula in an argument can be read, and names nothing else than `known`.

    Raises:
        ArgumentError: it does not.
    """
    text = str(getattr(op, argument))
    strange = [name for name in Expression.parse(text).names if name not in known]
    if strange:
        relation = f"{argument} {text!r} names {', '.join(strange)}, there are {', '.join(sorted(known))}"
        raise op.error(ArgumentError, relation)


def _require_operands(op: OpView, Y: TensorSpec, S: Sequence[TensorSpec]) -> TensorSpec:
    """Check that every operand has the spec of Y, which is returned."""
    for number, spec in enumerate(S):
        if spec.dims is not None and Y.dims is not None:
            relation = f"s{number} has the shape {show_dims(spec.dims)}, Y has {show_dims(Y.dims)}"
            op.require(shapes_agree(spec.dims, Y.dims), relation, "operands are not broadcast")
    return Y


def _add_epilogue(op: OpView, base: Cost, S: Sequence[TensorSpec], Y: TensorSpec) -> Cost:
    return base + Cost(epilogue_of(op).flops * Y.size, sum(spec.nbytes for spec in S))


def apply_epilogue(op: OpView, y: Array, S: Sequence[Array], Y: Array) -> None:
    """Write Y from the base result `y`, which may not be Y itself."""
    values: dict[str, Any] = {"y": y} | {f"s{number}": s for number, s in enumerate(S)}
    np.copyto(Y, epilogue_of(op).evaluate(values), casting="same_kind")


FUSED_CONV = _declare(
    "FusedConv",
    CONV,
    bases=CONVS,
    example="""
    >>> X, W = np.arange(9.0, dtype="f").reshape(1, 1, 3, 3), np.ones((1, 1, 2, 2), "f")
    >>> run("FusedConv", X, W, kernel=2, epilogue="max(y - 11, 0)").reshape(2, 2)
    array([[ 0.,  1.],
           [ 9., 13.]], dtype=float32)
    """,
)


@FUSED_CONV.infer
def fused_conv_infer(
    op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec | None, S: tuple[TensorSpec, ...]
) -> TensorSpec:
    return _require_operands(op, conv_infer(op, X, W, b), S)


@FUSED_CONV.cost
def fused_conv_cost(
    op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec | None, S: tuple[TensorSpec, ...], Y: TensorSpec
) -> Cost:
    return _add_epilogue(op, conv_cost(op, X, W, b, Y), S, Y)


@kernel(FUSED_CONV)
def fused_conv(op: OpView, X: Array, W: Array, b: Array | None, S: tuple[Array, ...], Y: Array) -> None:
    y = np.empty_like(Y)
    conv(op, X, W, b, y)
    apply_epilogue(op, y, S, Y)


FUSED_CONV_TRANSPOSE = _declare(
    "FusedConvTranspose",
    CONV_TRANSPOSE,
    validate=conv_transpose_validate,
    example="""
    >>> run("FusedConvTranspose", [[[[1.0, 2.0]]]], [[[[3.0, 4.0]]]], kernels=[1, 2], epilogue="max(y, 5)")
    array([[[[ 5., 10.,  8.]]]], dtype=float32)
    """,
)


@FUSED_CONV_TRANSPOSE.infer
def fused_conv_transpose_infer(
    op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec | None, S: tuple[TensorSpec, ...]
) -> TensorSpec:
    return _require_operands(op, conv_transpose_infer(op, X, W, b), S)


@FUSED_CONV_TRANSPOSE.cost
def fused_conv_transpose_cost(
    op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec | None, S: tuple[TensorSpec, ...], Y: TensorSpec
) -> Cost:
    return _add_epilogue(op, conv_transpose_cost(op, X, W, b, Y), S, Y)


@kernel(FUSED_CONV_TRANSPOSE)
def fused_conv_transpose(op: OpView, X: Array, W: Array, b: Array | None, S: tuple[Array, ...], Y: Array) -> None:
    y = np.empty_like(Y)
    conv_transpose(op, X, W, b, y)
    apply_epilogue(op, y, S, Y)


FUSED_FC = _declare(
    "FusedFC",
    FC,
    example="""
    >>> run("FusedFC", [[1.0, 2.0]], [[1.0, 0.0], [0.0, -1.0]], [10.0, 0.0], [[1.0, 2.0]],
    ...     operands=1, epilogue="relu(y + s0)")
    array([[12.,  0.]], dtype=float32)
    """,
)


@FUSED_FC.infer
def fused_fc_infer(op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec, S: tuple[TensorSpec, ...]) -> TensorSpec:
    return _require_operands(op, fc_infer(op, X, W, b), S)


@FUSED_FC.cost
def fused_fc_cost(
    op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec, S: tuple[TensorSpec, ...], Y: TensorSpec
) -> Cost:
    return _add_epilogue(op, fc_cost(op, X, W, b, Y), S, Y)


@kernel(FUSED_FC)
def fused_fc(op: OpView, X: Array, W: Array, b: Array, S: tuple[Array, ...], Y: Array) -> None:
    y = np.empty(Y.shape, Y.dtype)
    fc(op, X, W, b, y)
    apply_epilogue(op, y, S, Y)


FUSED_MATMUL = _declare(
    "FusedMatMul",
    MATMUL,
    example="""
    >>> run("FusedMatMul", [[1.0, 2.0]], [[3.0], [4.0]], epilogue="y * 0.5")
    array([[5.5]], dtype=float32)
    """,
)


@FUSED_MATMUL.infer
def fused_matmul_infer(
    op: OpView, A: TensorSpec, B: TensorSpec, like: TensorSpec | None, S: tuple[TensorSpec, ...]
) -> TensorSpec:
    return _require_operands(op, matmul_infer(op, A, B, like), S)


@FUSED_MATMUL.cost
def fused_matmul_cost(
    op: OpView, A: TensorSpec, B: TensorSpec, like: TensorSpec | None, S: tuple[TensorSpec, ...], Y: TensorSpec
) -> Cost:
    return _add_epilogue(op, matmul_cost(op, A, B, like, Y), S, Y)


@kernel(FUSED_MATMUL)
def fused_matmul(op: OpView, A: Array, B: Array, S: tuple[Array, ...], Y: Array) -> None:
    y = np.empty(Y.shape, Y.dtype)
    matmul(op, A, B, y)
    apply_epilogue(op, y, S, Y)
