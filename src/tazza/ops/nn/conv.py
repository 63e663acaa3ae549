"""Convolution: Conv over any number of dimensions, and Conv1D, Conv2D, Conv3D, which differ from it by name only.

Letters: N images, G groups, C and M input and output channels, `in...` and `out...` spatial sizes, `k...` kernel sizes,
P and K their products. With order NCHW the blobs are

    X (N, C, in...)    W (M, C/G, k...)    b (M)    Y (N, M, out...)

and with NHWC the channels stand last, in W as well: (M, k..., C/G). How `out` follows from `in`: see `ops.window`.

Since the four differ by name only, their rules stand first; `convs` and `conv_gradients` at the end put each schema
together.
"""

from __future__ import annotations

import math
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
from tazza.ops.nn.window import Window, channels_first, channels_first_dims, half_pairs, window_args
from tazza.proto import OperatorDef
from tazza.runtime.flags import flag
from tazza.tensor import TensorSpec

FORCE_SHARED_BUFFER = flag(
    "caffe2_force_shared_col_buffer", False, "convolutions of a workspace share one column buffer, asked to or not"
)

CONV_ARGS = (
    *window_args(),
    arg("group", int, 1, minimum=1, doc="channels fall into this many groups that do not see each other"),
    arg("shared_buffer", int, 0, doc="share the column buffer with all operators of the workspace that ask for it"),
    arg("float16_compute", int, 0, doc="for float16 blobs: accumulate in float16; no effect on float32"),
    arg("exhaustive_search", int, 0, doc="a compiled net times every implementation and layout, and takes the fastest"),
    arg("global_pooling", int, 0, choices=(0,), doc="only pooling has it; anything but 0 is refused"),
)

CUDNN_ARGS = (
    arg("ws_nbytes_limit", int, 64 << 20, minimum=0, doc="on CUDA devices: bytes of memory that cuDNN may work in"),
    arg("cudnn_exhaustive_search", int, 0, doc="on CUDA devices: time every engine of cuDNN, and take the fastest"),
    arg("deterministic", int, None, doc="on CUDA devices: 1 for the same numbers each time, 0 for sums in any order"),
    arg("force_algo_fwd", int, -1, doc="on CUDA devices: the number of the algorithm by which cuDNN computes Y"),
    arg("force_algo_wgrad", int, -1, doc="the same for dW"),
    arg("force_algo_dgrad", int, -1, doc="the same for dX"),
    arg("force_algo", list[int], [], doc="these three in turn; they go before those alone"),
)
"""What is asked of cuDNN; on the host they have no effect."""


def conv_window(
    op: OpView, X: Sequence[int | None], W: Sequence[int | None], letters: tuple[str, str] = ("X", "W")
) -> tuple[Window, Dims]:
    """Return the window of a convolution with its final pads, and `out...`; checks that X and W fit.

    `letters` are what errors call them.
    """
    window = Window.of(op)
    rank = window.rank + 2
    for letter, dims in zip(letters, (X, W), strict=True):
        relation = f"{letter} has {len(dims)} dimensions {show_dims(dims)}, a kernel of {window.rank} needs {rank}"
        op.require(len(dims) == rank, relation, "kernel=k means two dimensions; for others give kernels=[...]")
    (_, C, *image), (M, C_per_group, *kernel) = channels_first_dims(op.order, X), channels_first_dims(op.order, W)
    relation = f"{letters[1]} has the kernel size {show_dims(kernel)}, the arguments say {show_dims(window.kernel)}"
    op.require(tuple(kernel) == window.kernel or None in kernel, relation)
    if C is not None and C_per_group is not None:
        relation = f"{letters[0]} has {C} channels, {letters[1]} takes {C_per_group} in each of {op.group} groups"
        hint = f"C of {letters[0]} must be C/G of {letters[1]} times group"
        op.require(C == C_per_group * op.group, relation, hint)
    op.require(M is None or M % op.group == 0, f"{M} output channels do not divide into {op.group} groups")
    return window.over(op, image)


def shares_buffer(op: OpView) -> bool:
    """Whether a convolution keeps its columns in the buffer of the workspace; only engines that have columns ask."""
    return bool(op.shared_buffer) or FORCE_SHARED_BUFFER.value


def require_bias(op: OpView, b: TensorSpec | None, M: int | None, letters: tuple[str, str] = ("W", "b")) -> None:
    """Check that a bias has an element for each of the M output channels; `letters` are those of filters and bias."""
    if b is not None and b.dims is not None:
        W, name = letters
        relation = f"{name} has the shape {show_dims(b.dims)}, {W} has {M} output channels"
        op.require(tuple(b.dims) == (M,) or None in (M, *b.dims), relation, f"{name} must be (M,)")


def conv_infer(
    op: OpView,
    X: TensorSpec,
    W: TensorSpec,
    b: TensorSpec | None,
    letters: tuple[str, str, str] = ("X", "W", "b"),
) -> TensorSpec:
    if W.dims is None:
        return TensorSpec(None, X.dtype)
    image = (None,) * len(W.dims) if X.dims is None else X.dims
    _, out = conv_window(op, image, W.dims, letters[:2])
    N, M = image[0], W.dims[0]
    require_bias(op, b, M, letters[1:])
    return TensorSpec((N, *out, M) if op.order.upper() == "NHWC" else (N, M, *out), X.dtype)


def conv_cost(op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec | None, Y: TensorSpec) -> Cost:
    del op
    parameters = W.nbytes + (0 if b is None else b.nbytes)
    flops = 2 * Y.size * (W.size // max(W.shape[0], 1)) + (0 if b is None else Y.size)
    return Cost(flops, X.nbytes + parameters, Y.nbytes, parameters)


def conv_gradient(g: GradientRequest) -> list[OperatorDef]:
    inputs, no_bias = [g.X, g.W, g.dY], {} if g.op.has_input("b") else {"no_bias": 1}
    outputs = [g.dW, *([g.db] if g.op.has_input("b") else []), *([] if g.op.no_gradient_to_input else [g.dX])]
    return g.emit(f"{g.op.type}Gradient", inputs, outputs, **no_bias)


def conv(op: OpView, X: Array, W: Array, b: Array | None, Y: Array) -> None:
    """Windows and one einsum: y[n,g,m,p] = sum over c, k of w[g,m,c,k] * patch[n,g,c,p,k]."""
    patches, w = _patches(op, X, W), _kernels(op, W)
    y = channels_first(op.order, Y)
    product = np.einsum("gmck,ngcpk->ngmp", w, patches, optimize=True)
    y[...] = product.reshape(y.shape)  # (N, G, M/G, P) -> (N, M, out...)
    if b is not None:
        y += b.reshape(-1, *[1] * (y.ndim - 2))


def conv_gradient_infer(op: OpView, X: TensorSpec, W: TensorSpec, dY: TensorSpec) -> tuple[TensorSpec, ...]:
    Y = conv_infer(op, X, W, None)
    if Y.shape_known and dY.shape_known:
        op.require(Y.dims == dY.dims, f"dY has the shape {show_dims(dY.shape)}, Y has {show_dims(Y.shape)}")
    M = None if W.dims is None else W.dims[0]
    specs = {"dW": W, "db": TensorSpec((M,), X.dtype), "dX": X}
    return tuple(specs[letter] for letter in op.output_letters)


def conv_gradient_outputs(op: OpView, count: int) -> tuple[str, ...]:
    letters = ("dW",) if op.no_bias else ("dW", "db")
    most = letters if op.no_gradient_to_input else (*letters, "dX")
    if count not in (len(letters), len(most)):
        wanted = " or ".join(f"({', '.join(form)})" for form in dict.fromkeys((letters, most)))
        raise op.error(ArgumentError, f"{count} outputs, with no_bias = {op.no_bias} they are {wanted}")
    return most[:count]


def conv_gradient_cost(
    op: OpView,
    X: TensorSpec,
    W: TensorSpec,
    dY: TensorSpec,
    dW: TensorSpec,
    db: TensorSpec | None,
    dX: TensorSpec | None,
) -> Cost:
    del op
    product = 2 * dY.size * (W.size // max(W.shape[0], 1))
    flops = product * (1 if dX is None else 2) + (0 if db is None else dY.size)
    written = dW.nbytes + sum(spec.nbytes for spec in (db, dX) if spec is not None)
    return Cost(flops, X.nbytes + W.nbytes + dY.nbytes, written, W.nbytes)


def conv_gradient_reference(
    op: OpView, X: Array, W: Array, dY: Array, dW: Array, db: Array | None, dX: Array | None
) -> None:
    """Multiply dY with patches for dW, sum it for db, and scatter W^T dY back over the windows for dX."""
    patches, w = _patches(op, X, W), _kernels(op, W)
    N, G, _, P, _ = patches.shape
    dy_image = channels_first(op.order, dY)
    dy = dy_image.reshape(N, G, w.shape[1], P)  # (N, M, out...) -> (N, G, M/G, P)
    dw = channels_first(op.order, dW)
    dw[...] = np.einsum("ngmp,ngcpk->gmck", dy, patches, optimize=True).reshape(dw.shape)
    if db is not None:
        db[...] = dy.sum(axis=(0, 3)).reshape(-1)
    if dX is not None:
        dx = channels_first(op.order, dX)
        window, _ = conv_window(op, X.shape, W.shape)
        columns = np.einsum("gmck,ngmp->ngcpk", w, dy, optimize=True)
        window.scatter(columns.reshape(*dx.shape[:2], *dy_image.shape[2:], *window.kernel), dx)


def _patches(op: OpView, X: Array, W: Array) -> Array:
    """Return (N, G, C/G, P, K)."""
    window, out = conv_window(op, X.shape, W.shape)
    x = channels_first(op.order, X)
    sizes = cast("tuple[int, ...]", out)
    patches, P = window.patches(x, sizes), math.prod(sizes)
    return patches.reshape(x.shape[0], op.group, x.shape[1] // op.group, P, window.size)


def _kernels(op: OpView, W: Array) -> Array:
    """Return (G, M/G, C/G, K)."""
    w = channels_first(op.order, W)
    return w.reshape(op.group, w.shape[0] // op.group, w.shape[1], int(np.prod(w.shape[2:], dtype=np.int64)))


@family("Conv", "Conv1D", "Conv2D", "Conv3D")
def convs(type: str) -> OpSchema:
    """A convolution under one of its four names."""
    made = schema(
        type,
        """Y[n, m, p] = b[m] + sum over c, k of W[m, c, k] * X[n, c, p * stride + k * dilation - pad].

        Cross-correlation over sliding windows, as in all deep-learning libraries. The number of spatial dimensions is
        that of the kernel, not that of the operator's name.""",
        inputs=[
            blob("X", FLOAT, elsewhere=HALVES, doc="(N, C, in...), NHWC: (N, in..., C)"),
            blob("W", "X", role=Role.PARAMETER, doc="(M, C/G, k...), NHWC: (M, k..., C/G)"),
            blob("b", "X", optional=True, role=Role.PARAMETER, doc="(M)"),
        ],
        outputs=[blob("Y", "X", doc="(N, M, out...), NHWC: (N, out..., M)")],
        args=[
            *CONV_ARGS,
            *CUDNN_ARGS,
            arg("no_gradient_to_input", int, 0, doc="the gradient operator gives no dX"),
        ],
        effects=Effects.PURE,
        ineffective=half_pairs,
        source="Dumoulin, Visin 2016, arXiv 1603.07285; Caffe2",
        example=f"""
        >>> run("{type}", np.arange(9.0, dtype="f").reshape(1, 1, 3, 3), np.ones((1, 1, 2, 2), "f"), kernel=2)
        array([[[[ 8., 12.],
                 [20., 24.]]]], dtype=float32)
        """,
    )
    made.infer(conv_infer)
    made.batched("X")
    made.cost(conv_cost)
    made.gradient(conv_gradient)
    kernel(made)(conv)
    return made


@family("ConvGradient", "Conv1DGradient", "Conv2DGradient", "Conv3DGradient")
def conv_gradients(type: str) -> OpSchema:
    """The gradient operator of a convolution under one of its four names."""
    made = schema(
        type,
        """dW, db and dX of a convolution, from X, W and dY.

        Outputs: (dW, db, dX); without db when `no_bias`; without dX when `no_gradient_to_input`.""",
        inputs=[blob("X", FLOAT, elsewhere=HALVES), blob("W", "X", role=Role.PARAMETER), blob("dY", "X")],
        outputs=[blob("dW", like="W"), blob("db", "X", optional=True), blob("dX", like="X", optional=True)],
        args=[
            *CONV_ARGS,
            *CUDNN_ARGS,
            arg("no_gradient_to_input", int, 0),
            arg("no_bias", int, 0, doc="the convolution had no b"),
        ],
        effects=Effects.PURE,
        ineffective=half_pairs,
        no_gradient=ends("second derivatives are not built"),
        source="the transposed relations of the forward operator",
        example=f"""
        >>> X, W, dY = np.ones((1, 1, 3, 3), "f"), np.ones((1, 1, 2, 2), "f"), np.ones((1, 1, 2, 2), "f")
        >>> run("{type}", X, W, dY, kernel=2, no_bias=1, outputs=2)[1].reshape(3, 3).tolist()
        [[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]
        """,
    )
    made.infer(conv_gradient_infer)
    made.cost(conv_gradient_cost)
    made.name_outputs(conv_gradient_outputs)
    kernel(made)(conv_gradient_reference)
    return made


CONVS, CONV_GRADIENTS = convs.schemas, conv_gradients.schemas
CONV, CONV2D = convs["Conv"], convs["Conv2D"]
CONV_GRADIENT, CONV2D_GRADIENT = conv_gradients["ConvGradient"], conv_gradients["Conv2DGradient"]
