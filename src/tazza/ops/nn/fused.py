"""Layers with an epilogue: FusedConv, FusedConvTranspose, FusedFC, FusedMatMul, FusedSpatialBN. Rewriting makes them.

With `base` what the layer of that name gives for the same inputs and arguments,

    Y = epilogue(y = base(X, W, b), s0 = S[0], s1 = S[1] ...)

for each element. The epilogue is a text in the language of `tensor.expression`; each S has the shape of Y.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tazza.errors import ArgumentError, SchemaError
from tazza.operator import (
    FLOAT,
    ArgSpec,
    Array,
    BlobSpec,
    Cost,
    Effects,
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
from tazza.operator.in_place import InPlace
from tazza.ops.math.matmul import MATMUL, matmul, matmul_cost, matmul_infer
from tazza.ops.nn.batch_norm import SPATIAL_BN, spatial_bn, spatial_bn_cost, spatial_bn_infer, spatial_bn_validate
from tazza.ops.nn.conv import CONV, CONVS, conv, conv_cost, conv_infer
from tazza.ops.nn.conv_transpose import (
    CONV_TRANSPOSE,
    conv_transpose,
    conv_transpose_cost,
    conv_transpose_infer,
    conv_transpose_validate,
)
from tazza.ops.nn.fc import FC, fc, fc_cost, fc_infer
from tazza.ops.shape.axis import shapes_agree
from tazza.tensor import TensorSpec

NO_GRADIENT = not_written("it is made by graph rewriting, after the backward pass was built")


def _always(op: OpView) -> bool:
    del op
    return True


@dataclass(frozen=True, slots=True)
class Fused:
    """The type with an epilogue, and which operators of the base type it can stand for."""

    type: str
    takes: Callable[[OpView], bool] = _always


FUSED: dict[str, Fused] = {}
"""Operator type -> what it is with an epilogue."""


def fused_type(op: OpView) -> str | None:
    """Return the type of the operator that does what `op` does with an epilogue, None where there is none."""
    found = FUSED.get(op.type)
    return found.type if found is not None and found.takes(op) else None


def epilogue_of(op: OpView) -> Expression:
    """Return the epilogue, over y, s0, s1 ..."""
    return Expression.parse(op.epilogue)


def _declare(
    type: str,
    base: OpSchema,
    *,
    example: str,
    bases: Sequence[OpSchema] = (),
    inputs: Sequence[BlobSpec] | None = None,
    outputs: Sequence[BlobSpec] = (blob("Y", FLOAT),),
    in_place: tuple[str, ...] = ("S",),
    must_in_place: InPlace = None,
    args: Mapping[str, ArgSpec] | None = None,
    takes: Callable[[OpView], bool] = _always,
    validate: Callable[[OpView], None] | None = None,
) -> OpSchema:
    """Declare the operator that is `base`, with its `validate`, and an epilogue; `bases` differ by name only.

    `inputs` and `args` are those of the base unless given; Y may overwrite the letters of `in_place`; `takes` tells
    which operators of the base this one stands for.
    """
    inputs = [_without_pattern(spec) for spec in (base.inputs if inputs is None else inputs)]
    made = schema(
        type,
        f"Y = epilogue(y, s0, s1 ...), where y is what {base.type} gives and s0, s1 ... are the S.",
        inputs=[*inputs, blob("S", FLOAT, like="Y", variadic=True, optional=True, doc="each of the shape of Y")],
        outputs=list(outputs),
        args=[
            *(base.args if args is None else args).values(),
            arg("operands", int, 0, minimum=0, doc="how many of the last inputs are S"),
            arg("epilogue", str, "y", doc="formula over y, s0, s1 ..."),
        ],
        in_place={"Y": in_place},
        must_in_place=must_in_place,
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        ineffective=base.ineffective,
        source="tazza",
        example=example,
    )
    made.name_inputs(_naming([spec.name for spec in inputs], sum(not spec.optional for spec in inputs)))

    def check(op: OpView) -> None:
        if validate is not None:
            validate(op)
        _check_names(op)

    made.validate(check)
    if base.declares_batch:
        made.batched("X", "S")
    for one in bases if bases else (base,):
        FUSED[one.type] = Fused(type, takes)
    return made


def _without_pattern(spec: BlobSpec) -> BlobSpec:
    return blob(spec.name, spec.dtypes, spec.dims, optional=spec.optional, role=spec.role, doc=spec.doc)


def _naming(letters: Sequence[str], least: int) -> Callable[[OpView, int], tuple[str, ...]]:
    def letters_of(op: OpView, count: int) -> tuple[str, ...]:
        given = count - op.operands
        if not least <= given <= len(letters):
            raise op.error(
                SchemaError,
                f"{count} inputs, of which {op.operands} are operands, leave {given} for {', '.join(letters)}",
                "check the argument operands",
            )
        return (*letters[:given], *["S"] * op.operands)

    return letters_of


def _check_names(op: OpView) -> None:
    check_formula(op, "epilogue", {"y", *(f"s{number}" for number in range(op.operands))})


def check_formula(op: OpView, argument: str, letters: Collection[str]) -> None:
    """Check that the formula in an argument can be read, and names nothing else than `letters`.

    Raises:
        ArgumentError: it does not.
    """
    text = str(getattr(op, argument))
    strange = [name for name in Expression.parse(text).names if name not in letters]
    if strange:
        relation = f"{argument} {text!r} names {', '.join(strange)}, there are {', '.join(sorted(letters))}"
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


def _trains(op: OpView) -> bool:
    return not op.is_test and len(op.input_letters) == 5 and op.num_batches <= 1


TRAINS = {
    "is_test": arg("is_test", int, 0, choices=(0,), doc="it trains"),
    "num_batches": arg("num_batches", int, 1, minimum=0, maximum=1, doc="statistics are those of one batch"),
}
"""Arguments of SpatialBN by which the fused operators differ from it."""

FUSED_SPATIAL_BN = _declare(
    "FusedSpatialBN",
    SPATIAL_BN,
    inputs=SPATIAL_BN.inputs[:5],
    outputs=[blob(spec.name, FLOAT, like=spec.like, doc=spec.doc) for spec in SPATIAL_BN.outputs],
    in_place=("X", "S"),
    must_in_place=SPATIAL_BN.must_in_place,
    args={**SPATIAL_BN.args, **TRAINS},
    takes=_trains,
    validate=spatial_bn_validate,
    example="""
    >>> X, one = np.array([[1.0], [3.0]], "f"), np.ones(1, "f")
    >>> from tazza.workspace import Workspace
    >>> from tazza.operator import operator_def
    >>> ws = Workspace()
    >>> for name, value in zip("xsbmv", [X, one, 0 * one, 0 * one, one]): ws.feed(name, value)
    >>> outputs = ["y", "m", "v", "sm", "si"]
    >>> ws.run_operator(operator_def("FusedSpatialBN", list("xsbmv"), outputs, epilogue="relu(y)"))
    >>> ws.fetch("y").round(3)
    array([[0.],
           [1.]], dtype=float32)
    """,
)


@FUSED_SPATIAL_BN.infer
def fused_spatial_bn_infer(
    op: OpView, X: TensorSpec, S: tuple[TensorSpec, ...], **vectors: TensorSpec | None
) -> tuple[TensorSpec, ...]:
    found = spatial_bn_infer(op, X, **vectors)
    _require_operands(op, found[0], S)
    return found


@FUSED_SPATIAL_BN.cost
def fused_spatial_bn_cost(
    op: OpView,
    X: TensorSpec,
    scale: TensorSpec,
    S: tuple[TensorSpec, ...],
    Y: TensorSpec,
    **vectors: TensorSpec | None,
) -> Cost:
    return _add_epilogue(op, spatial_bn_cost(op, X, scale, Y, **vectors), S, Y)


@kernel(FUSED_SPATIAL_BN)
def fused_spatial_bn(
    op: OpView,
    X: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    var: Array,
    S: tuple[Array, ...],
    Y: Array,
    running_mean: Array,
    running_var: Array,
    saved_mean: Array,
    saved_inv_std: Array,
) -> None:
    y = np.empty_like(Y)
    pairs = running_mean, running_var, saved_mean, saved_inv_std
    spatial_bn(op, X, scale, bias, mean, var, None, None, y, *pairs)
    apply_epilogue(op, y, S, Y)
