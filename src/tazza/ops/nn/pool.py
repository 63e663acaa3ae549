"""Pooling: MaxPool and AveragePool over any number of dimensions; those with 1D, 2D, 3D differ by name only.

Letters: N images, C channels, `in...` and `out...` spatial sizes, `k...` kernel sizes. With order NCHW the blobs are

    X (N, C, in...)    Y (N, C, out...)

and with NHWC the channels stand last. How `out` follows from `in`: see `ops.window`. With `global_pooling` there is one
window, the whole image, and every size in `out` is 1. Dilation is not there, as in Caffe2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from inspect import cleandoc
from typing import cast

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.operator import (
    FLOAT,
    HALVES,
    ArgSpec,
    Array,
    Cost,
    Dims,
    Effects,
    GradientRequest,
    OpSchema,
    OpView,
    arg,
    blob,
    ends,
    family,
    gradients_of,
    kernel,
    schema,
    show_dims,
)
from tazza.ops.nn.window import (
    LegacyPad,
    Window,
    channels_first,
    channels_first_dims,
    given_sizes,
    half_pairs,
    window_args,
)
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

POOL_ARGS = (
    *window_args(least_kernel=0),
    arg("global_pooling", bool, False, doc="one window, the whole image; kernel and legacy_pad have no effect then"),
)
COUNT_INCLUDE_PAD = arg(
    "count_include_pad", bool, False, doc="divide by the kernel's size also where it covers padding"
)


def pool_validate(op: OpView) -> None:
    """Refuse what Caffe2 refuses: dilation, pads as large as the kernel, and both with `global_pooling`."""
    if op.global_pooling:
        for name, neutral in (("stride", 1), ("dilation", 1), ("pad", 0)):
            sizes = given_sizes(op, name)
            if sizes is not None and set(sizes) != {neutral}:
                raise op.error(ArgumentError, f"global_pooling takes no {name}, it is {list(sizes)}", hint="drop one")
        return
    window = Window.of(op)
    if set(window.dilation) != {1}:
        raise op.error(ArgumentError, f"pooling takes no dilation, it is {list(window.dilation)}")
    if any(pad >= k for pads in (window.head, window.tail) for pad, k in zip(pads, window.kernel, strict=True)):
        pads = [*window.head, *window.tail]
        raise op.error(ArgumentError, f"pads {pads} must be smaller than the kernel {list(window.kernel)}")


def pool_window(op: OpView, X: Sequence[int | None]) -> tuple[Window, Dims]:
    """Return the window with its final pads over an image of X's extents, and `out...`.

    A window of more dimensions than the image loses its last ones, so that `kernel=2` does for (N, C, in) too.
    """
    image = channels_first_dims(op.order, X)[2:]
    D = len(image)
    op.require(len(X) >= 2, f"X has {len(X)} dimensions {show_dims(X)}, it needs (N, C, in...)")
    if op.global_pooling:
        op.require(0 not in image, f"X {show_dims(X)} has no elements to pool")
        whole = tuple(1 if extent is None else extent for extent in image)
        return Window(whole, (1,) * D, (1,) * D, (0,) * D, (0,) * D), (1,) * D
    window = Window.of(op)
    op.require(
        D <= window.rank,
        f"X has {D} spatial dimensions {show_dims(X)}, the kernel {list(window.kernel)} has {window.rank}",
        "give kernels=[...], one size per dimension",
    )
    pads = (*window.head, *window.tail)
    parts = (window.kernel[:D], window.stride[:D], window.dilation[:D], pads[:D], pads[D : 2 * D])
    final, out = Window(*parts, window.legacy_pad).over(op, image)
    _check_last_window(op, final, image, out)
    return final, out


def clipped_pool_window(op: OpView, X: Sequence[int]) -> Window:
    """Return the window without what only lies in the padding, over an image of X's extents."""
    window, out = pool_window(op, X)
    return window.clipped(cast("tuple[int, ...]", channels_first_dims(op.order, X)[2:]), cast("tuple[int, ...]", out))


def pool_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    if X.dims is None:
        return TensorSpec(None, X.dtype)
    _, out = pool_window(op, X.dims)
    last = op.order.upper() == "NHWC" and len(X.dims) > 2
    return TensorSpec((X.dims[0], *out, X.dims[-1]) if last else (*X.dims[:2], *out), X.dtype)


def pool_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    return Cost(Y.size * clipped_pool_window(op, X.shape).size, X.nbytes, Y.nbytes)


def pool_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit(f"{g.op.type}Gradient", [g.X, g.Y, g.dY], [g.dX])


def pool_gradient_infer(op: OpView, X: TensorSpec, Y: TensorSpec, dY: TensorSpec) -> TensorSpec:
    expected = pool_infer(op, X)
    for letter, spec in (("Y", Y), ("dY", dY)):
        if expected.shape_known and spec.shape_known:
            op.require(
                spec.shape == expected.shape,
                f"{letter} has the shape {show_dims(spec.shape)}, pooling X gives {show_dims(expected.shape)}",
            )
    return X


def pool_gradient_cost(op: OpView, X: TensorSpec, Y: TensorSpec, dY: TensorSpec, dX: TensorSpec) -> Cost:
    flops = 2 * Y.size * clipped_pool_window(op, X.shape).size
    return Cost(flops, X.nbytes + Y.nbytes + dY.nbytes, dX.nbytes)


def max_pool(op: OpView, X: Array, Y: Array) -> None:
    window, _ = pool_window(op, X.shape)
    x, y = channels_first(op.order, X), channels_first(op.order, Y)
    y[...] = fold_windows(np.maximum, -np.inf, window, x, y.shape[2:])


def max_pool_gradient(op: OpView, X: Array, Y: Array, dY: Array, dX: Array) -> None:
    """Every element that equals the maximum of a window gets that window's gradient, also where several do."""
    window, _ = pool_window(op, X.shape)
    x, y, dy, dx = (channels_first(op.order, array) for array in (X, Y, dY, dX))
    image, out = x.shape[2:], y.shape[2:]
    dx[...] = 0
    if window.clipped(image, out).size <= math.prod(image):
        for _, windows, places in window.all_touches(image, out):
            seen, into = x[(..., *places)], dx[(..., *places)]
            into += dy[(..., *windows)] * (seen == y[(..., *windows)])
        return
    covering = [_covering(window, axis, *sizes) for axis, sizes in enumerate(zip(image, out, strict=True))]
    for place in itertools.product(*map(range, image)):
        here = tuple(slices[i] for slices, i in zip(covering, place, strict=True))
        one = x[(..., *place)].reshape(*x.shape[:2], *[1] * window.rank)
        shares = dy[(..., *here)] * (y[(..., *here)] == one)
        dx[(..., *place)] = shares.sum(axis=tuple(range(2, 2 + window.rank)))


def average_pool(op: OpView, X: Array, Y: Array) -> None:
    window, _ = pool_window(op, X.shape)
    x, y = channels_first(op.order, X), channels_first(op.order, Y)
    total = fold_windows(np.add, 0, window, x, y.shape[2:])
    y[...] = total / window_counts(op, window, x.shape[2:], y.shape[2:]).astype(x.dtype)


def average_pool_gradient(op: OpView, X: Array, dY: Array, dX: Array) -> None:
    """Every element that a window averages gets an equal share of that window's gradient: one dimension at a time."""
    window, _ = pool_window(op, X.shape)
    dy, dx = channels_first(op.order, dY), channels_first(op.order, dX)
    share = dy / window_counts(op, window, dx.shape[2:], dy.shape[2:]).astype(dy.dtype)
    for axis, extent in enumerate(dx.shape[2:]):
        before, n = (slice(None),) * (axis + 2), share.shape[axis + 2]
        spread = np.zeros((*share.shape[: axis + 2], extent, *share.shape[axis + 3 :]), dx.dtype)
        if _by_place(window, axis, extent, n):
            for place, windows in enumerate(_covering(window, axis, extent, n)):
                spread[(*before, place)] = share[(*before, windows)].sum(axis=axis + 2)
        else:
            for touch in window.touches(axis, extent, n):
                into = spread[(*before, touch.places)]
                into += share[(*before, touch.windows)]
        share = spread
    dx[...] = share


def fold_windows(combine: np.ufunc, start: float, window: Window, x: Array, out: Sequence[int]) -> Array:
    """Return (N, C, out...): all elements of each window combined, one dimension after the other.

    `start` is what a window gives that has nothing of the image. What is looped over is no more than the image has
    places, however large the kernel is.
    """
    for axis, n in enumerate(out):
        before, extent = (slice(None),) * (axis + 2), x.shape[axis + 2]
        folded = np.full((*x.shape[: axis + 2], n, *x.shape[axis + 3 :]), start, x.dtype)
        if n == 1:
            head, k = window.head[axis], window.kernel[axis]
            inside = x[(*before, slice(max(-head, 0), max(k - head, 0)))]
            combine.reduce(inside, axis=axis + 2, keepdims=True, out=folded, initial=start)
        elif _by_place(window, axis, extent, n):
            for place, windows in enumerate(_covering(window, axis, extent, n)):
                into = folded[(*before, windows)]
                combine(into, x[(*before, slice(place, place + 1))], out=into)
        else:
            for touch in window.touches(axis, extent, n):
                into = folded[(*before, touch.windows)]
                combine(into, x[(*before, touch.places)], out=into)
        x = folded
    return x


def _by_place(window: Window, axis: int, extent: int, out: int) -> bool:
    """Whether a dimension of an image has fewer places than the windows have elements that may lie in it."""
    return len(window.taps(axis, extent, out)) > extent


def _covering(window: Window, axis: int, extent: int, out: int) -> list[slice]:
    """Return for each place of one dimension the windows that have it: p * s - head <= place < p * s - head + k."""
    k, s, head = window.kernel[axis], window.stride[axis], window.head[axis]
    bounds = [(max(0, -((k - 1 - head - i) // s)), min(out, (i + head) // s + 1)) for i in range(extent)]
    return [slice(first, max(first, last)) for first, last in bounds]


def window_counts(op: OpView, window: Window, image: Sequence[int], out: Sequence[int]) -> Array:
    """Return (out...): by how many elements each window divides; those of the image unless `count_include_pad`."""
    if op.count_include_pad:
        return np.array(float(window.size))
    counts, window = np.ones((), np.int64), window.clipped(image, out)  # what it has in the image stays the same
    for k, s, head, extent, n in zip(window.kernel, window.stride, window.head, image, out, strict=True):
        start = np.arange(n) * s - head
        inside = np.minimum(start + k, extent) - np.maximum(start, 0)
        counts = np.multiply.outer(counts, inside)
    return counts


def _check_last_window(op: OpView, window: Window, image: Sequence[int | None], out: Sequence[int | None]) -> None:
    """Caffe's rounding up can place a window behind the image when strides are larger than kernels."""
    if window.legacy_pad is not LegacyPad.CAFFE_LEGACY_POOLING:
        return
    for axis, (s, head, extent, n) in enumerate(zip(window.stride, window.head, image, out, strict=True)):
        if extent is not None and n is not None:
            start = (n - 1) * s - head
            op.require(
                start < extent,
                f"the last window of dimension {axis} begins at {start}, the image ends at {extent}",
                "legacy_pad = 3 rounds up; use a stride that is no larger than the kernel",
            )


@dataclass(frozen=True, slots=True)
class Pooling:
    """What tells one kind of pooling from another."""

    formula: str
    gradient_formula: str
    args: tuple[ArgSpec, ...]
    forward: Callable[..., None]
    backward: Callable[..., None]
    pooled: str
    """Text of `Y` for X = 0 ... 8 as 3x3, kernel 2, in the example."""
    shared: str
    """Text of `dX` for the same X and dY = 1 ... 4."""


MAX = Pooling(
    """Y[n, c, p] = max of X[n, c, p * stride + k - pad] over all k that lie in the image.""",
    "dX = dY at every element that is the maximum of its window, summed over windows.",
    POOL_ARGS,
    max_pool,
    max_pool_gradient,
    "[4., 5.],\n         [7., 8.]",
    "[0., 0., 0.],\n         [0., 1., 2.],\n         [0., 3., 4.]",
)
AVERAGE = Pooling(
    """Y[n, c, p] = mean of X[n, c, p * stride + k - pad] over all k that lie in the image.

    With `count_include_pad` the sum is divided by the kernel's size, wherever the window lies.""",
    "dX = dY / (elements of the window), summed over windows.",
    (*POOL_ARGS, COUNT_INCLUDE_PAD),
    average_pool,
    average_pool_gradient,
    "[2., 3.],\n         [5., 6.]",
    "[0.25, 0.75, 0.5 ],\n         [1.  , 2.5 , 1.5 ],\n         [0.75, 1.75, 1.  ]",
)
IMAGE = 'np.arange(9, dtype="f").reshape(1, 1, 3, 3)'


@family(
    {
        "MaxPool": MAX,
        "MaxPool1D": MAX,
        "MaxPool2D": MAX,
        "MaxPool3D": MAX,
        "AveragePool": AVERAGE,
        "AveragePool1D": AVERAGE,
        "AveragePool2D": AVERAGE,
        "AveragePool3D": AVERAGE,
    }
)
def pools(type: str, row: Pooling) -> OpSchema:
    """A pooling under one of its four names."""
    made = schema(
        type,
        row.formula,
        inputs=[blob("X", FLOAT, elsewhere=HALVES, doc="(N, C, in...), NHWC: (N, in..., C)")],
        outputs=[blob("Y", "X", doc="(N, C, out...), NHWC: (N, out..., C)")],
        args=row.args,
        effects=Effects.PURE,
        ineffective=half_pairs,
        source="Dumoulin, Visin 2016, arXiv 1603.07285; Caffe2",
        example=f'>>> run("{type}", {IMAGE}, kernel=2)\narray([[[{row.pooled}]]], dtype=float32)',
    )
    made.validate(pool_validate)
    made.infer(pool_infer)
    made.batched("X")
    made.cost(pool_cost)
    made.gradient(pool_gradient)
    kernel(made)(row.forward)
    return made


@family(gradients_of(pools))
def pool_gradients(type: str, row: Pooling) -> OpSchema:
    """The gradient operator of a pooling under one of its four names."""
    example = f"""
        >>> X, dY = {IMAGE}, np.arange(1, 5, dtype="f").reshape(1, 1, 2, 2)
        >>> run("{type}", X, run("{type.removesuffix("Gradient")}", X, kernel=2), dY, kernel=2)
        """
    made = schema(
        type,
        row.gradient_formula,
        inputs=[blob("X", FLOAT, elsewhere=HALVES), blob("Y", "X"), blob("dY", "X")],
        outputs=[blob("dX", like="X")],
        args=row.args,
        effects=Effects.PURE,
        ineffective=half_pairs,
        no_gradient=ends("second derivatives are not built"),
        source="the transposed relation of the forward operator",
        example=f"{cleandoc(example)}\narray([[[{row.shared}]]], dtype=float32)",
    )
    made.validate(pool_validate)
    made.infer(pool_gradient_infer)
    made.cost(pool_gradient_cost)
    kernel(made)(row.backward)
    return made
