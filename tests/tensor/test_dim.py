"""Laws of shapes, held against NumPy."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import ShapeError
from tazza.tensor.dim import Dim

extents = st.lists(st.integers(0, 5), max_size=5).map(tuple)


@given(extents)
def test_numel_and_strides_are_those_of_numpy(shape: tuple[int, ...]) -> None:
    dim = Dim(shape)
    assert dim == shape
    assert hash(dim) == hash(shape)
    assert dim.numel == np.empty(shape).size
    if dim.numel:
        assert dim.strides() == tuple(step // 8 for step in np.empty(shape, np.float64).strides)
    assert Dim(dim) is dim
    assert pickle.loads(pickle.dumps(dim)) == dim


@given(extents, extents)
def test_broadcast_is_numpys(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    try:
        expected = np.broadcast_shapes(left, right)
    except ValueError:
        with pytest.raises(ShapeError, match="does not broadcast"):
            Dim(left).broadcast(right)
    else:
        assert Dim(left).broadcast(right) == expected == Dim(right).broadcast(left)
        assert Dim(left).broadcast(left) == left


@given(extents, st.data())
def test_ravel_and_unravel_are_inverse(shape: tuple[int, ...], data: st.DataObject) -> None:
    dim = Dim(shape)
    if dim.numel == 0:
        with pytest.raises(ShapeError, match="has 0 elements"):
            dim.unravel(0)
        return
    i = data.draw(st.integers(0, dim.numel - 1))
    assert dim.ravel(dim.unravel(i)) == i
    assert dim.unravel(i) == tuple(map(int, np.unravel_index(i, shape)))


@given(extents.filter(bool), st.data())
def test_slice_is_pythons_where_it_fits(shape: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    start, stop = data.draw(st.integers(-6, 6)), data.draw(st.integers(-6, 6))
    extent = shape[axis]
    first, last = (bound + extent if bound < 0 else bound for bound in (start, stop))
    if not 0 <= first <= last <= extent:
        with pytest.raises(ShapeError, match=f"does not fit extent {extent}"):
            Dim(shape).slice(axis, start, stop)
        return
    index = [slice(None)] * len(shape)
    index[axis] = slice(first, last)
    assert Dim(shape).slice(axis, start, stop) == np.empty(shape)[tuple(index)].shape


@pytest.mark.parametrize(
    ("extents", "text"), [((2, -3), "-3 < 0"), ((2.5,), "not all integers"), (("a",), "not all integers")]
)
def test_refused_extents(extents: tuple[int, ...], text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        Dim(extents)


@pytest.mark.parametrize(("axis", "expected"), [(0, 0), (2, 2), (-1, 2), (-3, 0)])
def test_canonical_axis(axis: int, expected: int) -> None:
    assert Dim((2, 3, 5)).canonical_axis(axis) == expected


@pytest.mark.parametrize("axis", [3, -4])
def test_axis_outside(axis: int) -> None:
    with pytest.raises(ShapeError, match=f"axis {axis} is outside of Dim\\(2, 3, 5\\)"):
        Dim((2, 3, 5)).canonical_axis(axis)


@pytest.mark.parametrize("index", [(0,), (2, 0), (0, 3), (-1, 0), (0, 0, 0)])
def test_index_outside(index: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="is outside of"):
        Dim((2, 3)).ravel(index)


def test_numpy_integers_become_ints() -> None:
    dim = Dim(np.array([2, 3]))
    assert [type(extent) for extent in dim] == [int, int]
    assert repr(dim) == "Dim(2, 3)"
