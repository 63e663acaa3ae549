"""Channels: where they stand, how many there are, and vectors with one element a channel.

Letters: N images, C channels, `S...` spatial sizes. With order NCHW a blob is (N, C, S...), with NHWC (N, S..., C);
lower case is taken too. What one vector of C elements does to a blob is done to its form `channels_first`, which is
(N, C, S...) in both orders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from tazza.operator import (
    Array,
    Cut,
    OpView,
    Spec,
    arg,
    show_dims,
)
from tazza.ops.shape.axis import agree, product
from tazza.tensor import TensorSpec

ORDER = arg("order", str, "NCHW", choices=("NCHW", "NHWC", "nchw", "nhwc"), doc="where the channels stand")
CHANNELS_FIRST = arg("order", str, "NCHW", choices=("NCHW", "nchw"), doc="the channels stand before the places")
"""The order of operators that take no other."""


def channels_last(op: OpView) -> bool:
    """Whether the argument `order` puts the channels last."""
    return op.order.upper() == "NHWC"


def channel_count(op: OpView, letter: str, dims: Sequence[int | None] | None) -> int | None:
    """Return C of blob `letter`, None where it is unknown.

    Raises:
        ShapeError: the blob has less than two dimensions.
    """
    if dims is None:
        return None
    op.require(len(dims) >= 2, f"{letter} has {len(dims)} dimensions {show_dims(dims)}, it needs at least 2: (N, C)")
    return dims[-1 if channels_last(op) else 1]


def require_channels(op: OpView, C: int | None, **vectors: TensorSpec | None) -> None:
    """Check that each vector has C elements, as far as both are known; its shape does not matter."""
    for letter, spec in vectors.items():
        if spec is not None and spec.dims is not None:
            relation = f"{letter} has the shape {show_dims(spec.dims)}, X has {C} channels"
            op.require(agree(product(spec.dims), C), relation, f"{letter} must have one element a channel: (C)")


def along(vector: Array, x: Array) -> Array:
    """Return a vector of C elements in a form that broadcasts over x (N, C, S...)."""
    return vector.reshape(-1, *[1] * (x.ndim - 2))


def align_vectors(op: OpView, specs: Mapping[str, Spec]) -> dict[str, tuple[int, ...]]:
    """Return the dims with which vectors of one or C elements broadcast over X, for formulas in X and vectors."""
    X = cast("TensorSpec", specs["X"])
    tail = () if channels_last(op) else (1,) * (len(X.shape) - 2)
    vectors = {letter: cast("TensorSpec", spec) for letter, spec in specs.items() if letter != "X"}
    return {letter: (spec.size, *tail) for letter, spec in vectors.items()}


def channel_cut(X: TensorSpec, *, last: bool) -> Cut | str:
    """Return the cut whose rows are the channels of X, which stand in axis 1, or in the last one."""
    channels = len(X.shape) - 1 if last else 1
    return Cut.of(X.shape, [axis for axis in range(len(X.shape)) if axis != channels])


def beside_channels(x: Array) -> tuple[int, ...]:
    """Return the axes of x (N, C, S...) that are not that of the channels."""
    return (0, *range(2, x.ndim))
