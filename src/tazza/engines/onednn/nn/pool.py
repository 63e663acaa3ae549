"""Pooling: MaxPool and AveragePool with all their names, and the gradient of AveragePool.

Letters as in `ops.pool`. Y and dX lie like X and dY. MaxPoolGradient is not here: oneDNN gives a window's gradient to
one of its maxima, Caffe2 to all of them. A window of which all elements are -inf gives the lowest finite number.
"""

from __future__ import annotations

from tazza.engines.onednn.descriptor import Descriptor, accepts_dense, accepts_narrow
from tazza.engines.onednn.estimate import passes_ns
from tazza.engines.onednn.image import Order
from tazza.engines.onednn.launch import PrimitiveLaunch
from tazza.engines.onednn.prepare import Answer, onednn, wished
from tazza.engines.onednn.primitive import PrimitiveDescriptor, describe
from tazza.engines.onednn.reach import check_dimensions, check_steps, check_taps
from tazza.operator import LaidOut, OpSchema, OpView, Spec, Unsupported
from tazza.ops.nn.pool import clipped_pool_window, pool_gradients, pool_window, pools
from tazza.tensor import ROW_MAJOR, Layout, TensorSpec

WHOLE_PASSES = 3
"""What means over whole row-major images take, in passes over them."""
SLOW_ELEMENTS = 1 << 14
"""From here on NumPy is faster than code that takes an element at a time, at 40 ns each."""

Numbers = tuple[tuple[int, ...], ...]


def pool_numbers(op: OpView, X: TensorSpec) -> Numbers:
    """Return strides, kernel, dilations, pads before and behind, as oneDNN wants them."""
    given, out = pool_window(op, X.shape)
    window = clipped_pool_window(op, X.shape)  # its time grows with the kernel, of which the image may have little
    if op.type.startswith("Average") and op.count_include_pad and window.kernel != given.kernel:
        raise Unsupported(f"kernels {given.kernel} of which {window.kernel} may lie in the image count whole")
    check_dimensions(window)
    if min(window.head) < 0:
        raise Unsupported(f"pads {window.head} before the image: oneDNN cuts nothing off")
    order = Order.of(op, X)
    image = order.see(TensorSpec(X.shape, X.dtype)).dims[2:]
    check_taps(window, image)
    sides = zip(out, window.stride, window.kernel, image, window.head, strict=True)
    # What the last window reaches beyond the image: padding that no window covers does not count, nor does one cut off.
    tail = tuple(max(((0 if n is None else n) - 1) * s + k - extent - head, 0) for n, s, k, extent, head in sides)
    check_steps(window, tail)
    return window.stride, window.kernel, (0,) * window.rank, window.head, tail


def _algorithm(op: OpView) -> str:
    if op.type.startswith("Max"):
        return "pooling_max"
    return "pooling_avg_include_padding" if op.count_include_pad else "pooling_avg_exclude_padding"


def _forward(op: OpView, numbers: Numbers, X: Descriptor, Y: Descriptor) -> PrimitiveDescriptor:
    return describe("pooling_forward", "forward_inference", _algorithm(op), X, Y, *numbers)


def pool(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y from X."""
    X, Y = specs["X"], specs["Y"]
    numbers = pool_numbers(op, X)
    order = Order.of(op, X)
    seen = order.see(X)
    found = _forward(op, numbers, seen, order.any(Y, seen.dtype))
    if found.is_slow:
        found = _forward(op, numbers, order.see(X, order.dense_channels(X.shape)), order.any(Y))
        if found.is_slow and Y.size > SLOW_ELEMENTS:  # one channel, which lies alike either way
            raise Unsupported(f"oneDNN takes an element at a time here ({found.implementation})")
    layouts = {"X": order.layout(found.argument("src"), X.dtype), "Y": order.layout(found.argument("dst"), Y.dtype)}
    return LaidOut(PrimitiveLaunch(found, {"src": "X", "dst": "Y"}), layouts)


def average_pool_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """DX from dY, in the layout that is wished for, or that of dY."""
    X, dY, dX = specs["X"], specs["dY"], specs["dX"]
    numbers = pool_numbers(op, X)
    order = Order.of(op, X)

    # The hint says nothing about layouts.
    plain = order.see(TensorSpec(X.shape, X.dtype))
    forward = describe("pooling_forward", "forward_training", _algorithm(op), plain, order.any(dY), *numbers)

    def backward(source: Descriptor, target: Descriptor) -> PrimitiveDescriptor:
        return describe("pooling_backward", _algorithm(op), source, target, *numbers, forward)

    if wished(dX):
        found = backward(order.see(dX), order.any(dY))
    else:
        found = backward(order.any(dX), order.see(dY))
    if found.is_slow:
        found = backward(order.see(X, order.dense_channels(X.shape)), order.any(dY))
        if found.is_slow and X.size > SLOW_ELEMENTS:
            raise Unsupported(f"oneDNN takes an element at a time here ({found.implementation})")
    layouts: dict[str, Layout] = {
        "dY": order.layout(found.argument("diff_dst")),
        "dX": order.layout(found.argument("diff_src")),
    }
    return LaidOut(PrimitiveLaunch(found, {"diff_dst": "dY", "diff_src": "dX"}), layouts)


def _accepts_gradient(letter: str, spec: Spec) -> bool:
    """X and Y are not read, so it does not matter how they lie."""
    return letter in ("X", "Y") or accepts_dense(letter, spec)


def pool_ns(op: OpView, specs: dict[str, TensorSpec]) -> float | None:
    """Passes over the image, where the window is all of it and lies row-major: others compute that too."""
    X = specs["X"]
    return passes_ns(WHOLE_PASSES, X) if op.global_pooling and X.layout == ROW_MAJOR else None


def _register(forward: OpSchema, backward: OpSchema) -> None:
    onednn(forward, empty="zero", accepts=accepts_narrow, batch_invariant=True, estimate_ns=pool_ns)(pool)
    if forward.type.startswith("Average"):
        onednn(backward, empty="zero", accepts=_accepts_gradient)(average_pool_gradient)


for _pair in zip(pools.schemas, pool_gradients.schemas, strict=True):
    _register(*_pair)
