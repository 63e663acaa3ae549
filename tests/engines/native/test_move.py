"""Boxes of elements: any that lie at equal steps, of any size, on any number of threads, as NumPy moves them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.codegen import kernel
from tazza.codegen.kernel import unavailable
from tazza.engines.native.move import BLOCK_BYTES, Box, Lie, frame, move_launch, row_major
from tazza.operator import Unsupported
from tazza.runtime.threads import NUM_THREADS
from tazza.tensor import DataType, Tensor
from tests.launching import call_alone

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]


def moved(boxes: list[Box], x: Array, y: Array) -> Array:
    """Return y after elements of x were moved into it."""
    launch = move_launch(boxes, DataType.of(x.dtype))
    assert not isinstance(launch, Unsupported)
    Y = Tensor.from_numpy(y)
    call_alone(launch, {"X": Tensor.from_numpy(x), "Y": Y})
    return np.array(Y.array)


def view(flat: Array, extents: tuple[int, ...], lie: Lie) -> Array:
    """Return the elements of a box."""
    strides = tuple(step * flat.itemsize for step in lie.steps)
    return np.lib.stride_tricks.as_strided(flat[lie.start :], extents, strides)


@st.composite
def apart(draw: st.DrawFn, extents: tuple[int, ...], *, repeated: bool) -> Lie:
    """Draw how a box lies: axes in any order, with gaps, or on the same elements again where that is allowed."""
    steps, step = [0] * len(extents), draw(st.integers(1, 6))
    for axis in draw(st.permutations(range(len(extents)))):
        if repeated and draw(st.booleans()):
            continue
        steps[axis] = step
        step *= extents[axis] + draw(st.integers(0, 1))
    return Lie(draw(st.integers(0, 3)), tuple(steps))


def last(extents: tuple[int, ...], lie: Lie) -> int:
    return lie.start + sum((extent - 1) * step for extent, step in zip(extents, lie.steps, strict=True))


@pytest.mark.slow
@given(st.data(), st.lists(st.integers(1, 20), max_size=3), st.sampled_from(["u1", "f4"]))
@settings(max_examples=25, deadline=None)
def test_a_box_is_moved_as_it_lies(data: st.DataObject, dims: list[int], kind: str) -> None:
    extents = tuple(dims)
    target, source = (data.draw(apart(extents, repeated=one)) for one in (False, True))
    x = np.random.default_rng(3).integers(1, 100, last(extents, source) + 1).astype(kind)
    y, wanted = (np.zeros(last(extents, target) + 2, kind) for _ in range(2))
    view(wanted, extents, target)[...] = view(x, extents, source)
    np.testing.assert_array_equal(moved([Box(extents, target, source)], x, y), wanted)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("step", [0, 1, 2, 3, 4, 7])
def test_threads_share_sheets_runs_and_elements(count: int, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "THREAD_NS", 1)
    for extents in ((30, 3, 5), (2, 40, 5), (1, 1, 1000)):
        source = Lie(1, (extents[1] * extents[2] * 9, extents[2] * 9, step))
        x = np.arange(last(extents, source) + 1, dtype=np.float32)
        with NUM_THREADS.override(count):
            found = moved([Box(extents, Lie(0, row_major(extents)), source)], x, np.zeros(extents, np.float32))
        np.testing.assert_array_equal(found, view(x, extents, source))


def test_what_is_around_a_box_becomes_zeros_and_a_fill_its_number() -> None:
    y = np.full((4, 5, 6), 9, np.int16)
    whole = Lie(0, row_major(y.shape))
    fill = np.int16(-3).tobytes()
    boxes = [
        *frame(y.shape, [range(1, 3), range(2, 4), range(5)], whole),
        Box((2, 2, 5), Lie(42, whole.steps), fill=fill),
    ]
    wanted = np.zeros_like(y)
    wanted[1:3, 2:4, :5] = -3
    np.testing.assert_array_equal(moved(boxes, np.zeros(1, np.int16), y), wanted)


def test_dots_and_blocks() -> None:
    n = BLOCK_BYTES + 3
    x, y = np.arange(n, dtype=np.float32), np.zeros(2 * n, np.float32)
    dots = Box((n // 2,), Lie(n + 1, (2,)), fill=np.float32(0.5).tobytes())
    wanted = np.concatenate([x, np.zeros(n, np.float32)])
    wanted[n + 1 : n + 1 + 2 * (n // 2) : 2] = 0.5
    np.testing.assert_array_equal(moved([Box((n,), Lie(0, (1,)), Lie(0, (1,))), dots], x, y), wanted)
