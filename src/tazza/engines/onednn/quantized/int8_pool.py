"""Pooling of bytes: Int8MaxPool, Int8AveragePool, and those with a rectifier.

Another scale, and the rectifier, are post-ops. Padding counts as the byte 0 here, so a mean over padding is taken only
where 0 is the zero point.
"""

from __future__ import annotations

from tazza.engines.onednn.descriptor import accepts_dense
from tazza.engines.onednn.estimate import passes
from tazza.engines.onednn.image import Order
from tazza.engines.onednn.launch import PrimitiveLaunch
from tazza.engines.onednn.nn.pool import pool_numbers
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import Attributes, Eltwise, PostOp, describe
from tazza.engines.onednn.quantized.scaled import meaning_of, requantizing
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.ops.nn.pool import clipped_pool_window, pool_window
from tazza.ops.quantized.int8_pool import averages, int8_pool_relus, int8_pools, rectifies
from tazza.tensor import ROW_MAJOR, TensorSpec

PASSES = passes(3.0)
"""What a pooling takes as long as, where its blobs lie in the caches."""


@onednn(*int8_pools.schemas, *int8_pool_relus.schemas, accepts=accepts_dense, estimate_ns=PASSES)
def int8_pool(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y from X, channels last."""
    X, Y = (TensorSpec(specs[letter].shape, specs[letter].dtype) for letter in "XY")
    numbers = pool_numbers(op, X)
    _check_padding(op, specs["X"])
    algorithm = "pooling_avg_include_padding" if averages(op) else "pooling_max"
    attributes = Attributes(_post_ops(op, specs))
    given = "forward_inference", algorithm, *(Order.of(op, X).see(one) for one in (X, Y)), *numbers
    found = describe("pooling_forward", *given, attributes=attributes).unless_slow
    return LaidOut(PrimitiveLaunch(found, {"src": "X", "dst": "Y"}), {"X": ROW_MAJOR, "Y": ROW_MAJOR})


def _check_padding(op: OpView, X: TensorSpec) -> None:
    if not averages(op):
        return
    window, _ = pool_window(op, X.shape)
    seen = clipped_pool_window(op, X.shape).kernel
    if seen != window.kernel:
        raise Unsupported(f"kernels {window.kernel} of which {seen} may lie in the image count whole")
    padded = any((*window.head, *window.tail))
    point = meaning_of(X).zero_point
    if padded and point:
        raise Unsupported(f"padding stands for the byte 0, not for the zero point {point}")


def _post_ops(op: OpView, specs: dict[str, TensorSpec]) -> tuple[PostOp, ...]:
    before, after = meaning_of(specs["X"]), meaning_of(specs["Y"])
    made = list(requantizing(before, after))
    if rectifies(op) and after.zero_point > 0:  # else every byte stands for 0 or more
        made.append(Eltwise("eltwise_clip", max(after.zero_point, 0), 255))
    return tuple(made)
