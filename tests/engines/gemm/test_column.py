"""Columns of images against windows taken one by one, both ways, for images and filters of one to three dimensions."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.engines.gemm.column import Columns, Step
from tazza.ops.nn.window import Window

Array = NDArray[Any]
N, GROUPS, CHANNELS = 2, 2, 3

AXIS = st.tuples(
    st.integers(1, 4),  # kernel
    st.integers(1, 3),  # stride
    st.integers(1, 2),  # dilation
    st.integers(-1, 2),  # head
    st.integers(-1, 2),  # tail
    st.integers(9, 10),  # image
)


@st.composite
def problems(draw: st.DrawFn) -> Columns:
    """Draw a window over one to three dimensions, and an image that has room for it."""
    axes = draw(st.lists(AXIS, min_size=1, max_size=3))
    kernel, stride, dilation, head, tail, image = (tuple(part) for part in zip(*axes, strict=True))
    window = Window(kernel, stride, dilation, head, tail)
    out = tuple((h + n + t - d * (k - 1) - 1) // s + 1 for k, s, d, h, t, n in axes)
    return Columns(window, image, out, GROUPS, CHANNELS, draw(st.sampled_from(["NCHW", "NHWC"])))


def images(columns: Columns) -> Array:
    """Return N images of whole numbers, whose sums are exact."""
    C = columns.groups * columns.channels
    shape = (N, *columns.image, C) if columns.last else (N, C, *columns.image)
    return np.random.default_rng(5).integers(-9, 9, shape).astype(np.float32)


def first(columns: Columns, x: Array) -> Array:
    """Return a view of images (N, C, in...)."""
    return np.moveaxis(x, -1, 1) if columns.last else x


def expected_columns(columns: Columns, image: Array) -> Array:
    """Return the matrix (G, R, P) of one image (C, in...), a kernel element after the other; 0 outside of the image."""
    w, rows = columns.window, list[Array]()
    for tap in itertools.product(*map(range, w.kernel)):
        sides = zip(columns.out, w.stride, tap, w.dilation, w.head, strict=True)
        places = [np.arange(o) * s + t * d - h for o, s, t, d, h in sides]
        inside = [(place >= 0) & (place < n) for place, n in zip(places, columns.image, strict=True)]
        at = np.ix_(*(np.where(there, place, 0) for place, there in zip(places, inside, strict=True)))
        rows.append(np.where(functools.reduce(np.logical_and.outer, inside), image[(slice(None), *at)], 0))
    # (K, G, C/G, P) -> (G, C/G, K, P)
    found = np.stack(rows).reshape(len(rows), columns.groups, columns.channels, -1)
    return found.transpose(1, 2, 0, 3).reshape(columns.groups, columns.channels * len(rows), -1)


def ordered(columns: Columns, buffer: Array) -> Array:
    """Return the matrix with channels outermost in its rows: where they lie last they are innermost."""
    matrix = columns.matrix(buffer)
    if not columns.last:
        return matrix
    G, R, P = matrix.shape
    return matrix.reshape(G, R // columns.channels, columns.channels, P).swapaxes(1, 2).reshape(G, R, P)


def run(steps: list[Step]) -> None:
    for step in steps:
        step()


@given(problems())
def test_columns_are_what_windows_see(columns: Columns) -> None:
    x, buffer = images(columns), np.full(columns.shape, np.nan, np.float32)
    stage = None if columns.stage_shape is None else np.full(columns.stage_shape, np.nan, np.float32)
    for image, steps in zip(first(columns, x), columns.im2col(x, buffer, stage), strict=True):
        run(steps)
        np.testing.assert_array_equal(ordered(columns, buffer), expected_columns(columns, image))


@given(problems())
def test_summing_back_is_the_transposed_map(columns: Columns) -> None:
    """<im2col(x), y> = <x, col2im(y)> for all whole numbers x and y, exactly."""
    x = images(columns)
    y = np.random.default_rng(6).integers(-9, 9, columns.shape).astype(np.float32)
    buffer, dX = np.full(columns.shape, np.nan, np.float32), np.full(x.shape, np.nan, np.float32)
    stage = None if columns.stage_shape is None else np.full(columns.stage_shape, np.nan, np.float32)
    stages = [np.full(shape, np.nan, np.float32) for shape in columns.fold_shapes]
    there, back = columns.im2col(x, buffer, stage), columns.col2im(y, dX, stages)
    for n in range(N):
        run(there[n])
        run(back[n])
        assert float((buffer * y).sum(dtype=np.float64)) == float((x[n] * dX[n]).sum(dtype=np.float64))


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_shapes(order: str) -> None:
    """As Caffe2 shows its buffer; without pads an image is read as it lies."""
    ones = (1, 1)
    columns = Columns(Window((3, 2), ones, ones, (0, 0), (0, 0)), (7, 5), (5, 4), GROUPS, CHANNELS, order)
    K = 3 * 2 * GROUPS * CHANNELS
    assert columns.shape == ((5, 4, K) if order == "NHWC" else (K, 5, 4))
    assert columns.padded is None
    assert columns.stage_shape is None
    assert len(columns.fold_shapes) == 1, "the last sums are those of the image"
    padded = Columns(Window((3, 2), ones, ones, (1, 0), (0, 2)), (6, 3), (5, 4), GROUPS, CHANNELS, order)
    assert padded.padded == (7, 5)
    assert padded.stage_shape == ((1, 7, 5, 6) if order == "NHWC" else (1, 6, 7, 5))
    assert len(padded.fold_shapes) == 2


def test_the_border_is_zeroed_once() -> None:
    ones = (1, 1)
    columns = Columns(Window((3, 2), ones, ones, (1, 0), (0, 2)), (6, 3), (5, 4), GROUPS, CHANNELS, "NCHW")
    x, buffer = images(columns), np.zeros(columns.shape, np.float32)
    assert columns.stage_shape is not None
    steps = columns.im2col(x, buffer, np.zeros(columns.stage_shape, np.float32))
    assert [len(one) for one in steps] == [3, 2]
