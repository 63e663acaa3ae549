"""Laws of shapes, held against NumPy."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import ShapeError
from tazza.tensor.dim import Dim, broadcast_shapes

extents = st.lists(st.integers(0, 5), max_size=5).map(tuple)
ranks = st.lists(st.integers(1, 3), max_size=9).map(tuple)
slices = st.lists(
    st.builds(
        slice,
        st.none() | st.integers(-7, 7),
        st.none() | st.integers(-7, 7),
        st.none() | st.integers(-3, 3).filter(bool),
    ),
    max_size=5,
)


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


@given(extents, slices)
def test_sliced_is_numpys(shape: tuple[int, ...], parts: list[slice]) -> None:
    parts = parts[: len(shape)]
    assert Dim(shape).sliced(*parts) == np.empty(shape)[tuple(parts)].shape


@given(ranks, st.randoms(use_true_random=False))
def test_the_algebra_of_axes_is_numpys(shape: tuple[int, ...], draw: random.Random) -> None:
    dim, array = Dim(shape), np.empty(shape, np.uint8)
    axes = draw.sample(range(dim.rank), dim.rank)
    some = [axis - dim.rank * draw.randrange(2) for axis in axes[: draw.randrange(dim.rank + 1)]]
    new = draw.randrange(-dim.rank - 1, dim.rank + 1)
    assert dim.transposed(axes) == array.transpose(axes).shape
    assert dim.transposed() == array.T.shape
    assert dim.expanded(new) == np.expand_dims(array, new).shape
    assert dim.expanded(new).squeezed(new) == dim
    assert dim.squeezed() == array.squeeze().shape
    assert dim.without(some) == array.any(tuple(some)).shape
    assert dim.canonical_axes(some) == tuple(sorted(axis % dim.rank for axis in some))
    assert dim.reshaped((-1, *dim[:2])) == array.reshape(-1, *dim[:2]).shape
    assert dim.of_rank(dim.rank) is dim


@given(ranks, st.data())
def test_broadcast_strides_are_numpys(shape: tuple[int, ...], data: st.DataObject) -> None:
    wide = (*data.draw(st.lists(st.integers(0, 3), max_size=9 - len(shape))), *shape)
    wide = tuple(data.draw(st.integers(0, 3)) if extent == 1 else extent for extent in wide)
    narrow = np.empty(shape, np.uint8)
    expected = np.broadcast_to(narrow, wide).strides
    moved = [step if extent > 1 else 0 for step, extent in zip(expected, wide, strict=True)]
    found = Dim(shape).broadcast_strides(wide)
    assert [step if extent > 1 else 0 for step, extent in zip(found, wide, strict=True)] == moved
    assert Dim(shape).broadcast_strides(wide, narrow.strides) == found
    assert broadcast_shapes(shape, wide, ()) == wide


@given(extents)
def test_indices_are_what_it_contains_in_row_major_order(shape: tuple[int, ...]) -> None:
    dim = Dim(shape)
    found = list(dim.indices())
    assert found == list(np.ndindex(*shape))
    assert [dim.ravel(index) for index in found] == list(range(dim.numel))
    assert all(map(dim.contains, found))
    assert dim.contains(shape) is (shape == ())
    assert not dim.contains((*shape, 0))
    assert not dim.rank or not dim.contains((-1, *shape[1:]))


REFUSED: list[tuple[Callable[[Dim], object], str]] = [
    (lambda dim: dim.of_rank(2), "Dim\\(2, 3, 5\\) of rank 3 was expected to have rank 2"),
    (lambda dim: dim.canonical_axes((1, -2)), "axes \\(1, -2\\) name axis 1 of Dim\\(2, 3, 5\\) twice"),
    (lambda dim: dim.transposed((0, 1)), "2 axes \\(0, 1\\) do not order the 3 axes"),
    (lambda dim: dim.expanded(4), "new axis 4 is outside"),
    (lambda dim: dim.squeezed(1), "cannot take axis 1 out of Dim\\(2, 3, 5\\): its extent is 3 != 1"),
    (lambda dim: dim.reshaped((-1, 7)), "has no extent for -1"),
    (lambda dim: dim.reshaped((0, -1)), "has no extent for -1"),
    (lambda dim: dim.reshaped((2, 7)), "30 elements does not reshape to Dim\\(2, 7\\) of 14"),
    (lambda dim: dim.reshaped((-1, -1)), "-1 < 0"),
    (lambda dim: dim.broadcast_strides((3, 5)), "does not stretch to Dim\\(3, 5\\)"),
    (lambda dim: dim.broadcast_strides((2, 7, 5)), "does not stretch"),
    (lambda dim: dim.sliced(*[slice(None)] * 4), "4 slices for Dim\\(2, 3, 5\\) of rank 3"),
    (lambda dim: dim.sliced(slice(None, None, 0)), "has the step 0"),
]


@pytest.mark.parametrize(("refused", "text"), REFUSED)
def test_refusals_name_the_shape(refused: Callable[[Dim], object], text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        refused(Dim((2, 3, 5)))
