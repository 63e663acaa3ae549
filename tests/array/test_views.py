"""Views: against NumPy over every element type, rank 0-9 and layout; shared memory, and writes through it."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tazza.array as ta
from tazza.array.views import Window
from tazza.errors import ArgumentError, BoundsError, DTypeError, ShapeError, UnsupportedError
from tests.arrays import RANK_MAX, Array, Pair, assert_same, make_pair, pairs, shapes, simple_indices, values_of


@given(st.data(), pairs())
@settings(max_examples=150)
def test_every_index(data: st.DataObject, pair: Pair) -> None:
    index = data.draw(simple_indices(tuple(pair.array.shape)))
    found, expected = pair.tensor[index], pair.array[index]
    assert_same(found, expected)
    backwards = any(step < 0 and n > 1 for step, n in zip(expected.strides, expected.shape, strict=True))
    shared = not backwards and expected.size > 0 and pair.layout != "opaque"
    assert ta.shares_memory(found, pair.tensor) == shared


def test_masks_lists_and_tensors_as_indices() -> None:
    array = np.arange(30).reshape(2, 3, 5)
    x = ta.asarray(array)
    assert_same(x[x > 7], array[array > 7])
    assert_same(x[:, [2, 0]], array[:, [2, 0]])
    assert_same(x[ta.asarray(1), ta.asarray([0, 2])], array[1, [0, 2]])
    assert_same(x[..., np.arange(3), None], array[..., np.arange(3), None])
    assert not ta.shares_memory(x, x[[0, 1]])


@pytest.mark.parametrize("index", [2, (0, -4), (0, 0, 0), (..., ...), np.array([7]), (slice(None), 3)])
def test_indices_outside(index: Any) -> None:
    with pytest.raises(BoundsError):
        ta.zeros((2, 3))[index]
    with pytest.raises(BoundsError):
        ta.zeros((2, 3))[index] = 1


# -- chains of views, and what is seen through them --------------------------------------------------------------------


def _step(draw: Any, x: ta.Tensor, a: Array) -> tuple[ta.Tensor, Array]:
    """Do one thing that is a view in NumPy and in ours."""
    rank = a.ndim
    axis = draw(st.integers(-rank, rank - 1)) if rank else 0
    other = draw(st.integers(-rank, rank - 1)) if rank else 0
    kind = draw(st.sampled_from(["index", "permute", "new axis", "flatten", "diagonal", "move", "squeeze"]))
    if kind == "index":
        index = draw(simple_indices(a.shape).filter(lambda index: all(_forward(item) for item in index)))
        return x[index], a[index if ... in index else (*index, ...)]
    if kind == "permute":
        axes = draw(st.permutations(range(rank)))
        return ta.permute_dims(x, axes), a.transpose(axes)
    if kind == "new axis" and rank < RANK_MAX:
        return ta.expand_dims(x, axis=axis), np.expand_dims(a, axis)
    if kind == "flatten" and a.size and np.shares_memory(a.reshape(-1), a):
        return ta.reshape(x, (-1,), copy=False), a.reshape(-1)
    if kind == "diagonal" and axis % max(rank, 1) != other % max(rank, 1):
        k = draw(st.integers(-2, 2))
        return ta.diagonal(x, offset=k, axis1=axis, axis2=other), a.diagonal(k, axis, other)
    if kind == "move" and rank:
        return ta.moveaxis(x, axis, other), np.moveaxis(a, axis, other)
    if kind == "squeeze" and rank and a.shape[axis] == 1:
        return ta.squeeze(x, axis), a.squeeze(axis)
    return x, a


def _forward(item: Any) -> bool:
    return not isinstance(item, slice) or cast("Any", item).step in (None, 1, 2, 3)


@given(st.data(), pairs(layouts=("row-major", "permuted", "gaps", "adopted")))
@settings(max_examples=120)
def test_writes_through_views_are_seen_by_all(data: st.DataObject, pair: Pair) -> None:
    x, a = pair.tensor, pair.array.copy(order="K") if pair.layout == "adopted" else pair.array
    pair = Pair(x, a, pair.layout)
    for _ in range(data.draw(st.integers(1, 4))):
        x, a = _step(data.draw, x, a)
        assert_same(x, a)
    version = x.storage.version
    written = values_of(x.dtype, a.shape, 3)
    a.flags.writeable = True  # NumPy's diagonal is only marked as read-only
    if data.draw(st.booleans()):
        x[...] = ta.asarray(written)
        a[...] = written
    else:
        x.fill(True)
        a.fill(1)
    assert x.storage.version > version
    assert_same(x, a)
    pair.check()


@given(st.data(), pairs(layouts=("row-major", "permuted", "gaps", "adopted")), st.booleans())
@settings(max_examples=80)
def test_views_write_nothing_but_their_elements(data: st.DataObject, pair: Pair, fits: bool) -> None:
    """`assign` of another shape, and `resize`, never touch what lies beyond a view or in its gaps."""
    x, a = pair.tensor, pair.array.copy(order="K") if pair.layout == "adopted" else pair.array
    pair = Pair(x, a, pair.layout)
    for _ in range(data.draw(st.integers(1, 3))):
        x, a = _step(data.draw, x, a)
    a.flags.writeable = True
    if fits:
        written = values_of(x.dtype, a.shape, 3)
        x.assign(written)
        a[...] = written
        assert_same(x, a)
    elif x is not pair.tensor:
        x.resize((a.size + 1,))
        x.fill(True)
    pair.check()


def test_a_view_moves_before_it_writes_to_others() -> None:
    w = ta.zeros((2, 3))
    w[:, 0].assign(np.array([7, 8], np.float32))
    assert w.array.tolist() == [[7, 0, 0], [8, 0, 0]]
    w[:, 0].assign(np.array([9, 9, 9], np.float32))
    ta.broadcast_to(w[0, 1:], (4, 2)).assign(np.ones((4, 2), np.float32))
    assert w.array.tolist() == [[7, 0, 0], [8, 0, 0]]
    b = ta.arange(6.0)
    v = b[2:4]
    v.resize((4,))
    v[...] = -1
    assert b.array.tolist() == [0, 1, 2, 3, 4, 5]
    inner = b[2:4]
    inner.resize((1,))
    inner[...] = -1
    inner.resize((2,))
    assert (inner.array.tolist(), b.array.tolist()) == ([-1, 3], [0, 1, -1, 3, 4, 5])
    rows = np.arange(6).reshape(2, 3)
    ta.Tensor.from_numpy(rows.T, copy=False).assign(rows.T * 2)
    ta.Tensor.from_numpy(rows[:, 1], copy=False).assign(np.array([5, 5, 5]))
    assert rows.tolist() == [[0, 2, 4], [6, 8, 10]]


@given(st.data(), pairs(max_rank=4, layouts=("row-major", "permuted", "adopted")))
@settings(max_examples=80)
def test_parts_of_one_tensor_that_overlap(data: st.DataObject, pair: Pair) -> None:
    """Assignment reads all of its source first, however source and target lie."""
    x, a = pair.tensor, pair.array.copy()
    pair = Pair(x, a, pair.layout)
    cut = tuple(data.draw(st.integers(0, extent)) for extent in a.shape)
    front = tuple(slice(0, extent - k) for k, extent in zip(cut, a.shape, strict=True))
    back = tuple(slice(k, None) for k in cut)
    turned = tuple(slice(None, None, data.draw(st.sampled_from([1, -1]))) for _ in cut)
    if data.draw(st.booleans()):
        front, back = back, front
    x[front] = x[back][turned]
    a[front] = a[back][turned].copy()
    pair.check()


@given(st.data(), pairs(min_extent=1, max_rank=5, layouts=("row-major", "permuted", "gaps", "stretched", "opaque")))
@settings(max_examples=100)
def test_reshape_is_a_view_where_numpys_is(data: st.DataObject, pair: Pair) -> None:
    extents = [n for extent in pair.array.shape for n in ((2, extent // 2) if extent % 2 == 0 else (extent, 1))]
    wanted = data.draw(st.permutations(extents)) if data.draw(st.booleans()) else [-1, *extents[::2]][:1]
    expected = pair.array.reshape(wanted)
    assert_same(ta.reshape(pair.tensor, wanted), expected)
    if pair.layout == "opaque":
        return
    shares = np.shares_memory(expected, pair.array)
    assert ta.shares_memory(ta.reshape(pair.tensor, wanted), pair.tensor) == shares
    assert not ta.shares_memory(ta.reshape(pair.tensor, wanted, copy=True), pair.tensor)
    if not shares:
        with pytest.raises(ArgumentError, match="only as a copy"):
            ta.reshape(pair.tensor, wanted, copy=False)


def test_reshape_of_nothing_and_to_the_wrong_size() -> None:
    assert ta.zeros((0, 3)).reshape(5, 0).shape == (5, 0)
    assert ta.zeros((2, 0)).reshape(-1, 3).shape == (0, 3)
    with pytest.raises(ShapeError, match="6 elements cannot become"):
        ta.zeros((2, 3)).reshape(4, 2)
    with pytest.raises(ShapeError, match=r"2 extents .* are -1"):
        ta.zeros((2, 3)).reshape(-1, -1)


@given(st.data(), pairs(layouts=("row-major", "permuted", "stretched", "opaque"), max_rank=6))
@settings(max_examples=60)
def test_broadcasting(data: st.DataObject, pair: Pair) -> None:
    x, a = pair.tensor, pair.array
    if a.ndim and a.shape[0] > 1 and data.draw(st.booleans()):
        x, a = x[:1], a[:1]
    target = (*data.draw(shapes(max_rank=3)), *(7 if extent == 1 else extent for extent in a.shape))
    assert_same(ta.broadcast_to(x, target), np.broadcast_to(a, target))
    if len(target) > a.ndim and np.prod(target) > a.size > 0:
        with pytest.raises(UnsupportedError, match="one element in several places"):
            ta.broadcast_to(x, target)[...] = False


def test_transposes() -> None:
    x = ta.asarray(np.arange(30).reshape(2, 3, 5))
    assert_same(x.T, x.plain().T)
    assert_same(x.mT, x.plain().swapaxes(1, 2))
    assert_same(ta.moveaxis(x, (0, 1), (-1, 0)), np.moveaxis(x.plain(), (0, 1), (-1, 0)))
    assert x.T.T.layout == ta.ROW_MAJOR
    assert x.transpose(1, 0, 2).shape == (3, 2, 5)


X = ta.zeros((2, 3))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: ta.permute_dims(X, (0, 0)), ShapeError),
        (lambda: ta.squeeze(X, 0), ShapeError),
        (lambda: ta.expand_dims(X, axis=3), BoundsError),
        (lambda: ta.expand_dims(X, axis=(0, 0)), ShapeError),
        (lambda: ta.broadcast_to(X, (3, 3)), ShapeError),
        (lambda: ta.broadcast_to(X, (3,)), ShapeError),
        (lambda: ta.diagonal(X, axis1=0, axis2=-2), ShapeError),
        (lambda: ta.moveaxis(X, (0, 1), 0), ShapeError),
        (lambda: X[0].mT, ShapeError),
    ],
)
def test_what_does_not_fit(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        wrong()


class TestAssignment:
    """What may be put where."""

    def test_kinds_only_rise(self) -> None:
        x = ta.zeros((2, 3), dtype="int32")
        for value in (1.5, np.float32(1), ta.ones(3)):
            with pytest.raises(DTypeError, match=r"do not go into int32\[2, 3\]"):
                x[0] = value
        with pytest.raises(DTypeError):
            ta.zeros(2, dtype="bool")[0] = 1
        y = ta.zeros(2, dtype="bfloat16")
        y[0], y[1] = True, np.float64(0.5)
        assert y.tolist() == [1, 0.5]

    def test_shapes(self) -> None:
        with pytest.raises(ShapeError, match="broadcast"):
            ta.zeros((2, 3))[:, 1] = [1.0, 2.0, 3.0]

    def test_text(self) -> None:
        x = ta.asarray(["a", "b"])
        x[1] = "\u00e8"
        assert x.tolist() == [b"a", "\u00e8".encode()]

    def test_an_opaque_layout_becomes_plain(self) -> None:
        array: npt.NDArray[Any] = np.arange(6, dtype=np.float32).reshape(2, 3)
        pair = make_pair(ta.DataType.FLOAT, (2, 3), "opaque", 1, [0, 1])
        pair.tensor[1, :2] = array[0, :2]
        pair.array[1, :2] = array[0, :2]
        pair.check()
        assert pair.tensor.layout == ta.ROW_MAJOR


def test_views_where_the_cpu_does_not_read() -> None:
    """Only numbers are needed to say where a view lies."""
    window = Window((3, 5, 7), (35, 7, 1)).index((slice(1, None), 2)).permute((1, 0))
    assert window == Window((7, 2), (1, 35), 35 + 14)
