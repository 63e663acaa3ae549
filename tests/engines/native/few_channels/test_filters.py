"""Packed filters U[panel][ky][kx][c][2 L] against NumPy, of either order and of strides of any kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.codegen.kernel import lane_count
from tazza.device import current_context
from tazza.engines.native.few_channels.filters import ENGINE, Filters, prepare_filters
from tazza.operator import Unsupported, find_schema, operator_def
from tazza.operator.engine import why_unavailable
from tazza.operator.reorder import relayout
from tazza.tensor import CPUPlace, DataType, Opaque, Tensor, TensorSpec
from tests.launching import copied_into

pytestmark = pytest.mark.skipif(
    why_unavailable("Conv", "cpu", ENGINE) is not None, reason="nothing can be compiled here"
)

Array = NDArray[Any]
PANEL = 2 * lane_count()


def packed(W: Array) -> Array:
    """Return U of W (K, C, kH, kW), K filled up with 0."""
    filled = np.pad(W, ((0, -len(W) % PANEL), (0, 0), (0, 0), (0, 0)))
    return filled.reshape(-1, PANEL, *W.shape[1:]).transpose(0, 3, 4, 2, 1).ravel()


def numbers(*dims: int) -> Array:
    return np.random.default_rng(sum(dims)).standard_normal(dims).astype(np.float32)


@given(st.integers(1, 2 * PANEL + 1), st.integers(1, 8), st.integers(1, 4), st.integers(1, 5), st.booleans())
def test_panels(K: int, C: int, kH: int, kW: int, last: bool) -> None:
    W = numbers(K, C, kH, kW)
    form = Filters(C, K, kH, kW, last)
    blob = np.ascontiguousarray(W.transpose(0, 2, 3, 1)) if last else W
    found = copied_into(Tensor.from_numpy(blob), form.layout())
    np.testing.assert_array_equal(found, packed(W))
    moved = Tensor.from_numpy(blob.copy())
    relayout(moved, form.layout(), current_context(CPUPlace()))
    np.testing.assert_array_equal(moved.plain(), blob)


def test_filters_that_lie_anyhow() -> None:
    """As every second number of something, with other axes innermost."""
    W = numbers(7, 3, 2, 5)
    memory = np.full((2, 7, 5, 6), np.nan, np.float32)
    lying = memory[..., ::2].transpose(1, 3, 0, 2)
    lying[...] = W
    np.testing.assert_array_equal(
        copied_into(Tensor.from_numpy(lying), Filters(3, 7, 2, 5, last=False).layout()), packed(W)
    )


def test_the_layout_is_of_this_form_alone() -> None:
    layout = Filters(3, PANEL + 1, 2, 5, last=False).layout()
    assert not layout.derived
    assert layout.nbytes == 4 * 2 * PANEL * 3 * 2 * 5
    assert layout != Filters(3, PANEL + 1, 2, 5, last=True).layout()


def test_other_copies_are_left_to_others() -> None:
    op = find_schema("Copy").view(operator_def("Copy", ["X"], ["Y"]))
    plain, double = (TensorSpec((7, 3, 2, 5), dtype) for dtype in (DataType.FLOAT, DataType.DOUBLE))
    own = TensorSpec(plain.dims, DataType.FLOAT, layout=Filters(3, 7, 2, 5, last=False).layout())
    other = TensorSpec(plain.dims, DataType.FLOAT, layout=Opaque("onednn", "a form", 64))
    for source, target in ((plain, plain), (plain, other), (double, own)):
        with pytest.raises(Unsupported):
            prepare_filters(op, current_context(CPUPlace()), [source], [target])
