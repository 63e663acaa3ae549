"""Layouts: spans, normal form, channels last."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import ShapeError
from tazza.tensor.dim import Dim
from tazza.tensor.layout import ROW_MAJOR, Opaque, Strided, channels_last


@given(st.permutations(range(4)), st.lists(st.integers(0, 4), min_size=4, max_size=4))
def test_strides_of_a_permuted_array(order: list[int], extents: list[int]) -> None:
    array = np.empty(extents, np.int16).transpose(order)
    dims = Dim(array.shape)
    layout = Strided.of(dims, tuple(step // 2 for step in array.strides))
    assert layout.span_bytes(dims, 2) == array.nbytes
    assert (layout is ROW_MAJOR) == bool(array.flags.c_contiguous)


def test_span_of_a_gap() -> None:
    assert Strided.of((2, 3), (10, 2)).span_bytes(Dim((2, 3)), 4) == (10 + 4 + 1) * 4


def test_channels_last() -> None:
    dims = Dim((2, 3, 5, 7))
    array = np.empty((2, 5, 7, 3), np.uint8).transpose(0, 3, 1, 2)
    assert channels_last(dims).steps(dims) == array.strides
    assert channels_last((2, 1, 5, 7)) is ROW_MAJOR
    assert str(channels_last(dims)) == "strides (105, 1, 21, 3)"


def test_opaque_spans_what_it_says() -> None:
    layout = Opaque("engine", ("blocked", 16), 4096)
    assert layout.span_bytes(Dim((2, 3)), 4) == 4096
    assert layout == Opaque("engine", ("blocked", 16), 4096)
    assert str(layout) == "engine layout"


@pytest.mark.parametrize(("strides", "text"), [((1,), "1 strides"), ((-3, 1), "value < 0")])
def test_refused_strides(strides: tuple[int, ...], text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        Strided.of((2, 3), strides)


def test_channels_need_two_axes() -> None:
    with pytest.raises(ShapeError, match="no channels"):
        channels_last((3,))
