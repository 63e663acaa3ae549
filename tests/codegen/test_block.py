"""The argument block of a kernel: what its words become, and that it moves with the memory that it points to."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest

from tazza.codegen.block import (
    BlockLaunch,
    CheckedCall,
    Constant,
    Memory,
    Scratch,
    Slot,
    accepts_dense,
    accepts_rows,
    all_float32,
    float_word,
    slots_of,
)
from tazza.device import Generator, current_context
from tazza.errors import NumericError
from tazza.operator import NativeCall, Operands, find_schema
from tazza.tensor import Allocation, CPUPlace, DataType, Opaque, Tensor, TensorSpec, TypeSpec, channels_last


def operands(*, scratch_bytes: int = 64) -> Operands:
    """Return tensors X and Y0, Y1 with scratch memory."""
    tensors = {
        "X": Tensor.from_numpy(np.arange(3, dtype=np.float32)),
        "Y": (Tensor.from_numpy(np.zeros(2, np.float32)), Tensor.from_numpy(np.ones(2, np.float32))),
    }
    memory = Allocation.adopt(np.zeros(scratch_bytes // 4, np.float32))
    return Operands(tensors, memory, Generator, current_context(CPUPlace()))  # pyright: ignore[reportArgumentType] -- lists of tensors too


def words_of(call: NativeCall) -> list[int]:
    """Return what stands in the block of a call."""
    address = call.arguments[0]
    return list((ctypes.c_int64 * 6).from_address(address))


def test_words_become_numbers_and_addresses() -> None:
    given = operands()
    launch = BlockLaunch(1, (7, Slot("X"), Slot("Y", 1), Scratch(16), Constant(b"tazza"), Memory(32)), 64)
    call = launch.bind(given)
    assert isinstance(call, NativeCall)
    number, X, Y1, scratch, constant, memory = words_of(call)
    assert number == 7
    assert X == Slot("X").of(given).address
    assert Y1 == Slot("Y", 1).of(given).address
    assert given.scratch is not None
    assert scratch == given.scratch.address + 16
    assert ctypes.string_at(constant, 5) == b"tazza"
    ctypes.memset(memory, 1, 32)


def test_a_block_moves_with_its_operands() -> None:
    """What points into a range of memory is moved by as much as it is; numbers that look like it are not."""
    given = operands()
    X = Slot("X").of(given).address
    call = BlockLaunch(1, (X, Slot("X"), Slot("Y", 0), Scratch(), 0, 0)).bind(given)
    assert isinstance(call, NativeCall)
    before = words_of(call)
    assert call.owner.move(X, X + 12, 4096) == 1
    assert words_of(call) == [before[0], before[1] + 4096, *before[2:]]
    assert call.owner.move(X, X + 12, 0) == 1, "ranges are of where it was bound"
    assert words_of(call) == before


def test_errors_come_from_looking_again() -> None:
    def check(looked: Operands) -> None:
        raise NumericError(f"X has {Slot('X').of(looked).shape[0]} elements")

    call = BlockLaunch(1, (0,), check=check).bind(operands())
    assert isinstance(call, CheckedCall)
    assert str(call.error(3)).startswith("X has 3 elements")
    silent = BlockLaunch(1, (0,), check=lambda looked: None).bind(operands())
    assert isinstance(silent, CheckedCall)
    assert "3" in str(silent.error(3)), "a status that nobody explains is told as it is"


@pytest.mark.parametrize("value", [0.0, -1.5, float("inf"), 1e-300])
def test_words_of_floats(value: float) -> None:
    assert struct.unpack("<d", struct.pack("<q", float_word(value))) == (value,)


def test_slots_follow_the_letters() -> None:
    schema = find_schema("Concat")
    assert [slot.name for slot in slots_of(schema, ("X", "X", "X"), outputs=False)] == ["X0", "X1", "X2"]
    assert [slot.name for slot in slots_of(find_schema("FC"), ("X", "W", "b"), outputs=False)] == ["X", "W", "b"]


def test_layouts_that_are_taken() -> None:
    last = TensorSpec((2, 3, 4, 5), DataType.FLOAT, layout=channels_last((2, 3, 4, 5)))
    blocked, narrow = (
        TensorSpec((2, 3), DataType.FLOAT, layout=Opaque("e", 1, 24, derived=one)) for one in (False, True)
    )
    plain = TensorSpec((2, 3), DataType.FLOAT)
    assert [accepts_rows("X", one) for one in (plain, last, blocked)] == [True, False, False]
    assert [accepts_dense("X", one) for one in (plain, last, blocked, narrow)] == [True, True, True, False]
    assert all_float32(plain, None, last)
    assert not all_float32(plain, TensorSpec((2,), DataType.INT32))
    assert not all_float32(TypeSpec("Mutex"))
