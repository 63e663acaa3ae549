"""Exchange without copying: DLPack with NumPy and torch both ways, NumPy's array interface; addresses are the same."""

from __future__ import annotations

import gc
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings

import tazza.array as ta
from tazza.errors import DTypeError, ExchangeError, NotFoundError, UnavailableError
from tazza.tensor import interchange
from tests.arrays import NUMBERS, Array, Pair, assert_same, make_pair, pairs, values_of

BFLOAT16 = ta.DataType.BFLOAT16
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
    found = ta.from_dlpack(pair.tensor)
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
    pair = make_pair(ta.DataType.INT16, (2, 3, 5), layout, 1, [2, 0, 1])
    np.testing.assert_array_equal(np.asarray(pair.tensor), pair.array)
    assert not pair.tensor.storage.escaped


def test_an_array_outlives_its_tensor() -> None:
    x = ta.arange(1000)
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
    assert ta.asarray(Foreign(array)).address == array.ctypes.data
    assert ta.asarray(memoryview(bytearray(b"\1\2"))).tolist() == [1, 2]


def exported(dtype: ta.DataType, form: str) -> Array:
    """Return an array of NumPy that can be shared as it lies, or, in the forms of `MUST_COPY`, only copied."""
    array = values_of(dtype, (2, 3, 5), 1)
    array.flags.writeable = form != "read-only"
    return {"reversed": array[:, ::-1], "permuted": array.transpose(2, 0, 1), "gaps": array[..., ::2]}.get(form, array)


MUST_COPY = ("reversed", "read-only")


@WRITABLE
@pytest.mark.parametrize("dtype", [dtype for dtype in NUMBERS if dtype is not BFLOAT16])
@pytest.mark.parametrize("form", ["row-major", "permuted", "gaps", *MUST_COPY])
def test_copy_says_whether_memory_is_shared(dtype: ta.DataType, form: str) -> None:
    """`None`: where it can be; `True`: never; `False`: always, or a ValueError. The elements are the same."""
    for copy in (None, True, False):
        array = exported(dtype, form)
        if copy is False and form in MUST_COPY:
            for kind in (ValueError, BufferError, ExchangeError):
                with pytest.raises(kind, match=r"less than 0|read-only"):
                    ta.from_dlpack(array, copy=False)
            continue
        for device in (None, "cpu", ta.CPUPlace()):
            found = ta.from_dlpack(array, copy=copy, device=device)
            assert_same(found, array)
            shared = copy is not True and form not in MUST_COPY
            assert np.may_share_memory(found.plain(), array) is shared
            assert found.storage.escaped is shared


class Elsewhere:
    """An array on a GPU, which copies itself to the CPU when it is asked to."""

    def __init__(self, *, copies: bool) -> None:
        self.copies = copies
        self.asked: list[Any] = []

    def __dlpack__(self, *, stream: None = None, **options: Any) -> Any:
        self.asked.append(options.get("dl_device"))
        if not self.copies:
            raise BufferError("stays where it is")
        return np.arange(3.0).__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 1


def test_memory_on_another_device() -> None:
    far = Elsewhere(copies=True)
    for options in ({}, {"device": ta.CUDAPlace(1)}, {"device": "cpu", "copy": False}):
        with pytest.raises(ExchangeError, match=r"device \(2, 1\)"):
            ta.from_dlpack(far, **cast("Any", options))
    assert far.asked == []
    assert ta.from_dlpack(far, device="cpu").tolist() == [0, 1, 2]
    assert far.asked == [(1, 0)]
    with pytest.raises(BufferError, match="stays where it is"):
        ta.from_dlpack(Elsewhere(copies=False), device="cpu")
    with pytest.raises(ExchangeError, match=r"on cuda:1 only as a copy"):
        ta.from_dlpack(np.zeros(3), device=ta.CUDAPlace(1), copy=False)
    with pytest.raises((UnavailableError, NotFoundError)):
        ta.from_dlpack(np.zeros(3), device=ta.CUDAPlace(1))
    for kind in (BufferError, ExchangeError):
        with pytest.raises(kind, match="use to_device"):
            ta.zeros(3).__dlpack__(dl_device=(2, 0))
        with pytest.raises(kind, match="strings"):
            ta.asarray(["a"]).__dlpack__()


class Typed:
    """Tells its bytes as elements of a type by DLPack's code."""

    def __init__(self, code: int, bits: int, lanes: int = 1) -> None:
        self.type = code, bits, lanes

    def __dlpack__(self, **options: Any) -> Any:
        capsule: Any = cast("Any", np.zeros(16, np.uint8)).__dlpack__(**options)
        found = interchange._descriptor(capsule)  # pyright: ignore[reportPrivateUsage] -- who else could write one
        found.code, found.bits, found.lanes = self.type
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


@WRITABLE
@pytest.mark.parametrize("copy", [None, True, False])
def test_elements_of_any_type_are_taken_or_refused_by_name(copy: bool | None) -> None:
    """All codes that there are and that may come, in all widths: a tensor, or an error that names the type."""
    held = {("int", 8), ("int", 16), ("int", 32), ("int", 64), ("uint", 8), ("uint", 16), ("bool", 8)}
    held |= {("float", 16), ("float", 32), ("float", 64), ("bfloat", 16)}
    for code, name in enumerate([*interchange.TYPE_CODES, "unknown"]):
        for bits in (4, 8, 16, 32, 64, 128):
            for lanes in (1, 4):
                if (name, bits) in held and lanes == 1:
                    assert ta.from_dlpack(Typed(code, bits), copy=copy).size == 16
                    continue
                with pytest.raises(DTypeError, match="cannot be held"):
                    ta.from_dlpack(Typed(code, bits, lanes), copy=copy)
    with pytest.raises(DTypeError, match="float8_e5m2 of 8 bits cannot"):
        ta.from_dlpack(Typed(12, 8))
    with pytest.raises(DTypeError, match="complex128"):
        ta.from_dlpack(np.zeros(3, complex), copy=copy)


def test_a_copy_through_dlpack_leaves_the_tensor_alone() -> None:
    x = ta.arange(3)
    found = np.from_dlpack(cast("Any", _Copied(x)))
    assert found.tolist() == [0, 1, 2]
    assert found.ctypes.data != x.address
    assert not x.storage.escaped


class _Copied:
    """Exports copies."""

    def __init__(self, x: ta.Tensor) -> None:
        self.x = x

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(max_version=options.get("max_version"), copy=True)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.x.__dlpack_device__()


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("transposed", [False, True])
def test_torch_both_ways(dtype: ta.DataType, transposed: bool) -> None:
    torch: Any = pytest.importorskip("torch")
    array = values_of(dtype, (2, 3, 5), 1)
    mine = ta.array(array)
    mine = mine.T if transposed else mine
    theirs = torch.from_dlpack(mine)
    assert theirs.data_ptr() == mine.address
    assert str(theirs.dtype) == f"torch.{dtype}"
    assert theirs.tolist() == mine.tolist()
    assert mine.storage.escaped

    given = torch.arange(30).reshape(2, 3, 5).to(theirs.dtype)
    given = given.permute(2, 0, 1) if transposed else given
    back = ta.from_dlpack(given)
    assert back.address == given.data_ptr() == ta.asarray(given).address
    assert back.dtype is dtype
    assert back.tolist() == given.tolist()
    back[0, 0, 0] = True
    assert given.tolist() == back.tolist()
