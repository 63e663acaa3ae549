"""Locally connected layers: LC over any number of dimensions, and LC1D, LC2D, LC3D, which differ from it by name only.

A convolution whose filters are others at each place. Letters as in `ops.nn.conv`; with order NCHW the blobs are

    X (N, C, in...)    W (out..., M, C/G, k...)    b (out..., M)    Y (N, M, out...)

and with NHWC the channels stand last, in W as well: (out..., M, k..., C/G). P is the product of `out...`.

Since the four differ by name only, their rules stand first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Dims,
    Effects,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    ends,
    family,
    kernel,
    schema,
    show_dims,
)
from tazza.ops.nn.conv import CONV_ARGS, conv_gradient, conv_gradient_outputs
from tazza.ops.nn.window import Window, channels_first, channels_first_dims, half_pairs
from tazza.ops.shape.axis import shapes_agree
from tazza.tensor import TensorSpec

LC_ARGS = (
    *(spec for spec in CONV_ARGS if spec.name != "global_pooling"),
    arg("global_pooling", bool, False, doc="one window, the whole image; kernel and legacy_pad have no effect then"),
    arg("no_gradient_to_input", int, 0, doc="the gradient operator gives no dX"),
)


def lc_window(op: OpView, X: Sequence[int | None], W: Sequence[int | None]) -> tuple[Window, Dims]:
    """Return the window with its final pads, and `out...`; checks that X and W fit."""
    image = channels_first_dims(op.order, X)[2:]
    D = len(image)
    relation = f"X has {len(X)} dimensions {show_dims(X)}, W has {len(W)} {show_dims(W)}"
    op.require(D > 0 and len(W) == 2 * D + 2, relation, "X is (N, C, in...), W is (out..., M, C/G, k...)")
    (M, C_per_group, *taps), C = channels_first_dims(op.order, W[D:]), channels_first_dims(op.order, X)[1]
    if op.global_pooling:
        whole = tuple(1 if extent is None else extent for extent in image)
        window, out = Window(whole, (1,) * D, (1,) * D, (0,) * D, (0,) * D), (1,) * D
    else:
        window = Window.of(op)
        op.require(window.rank == D, f"X has {D} spatial dimensions {show_dims(X)}, the kernel has {window.rank}")
        window, out = window.over(op, image)
    kernel = image if op.global_pooling else window.kernel
    op.require(shapes_agree(taps, kernel), f"W has the kernel size {show_dims(taps)}, it must be {show_dims(kernel)}")
    places = f"W is for {show_dims(W[:D])} places, there are {show_dims(out)}"
    op.require(shapes_agree(W[:D], out), places, "W has a filter for each place of Y")
    if C is not None and C_per_group is not None:
        relation = f"X has {C} channels, W takes {C_per_group} in each of {op.group} groups"
        op.require(C == C_per_group * op.group, relation, "C of X must be C/G of W times group")
    op.require(M is None or M % op.group == 0, f"{M} output channels do not divide into {op.group} groups")
    return window, out


def lc_infer(op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec | None) -> TensorSpec:
    if W.dims is None or X.dims is None:
        return TensorSpec(None, X.dtype)
    _, out = lc_window(op, X.dims, W.dims)
    M = W.dims[len(out)]
    if b is not None and b.dims is not None:
        relation = f"b has the shape {show_dims(b.dims)}, there are {show_dims((*out, M))} places and channels"
        op.require(shapes_agree(b.dims, (*out, M)), relation, "b must be (out..., M)")
    return TensorSpec((X.dims[0], *out, M) if op.order.upper() == "NHWC" else (X.dims[0], M, *out), X.dtype)


def lc_cost(op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec | None, Y: TensorSpec) -> Cost:
    del op
    parameters = W.nbytes + (0 if b is None else b.nbytes)
    flops = 2 * X.shape[0] * W.size + (0 if b is None else Y.size)
    return Cost(flops, X.nbytes + parameters, Y.nbytes, parameters)


def lc(op: OpView, X: Array, W: Array, b: Array | None, Y: Array) -> None:
    """Windows and one einsum: y[n,g,m,p] = sum over c, k of w[p,g,m,c,k] * patch[n,g,c,p,k]."""
    y = channels_first(op.order, Y)
    product = np.einsum("pgmck,ngcpk->ngmp", _filters(op, X, W), _patches(op, X, W), optimize=True)
    y[...] = product.reshape(y.shape)  # (N, G, M/G, P) -> (N, M, out...)
    if b is not None:
        y += np.moveaxis(b, -1, 0)  # (out..., M) -> (M, out...)


def lc_gradient_infer(op: OpView, X: TensorSpec, W: TensorSpec, dY: TensorSpec) -> tuple[TensorSpec, ...]:
    Y = lc_infer(op, X, W, None)
    if Y.dims is not None and dY.dims is not None:
        relation = f"dY has the shape {show_dims(dY.dims)}, Y has {show_dims(Y.dims)}"
        op.require(shapes_agree(dY.dims, Y.dims), relation)
    db = None if W.dims is None else W.dims[: len(W.dims) // 2]
    specs = {"dW": W, "db": TensorSpec(db, X.dtype), "dX": X}
    return tuple(specs[letter] for letter in op.output_letters)


def lc_gradient_cost(
    op: OpView,
    X: TensorSpec,
    W: TensorSpec,
    dY: TensorSpec,
    dW: TensorSpec,
    db: TensorSpec | None,
    dX: TensorSpec | None,
) -> Cost:
    del op
    flops = 2 * X.shape[0] * W.size * (1 if dX is None else 2) + (0 if db is None else dY.size)
    written = dW.nbytes + sum(spec.nbytes for spec in (db, dX) if spec is not None)
    return Cost(flops, X.nbytes + W.nbytes + dY.nbytes, written, W.nbytes)


def lc_gradient_reference(
    op: OpView, X: Array, W: Array, dY: Array, dW: Array, db: Array | None, dX: Array | None
) -> None:
    """Multiply dY with patches for dW, sum it for db, and scatter W^T dY back over the windows for dX."""
    patches, w = _patches(op, X, W), _filters(op, X, W)
    N, _, _, P, _ = patches.shape
    dy_image, D = channels_first(op.order, dY), X.ndim - 2
    dy = dy_image.reshape(N, op.group, w.shape[2], P)  # (N, M, out...) -> (N, G, M/G, P)
    dw = _filter_axes(op, dW, D)
    dw[...] = np.einsum("ngmp,ngcpk->pgmck", dy, patches, optimize=True).reshape(dw.shape)
    if db is not None:
        db[...] = np.moveaxis(dy_image.sum(axis=0), 0, -1)
    if dX is not None:
        window, _ = lc_window(op, X.shape, W.shape)
        dx = channels_first(op.order, dX)
        columns = np.einsum("pgmck,ngmp->ngcpk", w, dy, optimize=True)
        window.scatter(columns.reshape(*dx.shape[:2], *dy_image.shape[2:], *window.kernel), dx)


def _patches(op: OpView, X: Array, W: Array) -> Array:
    """Return (N, G, C/G, P, K)."""
    window, _ = lc_window(op, X.shape, W.shape)
    x, out = channels_first(op.order, X), W.shape[: X.ndim - 2]
    patches = window.patches(x, out)
    return patches.reshape(x.shape[0], op.group, x.shape[1] // op.group, math.prod(out), window.size)


def _filters(op: OpView, X: Array, W: Array) -> Array:
    """Return (P, G, M/G, C/G, K)."""
    D = X.ndim - 2
    w, P, M = _filter_axes(op, W, D), math.prod(W.shape[:D]), W.shape[D]
    return w.reshape(P, op.group, M // op.group, w.shape[D + 1], math.prod(w.shape[D + 2 :]))


def _filter_axes(op: OpView, W: Array, D: int) -> Array:
    """Return a view (out..., M, C/G, k...)."""
    return np.moveaxis(W, -1, D + 1) if op.order.upper() == "NHWC" else W


@family("LC", "LC1D", "LC2D", "LC3D")
def locally_connected(type: str) -> OpSchema:
    """A locally connected layer under one of its four names."""
    made = schema(
        type,
        """Y[n, m, p] = b[p, m] + sum over c, k of W[p, m, c, k] * X[n, c, p * stride + k * dilation - pad].

        The number of spatial dimensions is that of the kernel, not that of the operator's name.""",
        inputs=[
            blob("X", FLOAT, doc="(N, C, in...), NHWC: (N, in..., C)"),
            blob("W", "X", role=Role.PARAMETER, doc="(out..., M, C/G, k...), NHWC: (out..., M, k..., C/G)"),
            blob("b", "X", optional=True, role=Role.PARAMETER, doc="(out..., M)"),
        ],
        outputs=[blob("Y", "X", doc="(N, M, out...), NHWC: (N, out..., M)")],
        args=LC_ARGS,
        effects=Effects.PURE,
        ineffective=half_pairs,
        source="Taigman, Yang, Ranzato, Wolf 2014, DeepFace, section 3; Caffe2",
        example=f"""
        >>> run("{type}", [[[1.0, 2.0, 3.0]]], [[[[1.0, 0.0]]], [[[5.0, 7.0]]]], kernels=[2])
        array([[[ 1., 31.]]], dtype=float32)
        """,
    )
    made.infer(lc_infer)
    made.batched("X")
    made.cost(lc_cost)
    made.gradient(conv_gradient)
    kernel(made)(lc)
    return made


@family("LCGradient", "LC1DGradient", "LC2DGradient", "LC3DGradient")
def locally_connected_gradients(type: str) -> OpSchema:
    """The gradient operator of a locally connected layer under one of its four names."""
    made = schema(
        type,
        """dW, db and dX of a locally connected layer, from X, W and dY.

        Outputs: (dW, db, dX); without db when `no_bias`; without dX when `no_gradient_to_input`.""",
        inputs=[blob("X", FLOAT), blob("W", "X", role=Role.PARAMETER), blob("dY", "X")],
        outputs=[
            blob("dW", like="W"),
            blob("db", "X", optional=True, doc="(out..., M)"),
            blob("dX", like="X", optional=True),
        ],
        args=[*LC_ARGS, arg("no_bias", int, 0, doc="the layer had no b")],
        effects=Effects.PURE,
        ineffective=half_pairs,
        no_gradient=ends("second derivatives are not built"),
        source="the transposed relations of the forward operator",
        example=f"""
        >>> X, W, dY = [[[1.0, 2.0, 3.0]]], [[[[1.0, 0.0]]], [[[5.0, 7.0]]]], [[[1.0, 10.0]]]
        >>> run("{type}", X, W, dY, kernels=[2], no_bias=1, outputs=2)[1]
        array([[[ 1., 50., 70.]]], dtype=float32)
        """,
    )
    made.infer(lc_gradient_infer)
    made.cost(lc_gradient_cost)
    made.name_outputs(conv_gradient_outputs)
    kernel(made)(lc_gradient_reference)
    return made
