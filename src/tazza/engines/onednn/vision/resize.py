"""ResizeNearest and its gradient for images that grow by whole numbers.

oneDNN takes the element nearest to the middle of each new one, Caffe2 the one at floor(place / scale). The two are the
same where Y has a whole number of rows and columns for each of X, and in hardly any other case. The gradient is the sum
of each such field of dY: its average, as pooling gives it, times the number of its elements.

UpsampleBilinear is not here: Caffe2 puts the first and the last element of Y onto those of X, oneDNN its first and last
half element into theirs, so the two agree for images that keep their size only.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from tazza.engines.onednn.image import Order
from tazza.engines.onednn.launch import PrimitiveLaunch
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import Attributes, Eltwise, describe
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.ops.vision.resize import RESIZE_NEAREST, RESIZE_NEAREST_GRADIENT, nearest
from tazza.tensor import Layout, TensorSpec

MOST = 4096
"""Rows or columns up to which oneDNN's places, computed in float32, are certainly the nearest ones."""


def _factors(op: OpView, X: TensorSpec, Y: TensorSpec) -> tuple[int, int] | Unsupported:
    """Return by how much rows and columns grow."""
    if op.has_input("scales"):
        return Unsupported("scales come as an input: which elements they name is known only when it runs")
    order = Order.of(op, X)
    small, large = (order.see(TensorSpec(spec.shape, spec.dtype)).dims[2:] for spec in (X, Y))
    factors: list[int] = []
    for extent, count, scale in zip(small, large, (op.height_scale, op.width_scale), strict=True):
        factor = count // extent
        places = nearest(count, extent, np.float32(scale))
        if factor * extent != count or count > MOST or not np.array_equal(places, np.arange(count) // factor):
            return Unsupported(f"{extent} elements become {count} at scale {scale}: oneDNN would take other ones")
        factors.append(factor)
    return cast("tuple[int, int]", tuple(factors))


@onednn(RESIZE_NEAREST, empty="zero", batch_invariant=True)
def resize_nearest(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y from X, in the layout of X."""
    X, Y = specs["X"], specs["Y"]
    factors = _factors(op, X, Y)
    if isinstance(factors, Unsupported):
        return factors
    order = Order.of(op, X)
    scales = tuple(float(factor) for factor in factors)
    found = describe(
        "resampling_forward", "forward_inference", "resampling_nearest", scales, order.see(X), order.any(Y)
    )
    layouts: dict[str, Layout] = {"X": X.layout, "Y": order.layout(found.argument("dst"))}
    return LaidOut(PrimitiveLaunch(found, {"src": "X", "dst": "Y"}), layouts)


@onednn(RESIZE_NEAREST_GRADIENT, empty="zero")
def resize_nearest_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """DX from dY, in the layout of dY."""
    dY, dX = specs["dY"], specs["dX"]
    factors = _factors(op, dX, dY)
    if isinstance(factors, Unsupported):
        return factors
    order, none = Order.of(op, dY), (0, 0)
    times = Attributes((Eltwise("eltwise_linear", float(factors[0] * factors[1]), 0.0),))
    kinds = "forward_inference", "pooling_avg_include_padding"
    given = *kinds, order.see(dY), order.any(dX), factors, factors, none, none, none
    found = describe("pooling_forward", *given, attributes=times).unless_slow
    layouts: dict[str, Layout] = {"dY": dY.layout, "dX": order.layout(found.argument("dst"))}
    return LaidOut(PrimitiveLaunch(found, {"src": "dY", "dst": "dX"}), layouts)
