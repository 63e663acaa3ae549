"""New weights for a layer that a normalization with fixed statistics follows: FoldBatchNorm, FoldAffineChannel.

W are the weights of a convolution, transposed convolution or FC, with M output channels along `axis`, in a group M/G of
them; b and all others have M elements. For slope and shift of each channel, slope * (W X + b) + shift is the layer with

    W_folded = slope * W    b_folded = slope * b + shift

Graph rewriting makes these operators; they run once for all runs of a net.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Cost, Effects, OpSchema, OpView, Role, arg, blob, kernel, not_written, schema
from tazza.tensor import TensorSpec

NO_GRADIENT = not_written("weights that are folded are not trained")
ARGS = (
    arg("axis", int, 0, doc="along which axis of W the output channels lie"),
    arg("group", int, 1, minimum=1, doc="G, where `axis` is not 0 and holds only the channels of one group"),
)

FOLD_BATCH_NORM = schema(
    "FoldBatchNorm",
    """slope = scale / sqrt(var + epsilon), shift = bias - mean * slope; W_folded = slope W, b_folded = slope b + shift.

    Without b it counts as 0.""",
    inputs=[
        blob("W", FLOAT, role=Role.PARAMETER),
        blob("b", "W", optional=True, role=Role.PARAMETER, doc="(M)"),
        blob("scale", "W", role=Role.PARAMETER, doc="(M)"),
        blob("bias", "W", role=Role.PARAMETER, doc="(M)"),
        blob("mean", "W", role=Role.STATE, doc="(M)"),
        blob("var", "W", role=Role.STATE, doc="(M)"),
    ],
    outputs=[blob("W_folded", like="W"), blob("b_folded", "W", doc="(M)")],
    args=[arg("epsilon", float, 1e-5, doc="added to the variance"), *ARGS],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="tazza",
    example="""
    >>> one = np.ones(1, "f")
    >>> run("FoldBatchNorm", np.array([[3.0, 4.0]], "f"), one, 2 * one, 5 * one, one, 4 * one, epsilon=0.0)
    (array([[3., 4.]], dtype=float32), array([5.], dtype=float32))
    """,
)

FOLD_AFFINE_CHANNEL = schema(
    "FoldAffineChannel",
    "W_folded = scale W, b_folded = scale b + bias; without b it counts as 0.",
    inputs=[
        blob("W", FLOAT, role=Role.PARAMETER),
        blob("b", "W", optional=True, role=Role.PARAMETER, doc="(M)"),
        blob("scale", "W", role=Role.PARAMETER, doc="(M)"),
        blob("bias", "W", role=Role.PARAMETER, doc="(M)"),
    ],
    outputs=[blob("W_folded", like="W"), blob("b_folded", "W", doc="(M)")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="tazza",
    example="""
    >>> run("FoldAffineChannel", np.array([[3.0, 4.0]], "f"), [2.0], [5.0])
    (array([[6., 8.]], dtype=float32), array([5.], dtype=float32))
    """,
)


def _letters(op: OpView, count: int) -> tuple[str, ...]:
    letters = tuple(op.schema.inputs_by_letter)
    return letters if count == len(letters) else tuple(letter for letter in letters if letter != "b")


def fold_infer(op: OpView, W: TensorSpec, **vectors: TensorSpec | None) -> tuple[TensorSpec, TensorSpec]:
    M = None if W.dims is None else _channels(op, W)
    for letter, spec in vectors.items():
        if spec is not None and spec.shape_known and M is not None:
            relation = f"{letter} has {spec.size} elements, W has M = {M} output channels along axis {op.axis}"
            op.require(spec.size == M, relation, f"{letter} must be (M)")
    return W, TensorSpec((M,), W.dtype)


def fold_cost(
    op: OpView, W: TensorSpec, W_folded: TensorSpec, b_folded: TensorSpec, **vectors: TensorSpec | None
) -> Cost:
    del op
    read = W.nbytes + sum(spec.nbytes for spec in vectors.values() if spec is not None)
    return Cost(W.size + 6 * b_folded.size, read, W_folded.nbytes + b_folded.nbytes)


def _complete(schema: OpSchema) -> None:
    schema.name_inputs(_letters)
    schema.infer(fold_infer)
    schema.cost(fold_cost)


_complete(FOLD_BATCH_NORM)
_complete(FOLD_AFFINE_CHANNEL)


@kernel(FOLD_BATCH_NORM)
def fold_batch_norm(
    op: OpView,
    W: Array,
    b: Array | None,
    scale: Array,
    bias: Array,
    mean: Array,
    var: Array,
    W_folded: Array,
    b_folded: Array,
) -> None:
    slope = scale.reshape(-1) / np.sqrt(var.reshape(-1).astype(np.float64) + op.epsilon)
    _fold(op, (W, b), slope, bias.reshape(-1) - mean.reshape(-1) * slope, (W_folded, b_folded))


@kernel(FOLD_AFFINE_CHANNEL)
def fold_affine_channel(
    op: OpView, W: Array, b: Array | None, scale: Array, bias: Array, W_folded: Array, b_folded: Array
) -> None:
    _fold(op, (W, b), scale.reshape(-1).astype(np.float64), bias.reshape(-1), (W_folded, b_folded))


def _fold(op: OpView, given: tuple[Array, Array | None], slope: Array, shift: Array, made: tuple[Array, Array]) -> None:
    (W, b), (W_folded, b_folded) = given, made
    axis = op.axis % W.ndim
    if axis == 0:
        # The slope is rounded to float32 as W is: with float64 the product of W takes four times as long, which was a
        # tenth of the time from the start of a process to the first result of a ResNet-50.
        rows = slope.astype(np.result_type(W.dtype, np.float32)).reshape(-1, *[1] * (W.ndim - 1))
        np.multiply(W, rows, out=W_folded, casting="same_kind")
    else:  # (G, C/G, ..., M/G, ...) * (G, 1, ..., M/G, ...)
        w = W.reshape(op.group, -1, *W.shape[1:])
        along = [op.group] + [1] * W.ndim
        along[axis + 1] = W.shape[axis]
        W_folded[...] = (w * slope.reshape(along)).reshape(W.shape)
    b_folded[...] = shift if b is None else slope * b.reshape(-1) + shift


def _channels(op: OpView, W: TensorSpec) -> int | None:
    rank = W.rank
    op.require(-rank <= op.axis < rank, f"axis = {op.axis} is not an axis of W, which has {rank} dimensions")
    axis, group = int(op.axis), int(op.group)
    extent = W.dims[axis] if W.dims is not None else None
    return extent if extent is None or axis % rank == 0 else extent * group
