"""Exchange without copying: DLPack with NumPy and torch both ways, NumPy's array interface; addresses are the same."""

from __future__ import annotations

import gc
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings

import tazza.tensor as tt
from tazza.errors import ArgumentError, DTypeError, UnsupportedError
from tests.arrays import NUMBERS, Pair, assert_same, make_pair, pairs, values_of

BFLOAT16 = tt.DataType.BFLOAT16
STRIDED = ("row-major", "permuted", "gaps", "adopted")
WRITABLE = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="before 2.1 NumPy gets only read-only arrays by DLPack"
)


def _steps(array: Any) -> list[int]:
    """Return the strides that matter."""
    return [step for step, extent in zip(array.strides, array.shape, strict=True) if extent > 1 and array.size]


@WRITABLE
@given(pairs(layouts=STRIDED))
@settings(max_examples=60)
def test_dlpack_to_ourselves(pair: Pair) -> None:
    found = tt.from_dlpack(pair.tensor)
    assert_same(found, pair.array)
    assert pair.tensor.storage.escaped
    if found.size:
        assert found.address == pair.tensor.address
        found.fill(True)
        assert pair.tensor.plain().all()


@given(pairs([dtype for dtype in NUMBERS if dtype is not BFLOAT16], layouts=(*STRIDED, "stretched")))
@settings(max_examples=60)
def test_numpy_reads_the_same_memory(pair: Pair) -> None:
    by_interface = np.asarray(pair.tensor)
    assert not by_interface.flags.writeable
    for found in (by_interface, np.from_dlpack(cast("Any", pair.tensor))):
        np.testing.assert_array_equal(found, pair.array)
        assert found.dtype == pair.array.dtype
        assert _steps(found) == _steps(pair.array)
        assert found.ctypes.data == pair.tensor.address or not found.size


@pytest.mark.parametrize("layout", ["row-major", "permuted", "stretched", "opaque"])
def test_numpy_reads_bfloat16_and_opaque_layouts(layout: str) -> None:
    pair = make_pair(BFLOAT16, (2, 3, 5), layout, 1, [2, 0, 1])
    np.testing.assert_array_equal(np.asarray(pair.tensor), pair.array)
    assert not hasattr(pair.tensor, "__array_interface__")
    pair = make_pair(tt.DataType.INT16, (2, 3, 5), layout, 1, [2, 0, 1])
    np.testing.assert_array_equal(np.asarray(pair.tensor), pair.array)
    assert not pair.tensor.storage.escaped


def test_an_array_outlives_its_tensor() -> None:
    x = tt.arange(1000)
    by_interface, by_dlpack = np.asarray(x), np.from_dlpack(cast("Any", x))
    x.resize((5000,))
    x.fill(7)
    del x
    gc.collect()
    assert by_interface.tolist() == by_dlpack.tolist() == list(range(1000))


def test_an_interface_of_another_library() -> None:
    class Foreign:
        def __init__(self, array: Any) -> None:
            self.__array_interface__ = array.__array_interface__
            self.array = array

    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert tt.asarray(Foreign(array)).address == array.ctypes.data
    assert tt.asarray(memoryview(bytearray(b"\1\2"))).tolist() == [1, 2]


def test_what_cannot_be_shared() -> None:
    class Elsewhere:
        def __dlpack__(self, *, stream: None = None) -> object:
            raise AssertionError("nobody asks")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 1

    with pytest.raises(UnsupportedError, match=r"device \(2, 1\)"):
        tt.from_dlpack(Elsewhere())
    with pytest.raises(UnsupportedError, match=r"stride of|read-only"):
        tt.from_dlpack(np.arange(3)[::-1], copy=False)
    with pytest.raises(DTypeError, match="complex128"):
        tt.from_dlpack(np.zeros(3, complex), copy=True)
    with pytest.raises(ArgumentError, match="is not on cuda:1"):
        tt.from_dlpack(np.zeros(3), device=tt.CUDAPlace(1))
    with pytest.raises(BufferError, match="use to_device"):
        tt.zeros(3).__dlpack__(dl_device=(2, 0))
    assert tt.from_dlpack(np.arange(3)[::-1], copy=True).tolist() == [2, 1, 0]


def test_a_copy_through_dlpack_leaves_the_tensor_alone() -> None:
    x = tt.arange(3)
    found = np.from_dlpack(cast("Any", _Copied(x)))
    assert found.tolist() == [0, 1, 2]
    assert found.ctypes.data != x.address
    assert not x.storage.escaped


class _Copied:
    """Exports copies."""

    def __init__(self, x: tt.Tensor) -> None:
        self.x = x

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(max_version=options.get("max_version"), copy=True)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.x.__dlpack_device__()


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("transposed", [False, True])
def test_torch_both_ways(dtype: tt.DataType, transposed: bool) -> None:
    torch: Any = pytest.importorskip("torch")
    array = values_of(dtype, (2, 3, 5), 1)
    mine = tt.array(array)
    mine = mine.T if transposed else mine
    theirs = torch.from_dlpack(mine)
    assert theirs.data_ptr() == mine.address
    assert str(theirs.dtype) == f"torch.{dtype}"
    assert theirs.tolist() == mine.tolist()
    assert mine.storage.escaped

    given = torch.arange(30).reshape(2, 3, 5).to(theirs.dtype)
    given = given.permute(2, 0, 1) if transposed else given
    back = tt.from_dlpack(given)
    assert back.address == given.data_ptr() == tt.asarray(given).address
    assert back.dtype is dtype
    assert back.tolist() == given.tolist()
    back[0, 0, 0] = True
    assert given.tolist() == back.tolist()
