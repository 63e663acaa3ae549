"""Transposed convolution: ConvTranspose over any number of dimensions, the transposed linear map of a convolution.

Letters as in `ops.conv`, from the point of view of the blobs here: N images, G groups, C and M input and output
channels, `in...` and `out...` spatial sizes, `k...` kernel sizes, P the product of `in...`, K that of `k...`. With
order NCHW the blobs are

    X (N, C, in...)    W (C, M/G, k...)    b (M)    Y (N, M, out...)

and with NHWC the channels stand last, in W as well: (C, k..., M/G). The windows lie on Y, one for each place of X:

    out = (in - 1) * stride + k + adj - head - tail

`adj` are further elements at the tail, which no window may reach. There is no dilation, as in Caffe2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import (
    FLOAT,
    HALVES,
    Array,
    Cost,
    Dims,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    blob,
    ends,
    find_argument,
    kernel,
    schema,
    show_dims,
)
from tazza.ops.nn.conv import CUDNN_ARGS, conv_gradient_outputs
from tazza.ops.nn.window import LegacyPad, Window, channels_first, channels_first_dims, half_pairs, window_args
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

SIDED_ADJ = ("adj_h", "adj_w")

CONV_TRANSPOSE_ARGS = (
    *window_args(),
    arg("adj", int, None, minimum=0, doc="further elements at the tail of both of two dimensions"),
    arg("adjs", list[int], [], minimum=0, doc="further elements at the tail per dimension"),
    *(arg(name, int, None, minimum=0, doc=f"counts together with {', '.join(SIDED_ADJ)}") for name in SIDED_ADJ),
    arg("group", int, 1, minimum=1, doc="channels fall into this many groups that do not see each other"),
    arg("shared_buffer", int, 0, doc="share the column buffer with all operators of the workspace that ask for it"),
)


def without_effect(definition: OperatorDef) -> list[str]:
    """Return arguments of which a partner is missing, and those for dilation; Caffe2 ignores them without a word."""
    present = [name for name in SIDED_ADJ if find_argument(definition, name) is not None]
    lonely = present if len(present) == 1 else []
    dilation = ("dilation", "dilations", "dilation_h", "dilation_w")
    dilated = [name for name in dilation if find_argument(definition, name) is not None]
    return list(dict.fromkeys([*half_pairs(definition), *lonely, *dilated]))


def conv_transpose_validate(op: OpView) -> None:
    """Refuse what Caffe2 does not survive: Caffe's padding, and pads that cut off."""
    window, _ = _asked(op)
    if window.legacy_pad is LegacyPad.CAFFE_LEGACY_POOLING:
        raise op.error(ArgumentError, f"legacy_pad = {window.legacy_pad.name} is for pooling", hint="give pads")
    if min((*window.head, *window.tail), default=0) < 0:
        raise op.error(ArgumentError, f"pads {[*window.head, *window.tail]} cannot be negative", hint="use adjs")


def conv_transpose_window(op: OpView, X: Sequence[int | None], W: Sequence[int | None]) -> tuple[Window, Dims]:
    """Return the window over Y, and `out...`; checks that X and W fit."""
    window, adj = _asked(op)
    rank = window.rank + 2
    for letter, dims in (("X", X), ("W", W)):
        relation = f"{letter} has {len(dims)} dimensions {show_dims(dims)}, a kernel of {window.rank} needs {rank}"
        op.require(len(dims) == rank, relation, "kernel=k means two dimensions; for others give kernels=[...]")
    (_, C, *image), (C_of_W, _, *kernel) = channels_first_dims(op.order, X), channels_first_dims(op.order, W)
    relation = f"W has the kernel size {show_dims(kernel)}, the arguments say {show_dims(window.kernel)}"
    op.require(tuple(kernel) == window.kernel or None in kernel, relation)
    op.require(C is None or C_of_W is None or C == C_of_W, f"X has {C} channels, W takes {C_of_W}")
    G = groups(op)
    op.require(C is None or C % G == 0, f"{C} input channels do not divide into {G} groups")
    out = tuple(_out(op, window, adj, axis, extent) for axis, extent in enumerate(image))
    return window, out


def groups(op: OpView) -> int:
    """Return how many groups there are; 1 for an operator that knows none."""
    return int(op.arguments.get("group", 1))


def _asked(op: OpView) -> tuple[Window, tuple[int, ...]]:
    """Return the window that the arguments describe, without dilation, and `adj` per dimension."""
    given = Window.of(op)
    ones = (1,) * given.rank
    window = Window(given.kernel, given.stride, ones, given.head, given.tail, given.legacy_pad)
    sided = tuple(cast("int | None", op.arguments[name]) for name in SIDED_ADJ)
    if op.adjs:
        adj = tuple(cast("list[int]", op.adjs))
    elif op.adj is not None:
        adj = (cast("int", op.adj),) * len(sided)
    else:
        adj = tuple(0 for _ in ones) if None in sided else cast("tuple[int, ...]", sided)
    if len(adj) != given.rank:
        raise op.error(ArgumentError, f"adjs has {len(adj)} elements {list(adj)}, it needs {given.rank}")
    return window, adj


def _out(op: OpView, window: Window, adj: tuple[int, ...], axis: int, extent: int | None) -> int | None:
    if extent is None:
        return None
    s, k, head, tail = window.stride[axis], window.kernel[axis], window.head[axis], window.tail[axis]
    op.require(extent > 0, f"dimension {axis} of X has no elements")
    full = (extent - 1) * s + k + adj[axis]
    relation = (
        f"dimension {axis} has {extent} elements, whose windows cover {full}; pads {head} and {tail} cut off more"
    )
    op.require(full >= head + tail, relation)
    return full - head - tail


def conv_transpose_infer(op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec | None) -> TensorSpec:
    if W.dims is None:
        return TensorSpec(None, X.dtype)
    image = (None,) * len(W.dims) if X.dims is None else X.dims
    _, out = conv_transpose_window(op, image, W.dims)
    of_one_group = channels_first_dims(op.order, W.dims)[1]
    M = None if of_one_group is None else of_one_group * groups(op)
    if b is not None and b.dims is not None:
        relation = f"b has the shape {show_dims(b.dims)}, W and group give {M} output channels"
        op.require(tuple(b.dims) == (M,) or None in (M, *b.dims), relation, "b must be (M,)")
    N = image[0]
    return TensorSpec((N, *out, M) if op.order.upper() == "NHWC" else (N, M, *out), X.dtype)


CONV_TRANSPOSE = schema(
    "ConvTranspose",
    """Y[n, m, p * stride + k - pad] = b[m] + sum over c of W[c, m, k] * X[n, c, p], summed over all p and k that meet.

    What a convolution with the same arguments does to its input when dX is made from dY. Dilation has no effect.""",
    inputs=[
        blob("X", FLOAT, elsewhere=HALVES, doc="(N, C, in...), NHWC: (N, in..., C)"),
        blob("W", "X", role=Role.PARAMETER, doc="(C, M/G, k...), NHWC: (C, k..., M/G)"),
        blob("b", "X", optional=True, role=Role.PARAMETER, doc="(M)"),
    ],
    outputs=[blob("Y", "X", doc="(N, M, out...), NHWC: (N, out..., M)")],
    args=[
        *CONV_TRANSPOSE_ARGS,
        *CUDNN_ARGS,
        arg("no_gradient_to_input", int, 0, doc="the gradient operator gives no dX"),
    ],
    effects=Effects.PURE,
    ineffective=without_effect,
    source="Dumoulin, Visin 2016, arXiv 1603.07285, section 4; Caffe2",
    example="""
    >>> run("ConvTranspose", [[[[1.0, 2.0]]]], [[[[3.0, 4.0]]]], kernels=[1, 2])
    array([[[[ 3., 10.,  8.]]]], dtype=float32)
    """,
)
CONV_TRANSPOSE.validate(conv_transpose_validate)
CONV_TRANSPOSE.infer(conv_transpose_infer)


CONV_TRANSPOSE.batched("X")


@CONV_TRANSPOSE.cost
def conv_transpose_cost(op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec | None, Y: TensorSpec) -> Cost:
    del op
    parameters = W.nbytes + (0 if b is None else b.nbytes)
    flops = 2 * X.size * (W.size // max(W.shape[0], 1)) + (0 if b is None else Y.size)
    return Cost(flops, X.nbytes + parameters, Y.nbytes, parameters)


@CONV_TRANSPOSE.gradient
def conv_transpose_gradient(g: GradientRequest) -> list[OperatorDef]:
    inputs, no_bias = [g.X, g.W, g.dY], {} if g.op.has_input("b") else {"no_bias": 1}
    outputs = [g.dW, *([g.db] if g.op.has_input("b") else []), *([] if g.op.no_gradient_to_input else [g.dX])]
    return g.emit("ConvTransposeGradient", inputs, outputs, **no_bias)


@kernel(CONV_TRANSPOSE)
def conv_transpose(op: OpView, X: Array, W: Array, b: Array | None, Y: Array) -> None:
    """One einsum, whose windows are added where they lie on Y."""
    window, _ = conv_transpose_window(op, X.shape, W.shape)
    x, w, y = _places(op, X), _kernels(op, W), channels_first(op.order, Y)
    columns = np.einsum("gcmk,ngcp->ngmpk", w, x, optimize=True)
    image = channels_first(op.order, X).shape[2:]
    window.scatter(columns.reshape(*y.shape[:2], *image, *window.kernel), y)  # (N, G, M/G, P, K) -> (N, M, in..., k...)
    if b is not None:
        y += b.reshape(-1, *[1] * (y.ndim - 2))


def _places(op: OpView, X: Array) -> Array:
    """Return (N, G, C/G, P)."""
    x = channels_first(op.order, X)
    return x.reshape(x.shape[0], groups(op), x.shape[1] // groups(op), int(np.prod(x.shape[2:], dtype=np.int64)))


def _kernels(op: OpView, W: Array) -> Array:
    """Return (G, C/G, M/G, K)."""
    w = channels_first(op.order, W)
    return w.reshape(groups(op), w.shape[0] // groups(op), w.shape[1], int(np.prod(w.shape[2:], dtype=np.int64)))


CONV_TRANSPOSE_GRADIENT = schema(
    "ConvTransposeGradient",
    """dW, db and dX of a transposed convolution, from X, W and dY; dX is the convolution of dY.

    Outputs: (dW, db, dX); without db when `no_bias`; without dX when `no_gradient_to_input`.""",
    inputs=[blob("X", FLOAT, elsewhere=HALVES), blob("W", "X", role=Role.PARAMETER), blob("dY", "X")],
    outputs=[blob("dW", like="W"), blob("db", "X", optional=True), blob("dX", like="X", optional=True)],
    args=[
        *CONV_TRANSPOSE_ARGS,
        *CUDNN_ARGS,
        arg("no_gradient_to_input", int, 0),
        arg("no_bias", int, 0, doc="the transposed convolution had no b"),
    ],
    effects=Effects.PURE,
    ineffective=without_effect,
    no_gradient=ends("second derivatives are not built"),
    source="the transposed relations of the forward operator",
    example="""
    >>> X, W, dY = [[[[1.0, 2.0]]]], [[[[3.0, 4.0]]]], [[[[1.0, 10.0, 100.0]]]]
    >>> dW, dX = run("ConvTransposeGradient", X, W, dY, kernels=[1, 2], no_bias=1, outputs=2)
    >>> dW.ravel().tolist(), dX.ravel().tolist()
    ([21.0, 210.0], [43.0, 430.0])
    """,
)
CONV_TRANSPOSE_GRADIENT.validate(conv_transpose_validate)
CONV_TRANSPOSE_GRADIENT.name_outputs(conv_gradient_outputs)


@CONV_TRANSPOSE_GRADIENT.infer
def conv_transpose_gradient_infer(op: OpView, X: TensorSpec, W: TensorSpec, dY: TensorSpec) -> tuple[TensorSpec, ...]:
    Y = conv_transpose_infer(op, X, W, None)
    if Y.shape_known and dY.shape_known:
        op.require(Y.dims == dY.dims, f"dY has the shape {show_dims(dY.shape)}, Y has {show_dims(Y.shape)}")
    M = None if Y.dims is None else channels_first_dims(op.order, Y.dims)[1]
    specs = {"dW": W, "db": TensorSpec((M,), X.dtype), "dX": X}
    return tuple(specs[letter] for letter in op.output_letters)


@CONV_TRANSPOSE_GRADIENT.cost
def conv_transpose_gradient_cost(
    op: OpView,
    X: TensorSpec,
    W: TensorSpec,
    dY: TensorSpec,
    dW: TensorSpec,
    db: TensorSpec | None,
    dX: TensorSpec | None,
) -> Cost:
    del op
    product = 2 * X.size * (W.size // max(W.shape[0], 1))
    flops = product * (1 if dX is None else 2) + (0 if db is None else dY.size)
    written = dW.nbytes + sum(spec.nbytes for spec in (db, dX) if spec is not None)
    return Cost(flops, X.nbytes + W.nbytes + dY.nbytes, written, W.nbytes)


@kernel(CONV_TRANSPOSE_GRADIENT)
def conv_transpose_gradient_kernel(
    op: OpView, X: Array, W: Array, dY: Array, dW: Array, db: Array | None, dX: Array | None
) -> None:
    """Multiply the windows of dY with X for dW and with W for dX; sum dY for db."""
    window, _ = conv_transpose_window(op, X.shape, W.shape)
    x, w, dy = _places(op, X), _kernels(op, W), channels_first(op.order, dY)
    image = channels_first(op.order, X).shape[2:]
    # `adj` of a stride or more leaves room for windows that belong to no place of X.
    patches = window.patches(dy, image).reshape(
        dy.shape[0], groups(op), w.shape[2], x.shape[3], w.shape[3]
    )  # (N, G, M/G, P, K)
    dw = channels_first(op.order, dW)
    dw[...] = np.einsum("ngcp,ngmpk->gcmk", x, patches, optimize=True).reshape(dw.shape)
    if db is not None:
        db[...] = dy.sum(axis=(0, *range(2, dy.ndim)))
    if dX is not None:
        dx = channels_first(op.order, dX)
        dx[...] = np.einsum("gcmk,ngmpk->ngcp", w, patches, optimize=True).reshape(dx.shape)
