"""Images as (N, C, S...): what is seen of a blob of either order, and the way back to it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.image import Order
from tazza.engines.onednn.library import unavailable
from tazza.operator import find_schema, operator_def
from tazza.tensor import ROW_MAJOR, DataType, Dim, Layout, Strided, TensorSpec, channels_last

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

SIZES = (2, 3, 5, 7, 4)
LENGTHS = st.integers(2, 9)


def blob(rank: int, last: bool, layout: Layout = ROW_MAJOR) -> TensorSpec:
    """Return N = 2 images of 3 channels."""
    N, C, *spatial = SIZES[:rank]
    return TensorSpec((N, *spatial, C) if last else (N, C, *spatial), DataType.FLOAT, layout=layout)


def test_the_order_is_the_operators() -> None:
    for order, last in (("NCHW", False), ("NHWC", True), ("nhwc", True)):
        definition = operator_def("Conv", ["X", "W"], ["Y"], kernel=3, order=order)
        assert Order.of(find_schema("Conv").view(definition), blob(4, last)) == Order(4, last)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_extents_begin_with_images_and_channels(rank: int, last: bool) -> None:
    order, spec = Order(rank, last), blob(rank, last)
    assert order.see(spec).dims == SIZES[:rank]
    assert order.any(spec).dims == SIZES[:rank]
    assert order.any(spec, DataType.BFLOAT16).dtype is DataType.BFLOAT16
    assert order.layout(order.see(spec)) == ROW_MAJOR, "seen and back"


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_the_same_memory_by_both_orders(rank: int) -> None:
    """Channels that lie last are the same to oneDNN, whatever the operator calls them."""
    first, last = blob(rank, False), blob(rank, True)
    seen = Order(rank, True).see(last)
    assert seen == Order(rank, False).see(first, channels_last(first.shape))
    assert Order(rank, False).layout(seen) == channels_last(first.shape)
    assert Order(rank, True).layout(Order(rank, False).see(first)) != ROW_MAJOR


@given(st.lists(LENGTHS, min_size=4, max_size=4, unique=True), st.permutations(range(4)), st.booleans())
def test_any_order_of_axes_comes_back(dims: list[int], axes: list[int], last: bool) -> None:
    """Of a blob that lies with its axes in any order: what is seen leads back to how it lies."""
    image = np.zeros([dims[axis] for axis in axes], np.float32).transpose(np.argsort(axes))
    steps = tuple(step // 4 for step in image.strides)
    spec = TensorSpec(tuple(dims), DataType.FLOAT, layout=Strided(steps))
    order = Order(4, last)
    wanted = (0, 3, 1, 2) if last else (0, 1, 2, 3)
    assert order.see(spec).dims == tuple(dims[axis] for axis in wanted)
    back = TensorSpec(tuple(dims), DataType.FLOAT, layout=order.layout(order.see(spec)))
    assert Descriptor.of(back) == Descriptor.of(spec)


def test_dense_channels() -> None:
    dims = Dim((2, 3, 5, 7))
    assert Order(4, False).dense_channels(dims) == channels_last(dims)
    assert Order(4, True).dense_channels(dims) == ROW_MAJOR
    assert Order(2, False).dense_channels(Dim((2, 3))) == ROW_MAJOR
