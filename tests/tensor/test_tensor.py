"""Tensors: the rules that executors rely on, sharing, exchange with NumPy and DLPack."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.errors import DTypeError, NotFoundError, OutOfMemoryError, ShapeError, UnsupportedError
from tazza.tensor.allocation import default_allocator
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.layout import REORDERS, ROW_MAJOR, Opaque, channels_last
from tazza.tensor.place import CUDAPlace
from tazza.tensor.spec import TensorSpec
from tazza.tensor.tensor import Tensor

ARRAYS: list[npt.NDArray[Any]] = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.array(2.5),
    np.zeros((0, 3), np.float16),
    np.arange(30, dtype=np.int64).reshape(2, 3, 5).transpose(2, 0, 1),
    np.arange(7, dtype=np.int16)[::-2],
    np.arange(4, dtype=">i4"),
    np.array([[True], [False]]),
    np.array([1, -2], ml_dtypes.bfloat16),
    np.array([[b"a", b"", "\u00e9".encode()]], object),
    np.array(b"one", object),
    np.empty((2, 0), object),
]

WRITABLE_DLPACK = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="before 2.1 NumPy gets only read-only arrays by DLPack"
)


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_assign_copies_any_array(array: npt.NDArray[Any]) -> None:
    tensor = Tensor.from_numpy(array)
    assert tensor.dtype is DataType.of(array)
    assert tensor.shape == array.shape
    assert (tensor.size, tensor.nbytes) == (array.size, array.nbytes)
    assert tensor.plain().dtype == tensor.dtype.numpy
    np.testing.assert_array_equal(tensor.plain(), array)
    assert not np.shares_memory(tensor.array, array)
    assert not tensor.storage.escaped


@pytest.mark.parametrize(
    "array", [np.array(["caff\u00e8", "b"]), np.array([b"caff\xc3\xa8", b"b"]), ["caff\u00e8", b"b"]]
)
def test_text_is_held_as_utf8(array: npt.NDArray[Any]) -> None:
    tensor = Tensor.from_numpy(np.asarray(array, object if isinstance(array, list) else None))
    assert tensor.array.tolist() == [b"caff\xc3\xa8", b"b"]


def test_objects_that_are_no_text() -> None:
    tensor = Tensor.from_numpy(np.arange(3))
    with pytest.raises(DTypeError, match="element 1 of an object array is int"):
        tensor.assign(np.array(["a", 1], object))
    assert tensor.plain().tolist() == [0, 1, 2]


def test_a_tensor_that_nobody_touched_has_no_memory() -> None:
    before = default_allocator().statistics.count
    tensor = Tensor((2, 3), DataType.INT16)
    tensor.resize((1000, 1000))
    assert not tensor.allocated
    assert "no memory yet" in repr(tensor)
    assert default_allocator().statistics.count == before
    assert tensor.array.shape == (1000, 1000)
    assert tensor.allocated


class TestResize:
    """What changes and what stays."""

    def test_shrinking_and_growing_keep_the_memory(self) -> None:
        tensor = Tensor.from_numpy(np.arange(12, dtype=np.int32).reshape(3, 4))
        address, generation = tensor.address, tensor.storage.generation
        tensor.resize((2, 3))
        assert tensor.array.tolist() == [[0, 1, 2], [3, 4, 5]]
        tensor.resize((4, 3))
        assert tensor.array.reshape(-1).tolist() == list(range(12))
        tensor.resize((6,), DataType.DOUBLE)
        assert (tensor.address, tensor.storage.generation) == (address, generation)
        tensor.resize((7,))
        assert tensor.storage.generation != generation

    def test_growth_frees_the_old_memory_first(self) -> None:
        allocator = default_allocator()
        tensor = Tensor((1000,), DataType.UINT8)
        assert tensor.array.size == 1000
        before = allocator.statistics.in_use_bytes
        allocator.reset_peak()
        tensor.resize((1500,))
        assert allocator.statistics.peak_bytes <= before + 500

    def test_growth_that_fails_leaves_a_valid_tensor(self) -> None:
        tensor = Tensor.from_numpy(np.arange(3))
        with pytest.raises(OutOfMemoryError):
            tensor.resize((2**58,))
        assert tensor.shape == (3,)
        assert tensor.array.shape == (3,)

    @given(st.lists(st.sampled_from([(2, 3), (3, 2), (6,), (), (0, 3), [2, 3], Dim((6,))]), max_size=8))
    @settings(max_examples=40)
    def test_spec_is_replaced_exactly_when_it_changes(self, shapes: list[Any]) -> None:
        tensor = Tensor((2, 3))
        for shape in shapes:
            old, old_dims = tensor.spec, tensor.shape
            tensor.resize(shape)
            assert (tensor.spec is old) == (tuple(shape) == old_dims)
            assert tensor.shape == tuple(shape)

    def test_what_replaces_the_spec(self) -> None:
        tensor = Tensor((2, 3, 5))
        changes: list[Callable[[], None]] = [
            lambda: tensor.resize((2, 3, 5), DataType.INT32),
            lambda: tensor.resize((2, 3, 5), layout=channels_last((2, 3, 5))),
            lambda: tensor.resize((2, 3, 5)),
            lambda: tensor.resize((2, 3, 5), DataType.STRING),
            lambda: tensor.resize_to(TensorSpec((3, 2), DataType.FLOAT)),
        ]
        for change in changes:
            old = tensor.spec
            change()
            assert tensor.spec is not old
            old = tensor.spec
            change()
            assert tensor.spec is old

    def test_resize_to_takes_the_very_spec(self) -> None:
        tensor = Tensor((2, 3))
        spec = TensorSpec((5,), DataType.INT8)
        tensor.resize_to(spec)
        assert tensor.spec is spec
        tensor.resize_to(TensorSpec((5,), DataType.INT8))
        assert tensor.spec is spec
        with pytest.raises(ShapeError, match="some extents are unknown"):
            tensor.resize_to(TensorSpec((None,), DataType.INT8))

    def test_strings_live_in_another_storage(self) -> None:
        tensor = Tensor.from_numpy(np.arange(3))
        storage = tensor.storage
        tensor.assign(np.array(["a"]))
        assert tensor.storage is not storage
        with pytest.raises(DTypeError, match="strings are references"):
            _ = tensor.address

    def test_another_place_is_another_storage(self) -> None:
        tensor = Tensor.from_numpy(np.arange(3))
        tensor.resize_to(TensorSpec((3,), DataType.INT64, CUDAPlace(1)))
        assert tensor.storage.place == CUDAPlace(1)
        with pytest.raises(NotFoundError, match="allocator of place kind 'cuda'"):
            _ = tensor.array

    def test_negative_extent(self) -> None:
        tensor = Tensor((2, 3))
        with pytest.raises(ShapeError, match="-1 < 0"):
            tensor.resize((-1,))
        assert tensor.shape == (2, 3)


class TestSharing:
    """One storage, several tensors."""

    def test_writes_are_seen_and_counted_once(self) -> None:
        mine, other = Tensor(), Tensor.from_numpy(np.arange(6))
        mine.share(other)
        version = other.storage.version
        mine.array[0] = 9
        mine.mark_written()
        assert other.array[0] == 9
        assert other.storage.version == version + 1
        assert (mine.storage is other.storage, mine.storage.share_count) == (True, 2)

    def test_growth_spares_the_others(self) -> None:
        mine, other = Tensor(), Tensor.from_numpy(np.arange(6))
        mine.share(other)
        mine.assign(np.arange(100, 200))
        assert other.array.tolist() == list(range(6))
        assert mine.storage is not other.storage
        assert other.storage.share_count == 1

    def test_growth_before_the_first_touch_spares_the_others(self) -> None:
        mine, other = Tensor((2,)), Tensor((2,))
        mine.share(other)
        mine.resize((50,))
        other.array[:] = 3
        mine.array[:] = 4
        assert other.array.tolist() == [3, 3]

    def test_the_dead_do_not_share(self) -> None:
        other = Tensor.from_numpy(np.arange(6))
        mine = Tensor()
        mine.share(other)
        storage = other.storage
        del mine
        other.resize((100,))
        assert other.storage is storage

    def test_release_leaves_the_others_their_data(self) -> None:
        mine, other = Tensor(), Tensor.from_numpy(np.arange(6))
        mine.share(other)
        spec = mine.spec
        mine.release()
        assert not mine.allocated
        assert mine.spec == spec
        assert other.array.tolist() == list(range(6))
        other.release()
        assert not other.allocated

    def test_view(self) -> None:
        tensor = Tensor.from_numpy(np.arange(12, dtype=np.int16).reshape(3, 4))
        row = tensor.view((4,), offset=4)
        column = tensor.view((3,), offset=1, strides=(4,))
        assert (row.array.tolist(), column.array.tolist()) == ([4, 5, 6, 7], [1, 5, 9])
        assert row.address == tensor.address + 8
        row.array[:] = 0
        assert tensor.array[1].tolist() == [0, 0, 0, 0]
        row.resize((20,))
        assert row.storage is not tensor.storage
        assert row.array.shape == (20,)

    def test_views_at_two_offsets_have_two_specs(self) -> None:
        tensor = Tensor.from_numpy(np.arange(12))
        part = tensor.view((4,))
        first = part.spec
        part.share(tensor.view((4,), offset=4))
        assert part.spec == first
        assert part.spec is not first

    def test_string_view(self) -> None:
        tensor = Tensor.from_numpy(np.array([["a", "b"], ["c", "d"]]))
        assert tensor.view((2,), offset=1).array.tolist() == [b"b", b"c"]

    @pytest.mark.parametrize(
        ("dims", "offset", "strides"), [((13,), 0, None), ((4,), 9, None), ((2,), 3, (9,)), ((1,), -1, None)]
    )
    def test_view_outside(self, dims: tuple[int, ...], offset: int, strides: tuple[int, ...] | None) -> None:
        with pytest.raises(ShapeError, match="lies inside of its tensor"):
            Tensor.from_numpy(np.arange(12)).view(dims, offset=offset, strides=strides)


class TestOpaque:
    """A layout that only an engine understands; here it holds everything negated."""

    @pytest.fixture
    def tensor(self) -> Generator[Tensor]:
        def reorder(tensor: Tensor) -> npt.NDArray[Any]:
            return -tensor.storage.window(tensor.dtype, tensor.shape, 0, None)

        REORDERS.register("mirror", reorder)
        tensor = Tensor()
        tensor.resize((2, 3), DataType.FLOAT, Opaque("mirror", None, 64))
        tensor.reserve()
        tensor.storage.window(DataType.FLOAT, (2, 3), 0, None)[:] = -5
        yield tensor
        REORDERS.unregister("mirror")

    def test_plain_changes_nothing(self, tensor: Tensor) -> None:
        spec, version = tensor.spec, tensor.storage.version
        assert tensor.plain().tolist() == [[5] * 3] * 2
        assert (tensor.spec is spec, tensor.storage.version, tensor.storage.escaped) == (True, version, False)
        assert tensor.storage.capacity_bytes == 64
        assert np.asarray(tensor).tolist() == [[5] * 3] * 2
        assert repr(tensor) == "Tensor([[5., 5., 5.],\n        [5., 5., 5.]], dtype=float32, layout=mirror layout)"

    def test_numpy_makes_it_plain(self, tensor: Tensor) -> None:
        array = tensor.numpy()
        assert array.tolist() == [[5] * 3] * 2
        assert (tensor.layout, tensor.storage.escaped) == (ROW_MAJOR, True)

    def test_no_elements_in_place(self, tensor: Tensor) -> None:
        with pytest.raises(UnsupportedError, match="no plain elements"):
            _ = tensor.array
        with pytest.raises(UnsupportedError, match="cannot view"):
            tensor.view((6,))

    def test_nobody_reorders(self, tensor: Tensor) -> None:
        tensor.resize((2, 3), layout=Opaque("nobody", None, 24))
        with pytest.raises(NotFoundError, match="unknown reorder of engine 'nobody'"):
            tensor.plain()


def test_channels_last_elements() -> None:
    tensor = Tensor((2, 3, 5), layout=channels_last((2, 3, 5)))
    tensor.array[:] = np.arange(30).reshape(2, 3, 5)
    assert tensor.storage.window(DataType.FLOAT, (4,), 0, None).tolist() == [0, 5, 10, 1]
    assert tensor.plain()[1, 2, 4] == 29


class TestNumpy:
    """Views, copies and who may write."""

    def test_numpy_is_writable_and_escapes(self) -> None:
        tensor = Tensor.from_numpy(np.zeros(3))
        assert tensor.array is tensor.array
        assert not tensor.storage.escaped
        view = tensor.numpy()
        view[1] = 7
        assert tensor.storage.escaped
        assert tensor.array[1] == 7
        tensor.resize((100,))
        tensor.reserve()
        assert not tensor.storage.escaped

    def test_array_protocol_reads_only(self) -> None:
        tensor = Tensor.from_numpy(np.arange(3, dtype=np.float32))
        view = np.asarray(tensor)
        assert np.shares_memory(view, tensor.array)
        assert not view.flags.writeable
        assert not tensor.storage.escaped
        assert tensor.array.flags.writeable
        copy = np.array(tensor)
        assert copy.flags.writeable
        assert not np.shares_memory(copy, tensor.array)
        assert np.asarray(tensor, np.float64).dtype == np.float64
        with pytest.raises(ValueError, match="without a copy"):
            tensor.__array__(np.float64, copy=False)

    def test_sharing_an_array(self) -> None:
        array = np.arange(6, dtype=np.int16).reshape(2, 3)
        for tensor in (Tensor.from_numpy(array, copy=False), Tensor.from_numpy(array, copy=None)):
            assert tensor.address == array.ctypes.data
            assert np.shares_memory(tensor.array, array)
            assert tensor.storage.escaped

    def test_sharing_bfloat16_and_nothing(self) -> None:
        array = np.ones(3, ml_dtypes.bfloat16)
        assert Tensor.from_numpy(array, copy=False).address == array.ctypes.data
        assert Tensor.from_numpy(np.zeros((0, 2)), copy=False).shape == (0, 2)
        assert Tensor.from_numpy(np.array(3.0), copy=False).array == 3

    @pytest.mark.parametrize(
        ("array", "reason"),
        [
            (np.arange(6)[::-1], r"stride of \(-8,\) is less than 0"),
            (np.zeros(3, [("a", "i4"), ("b", "i2")])["a"], "a stride is not a multiple of 4"),
            (np.broadcast_to(np.float32(1), ()), "read-only"),
            (np.arange(3, dtype=">i4"), "byte order"),
            (np.zeros(9, np.uint8)[1:].view(np.int64), "not a multiple of 8"),
            (np.array(["a"]), "references"),
        ],
    )
    def test_arrays_that_cannot_be_shared(self, array: npt.NDArray[Any], reason: str) -> None:
        with pytest.raises(UnsupportedError, match=reason):
            Tensor.from_numpy(array, copy=False)
        assert not np.shares_memory(Tensor.from_numpy(array, copy=None).array, array)

    def test_a_view_outlives_its_tensor(self) -> None:
        tensor = Tensor.from_numpy(np.arange(1000))
        view = tensor.numpy()
        tensor.resize((5000,))
        del tensor
        assert view.tolist() == list(range(1000))


class TestDLPack:
    """Exchange without copying."""

    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.uint16, np.int64, np.bool_])
    def test_to_numpy(self, dtype: type) -> None:
        tensor = Tensor.from_numpy(np.full((2, 3), True).astype(np.dtype(dtype)))
        array = np.from_dlpack(tensor)  # pyright: ignore[reportArgumentType] - the protocol in NumPy's stub is stricter
        assert array.ctypes.data == tensor.address
        assert (array.shape, array.dtype) == ((2, 3), np.dtype(dtype))
        assert tensor.storage.escaped
        assert tensor.__dlpack_device__() == (1, 0)

    @WRITABLE_DLPACK
    def test_from_numpy(self) -> None:
        array = np.arange(6, dtype=np.float32).reshape(2, 3)
        tensor = Tensor.from_dlpack(array)
        assert tensor.address == array.ctypes.data
        assert tensor.storage.escaped
        array[1, 2] = 50
        assert tensor.array[1, 2] == 50

    @WRITABLE_DLPACK
    def test_between_tensors(self) -> None:
        first = Tensor.from_numpy(np.arange(4))
        second = Tensor.from_dlpack(first)
        second.array[0] = 8
        assert first.array[0] == 8

    def test_read_only_memory(self) -> None:
        array = np.arange(3)
        array.flags.writeable = False
        found = Tensor.from_dlpack(array)  # a copy, since it must be one
        assert found.tolist() == [0, 1, 2]
        assert found.address != array.ctypes.data

    def test_strings(self) -> None:
        with pytest.raises(BufferError, match="strings are references"):
            Tensor.from_numpy(np.array(["a"])).__dlpack__()
