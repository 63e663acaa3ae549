"""Memory of a call: parts of scratch memory, and the column buffer that operators of a workspace share."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.engines.gemm.memory import BUFFER, MUTEX, SharedBuffer, carve, chain, scratch_bytes
from tazza.errors import BlobTypeError
from tazza.operator import Array, Call, LocalBlobs
from tazza.ops.control.mutex import Mutex
from tazza.tensor import Allocation, DataType, Tensor
from tazza.tensor.allocation import ALIGNMENT

SHAPES = st.dictionaries(
    st.sampled_from("abcde"), st.lists(st.integers(0, 7), max_size=3).map(tuple), min_size=1, max_size=5
)


def aligned(nbytes: int) -> Allocation:
    """Return so much memory from an aligned address on."""
    memory = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return Allocation.adopt(memory[start : start + nbytes])


@given(SHAPES)
def test_parts_are_aligned_and_apart(shapes: dict[str, tuple[int, ...]]) -> None:
    """Each is full size, begins at an aligned address, and what is written to one is in no other."""
    scratch = aligned(scratch_bytes(shapes))
    arrays = carve(scratch, shapes)
    assert {name: array.shape for name, array in arrays.items()} == shapes
    for number, array in enumerate(arrays.values()):
        assert array.ctypes.data % ALIGNMENT == 0 or array.size == 0
        array[...] = number
    for number, array in enumerate(arrays.values()):
        assert (array == number).all()


@given(SHAPES)
def test_bytes_are_whole_lines(shapes: dict[str, tuple[int, ...]]) -> None:
    needed = scratch_bytes(shapes)
    floats = sum(math.prod(shape) for shape in shapes.values())
    assert needed % ALIGNMENT == 0
    assert 4 * floats <= needed < 4 * floats + ALIGNMENT * len(shapes) + 1


def test_no_memory_is_enough_for_nothing() -> None:
    assert carve(None, {"a": (3, 0)})["a"].shape == (3, 0)
    with pytest.raises(ValueError, match="reshape"):
        carve(None, {"a": (3, 2)})


def test_steps_run_in_turn() -> None:
    done: list[int] = []
    call = chain(lambda k=k: done.append(k) for k in range(3))
    call()
    call()
    assert done == [0, 1, 2, 0, 1, 2]


# -- the column buffer -------------------------------------------------------------------------------------------------


def writes(value: float, bound: list[Array]) -> Callable[[Array], Call]:
    """Return what binds a call that fills the buffer, and notes what it was bound to."""

    def bind(array: Array) -> Call:
        bound.append(array)
        return lambda: array.fill(value)

    return bind


def test_the_first_who_asks_makes_both_blobs() -> None:
    blobs = LocalBlobs()
    first, second = SharedBuffer(blobs), SharedBuffer(blobs)
    mutex, buffer = first.create()
    assert buffer is blobs.get_blob(BUFFER)
    assert buffer.is_empty, "memory comes with the first run"
    found = blobs.get_blob(MUTEX)
    assert found is not None
    assert found.get(Mutex) is mutex
    assert second.create() == (mutex, buffer)


def test_a_call_leaves_its_own_shape_and_is_bound_anew_where_the_buffer_moved() -> None:
    blobs = LocalBlobs()
    bound: list[list[Array]] = [[], []]
    small = SharedBuffer(blobs).call((2, 3), writes(1.0, bound[0]))
    large = SharedBuffer(blobs).call((50, 70), writes(2.0, bound[1]))
    blob = SharedBuffer(blobs).create()[1]
    small()
    assert blob.tensor().shape == (2, 3)
    assert (blob.tensor().array == 1).all()
    large()
    large()
    assert (blob.tensor().array == np.full((50, 70), 2)).all()
    assert len(bound[1]) == 1, "it did not move in between"
    small()
    assert blob.tensor().shape == (2, 3)
    assert (blob.tensor().array == 1).all(), "it writes where the buffer is now"
    assert len(bound[0]) == 2, "the larger one moved it"


def test_the_mutex_is_held_while_it_runs() -> None:
    blobs = LocalBlobs()
    held: list[bool] = []

    def bind(array: Array) -> Call:
        del array
        return lambda: held.append(mutex.held)

    shared = SharedBuffer(blobs)
    mutex, _ = shared.create()
    shared.call((2, 3), bind)()
    assert held == [True]
    assert not mutex.held


def test_a_blob_that_holds_something_else() -> None:
    blobs = LocalBlobs()
    blobs.create_blob(MUTEX).set(Tensor((2, 3), DataType.FLOAT))
    with pytest.raises(BlobTypeError, match="Tensor"):
        SharedBuffer(blobs).create()
