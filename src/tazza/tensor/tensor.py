"""A tensor: a storage, an offset into it, and a spec (shape, element type, place, layout).

What an executor may rely on:

- `spec` is one immutable object. It is *replaced* whenever shape, element type, place, layout or offset change, and
  kept when a resize asks for what is there. While `tensor.spec is old_spec` and
  `tensor.storage.generation == old_generation`, every address computed from the tensor still holds.
- Memory is allocated by the first touch (`array`, `address`, `assign` ...), so a tensor that was only resized has none.
  A resize of a tensor that has memory makes room at once.
- `resize` never moves to less memory; after growth the content is undefined. When the storage is shared with other
  tensors, growth gives this one a storage of its own and leaves the others what they had.
- A view never writes to elements that are not its own: what does not fit into its span, or needs its gaps, moves to a
  storage of its own.

A tensor is not locked; see storage.py. What people write with tensors as arrays is in operators.py.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import starmap
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from tazza.errors import DTypeError, OutOfMemoryError, ShapeError, UnsupportedError
from tazza.tensor.allocation import Allocation
from tazza.tensor.array_methods import ArrayMethods
from tazza.tensor.attached import ATTACHED
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType, numpy_dtype
from tazza.tensor.layout import REORDERS, ROW_MAJOR, Layout, Opaque, Strided
from tazza.tensor.operators import ArrayOperators
from tazza.tensor.place import CPUPlace, Place
from tazza.tensor.quantization import Int8Tensor, PerChannel, PerTensor, Quantization
from tazza.tensor.spec import TensorSpec
from tazza.tensor.storage import Storage, StringStorage

_NO_ROOM = -1  # no storage has this generation


if TYPE_CHECKING:
    from tazza.tensor.interchange import SupportsDLPack


class Tensor(ArrayOperators, ArrayMethods):
    """An n-dimensional array whose memory outlives its shapes.

    >>> t = Tensor((2, 3))
    >>> t.assign(np.arange(4, dtype=np.int32)); t
    Tensor([0, 1, 2, 3], dtype=int32)
    """

    __slots__ = ("__weakref__", "_array", "_room", "_room_generation", "offset_bytes", "spec", "storage")

    def __init__(
        self,
        dims: Iterable[SupportsIndex] = (0,),
        dtype: DataType = DataType.FLOAT,
        place: Place | None = None,
        *,
        layout: Layout = ROW_MAJOR,
        holder: str = "",
    ) -> None:
        """Make a tensor that has no memory yet; `holder` names it in messages about memory."""
        where = CPUPlace() if place is None else place
        self.spec = TensorSpec(Dim(dims), dtype, where, layout)
        self.storage = _storage_for(self.spec, holder)
        self.offset_bytes = 0
        self._room: TensorSpec | None = None  # of a view: what it had at first, and so may fill; None: all the storage
        self._array: npt.NDArray[Any] | None = None
        self._room_generation = _NO_ROOM

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Dim:
        """The extents, whatever the layout."""
        return self.spec.shape

    @property
    def dtype(self) -> DataType:
        """The element type."""
        return self.spec.dtype

    @property
    def place(self) -> Place:
        """Where the memory is."""
        return self.spec.place

    @property
    def layout(self) -> Layout:
        """How the elements lie in memory."""
        return self.spec.layout

    @property
    def quantization(self) -> Quantization | None:
        """What its integers stand for; None: nothing but themselves."""
        return self.spec.quantization

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.spec.size

    @property
    def nbytes(self) -> int:
        """Bytes of the elements without any padding."""
        return self.spec.nbytes

    @property
    def allocated(self) -> bool:
        """Whether there is memory for all elements, as after a first touch."""
        if self._room_generation == self.storage.generation:
            return True
        needed = self.offset_bytes + self.layout.span_bytes(self.shape, self.dtype.itemsize)
        return self.storage.allocated and self.storage.capacity_bytes >= needed

    # -- shape and memory ----------------------------------------------------------------------------------------------

    def resize(self, dims: Iterable[SupportsIndex], dtype: DataType | None = None, layout: Layout = ROW_MAJOR) -> None:
        """Take another shape, element type (None keeps it) and layout; keep the memory where it is large enough.

        After growth the content is undefined. A quantized tensor becomes a plain one.

        Raises:
            ShapeError: an extent is negative.
            OutOfMemoryError: growth is not possible.
        """
        old = self.spec
        kind = old.dtype if dtype is None else dtype
        shape = old.shape if isinstance(dims, tuple) and dims == old.dims else Dim(dims)
        same = shape == old.dims and old.dtype is kind and (layout is old.layout or layout == old.layout)
        if not same or old.quantization is not None:
            self._take_spec(TensorSpec(shape, kind, old.place, layout))

    def resize_to(self, spec: TensorSpec) -> None:
        """Take everything from `spec`; when that changes anything, `self.spec` becomes this very object.

        Raises:
            ShapeError: the spec has unknown extents.
            OutOfMemoryError: growth is not possible.
        """
        if self.spec is spec or self.spec == spec:
            return
        if not spec.shape_known:
            raise ShapeError(f"a tensor cannot take {spec}: some extents are unknown", hint="infer the shape first")
        self._take_spec(spec)

    def quantize_as(self, quantization: Quantization | None) -> None:
        """Let the integers that are there stand for other numbers; None makes plain ones of them.

        Raises:
            ShapeError, ArgumentError: it does not fit the shape or the element type.

        >>> t = Tensor.from_numpy(np.uint8([3, 5])); t.quantize_as(PerTensor(0.5, 3)); print(t.spec)
        uint8[2] (scale 0.5, zero point 3)
        """
        if self.spec.quantization != quantization:
            self.spec = dataclasses.replace(self.spec, quantization=quantization)
            if self._room is not None:
                self._room = dataclasses.replace(self._room, quantization=None)

    def _take_spec(self, spec: TensorSpec) -> None:
        if self._has_form and (self.storage.share_count > 1 or self.storage.beside is not None):
            self._leave_form()
        old = self.spec
        self._drop_array()  # else the old memory would live on while new is made
        strings_change = (spec.dtype is DataType.STRING) != (old.dtype is DataType.STRING)
        if strings_change or spec.place != old.place:
            self._leave_storage(spec)
        elif self.storage.allocated:
            room = self._room
            if room is not None and spec.span_bytes > _dense_bytes(room):
                self._leave_storage(spec)
            self._make_room(spec)
        self.spec = spec

    def sharers(self) -> list[Tensor]:
        """Return the other living tensors that are the same data: made to share its storage, in the same way."""
        others = [one for one in self.storage.sharers() if one is not self and one.storage is self.storage]
        return [one for one in others if one.offset_bytes == self.offset_bytes and one.spec == self.spec]

    @property
    def _has_form(self) -> bool:
        """Whether elements lie in an opaque form on the host."""
        return isinstance(self.spec.layout, Opaque) and self.spec.place.is_host and self.storage.allocated

    def _leave_form(self) -> None:
        """Bring an opaque form into row-major order in other memory; those who are the same data go along.

        Where there is no memory for it, or somebody interrupts it, nothing is lost.
        """
        memory = Storage(self.spec.place, holder=self.storage.holder, dtype=self.spec.dtype)
        plain = Tensor.over(memory, 0, dataclasses.replace(self.spec, layout=ROW_MAJOR))
        np.copyto(plain.array, self.plain())
        self._become_views([*self.sharers(), self], plain, plain.spec, 0)

    def _make_room(self, spec: TensorSpec) -> None:
        """Reserve what `spec` needs, and if that means to move, spare the content of those who share the storage."""
        span = spec.span_bytes
        if self.storage.allocated and self.storage.capacity_bytes >= self.offset_bytes + span:
            return
        self._drop_array()
        if self.storage.share_count > 1 and self.storage.allocated:
            self._leave_storage(spec)
        self.offset_bytes = 0
        self.storage.reserve(span)
        self.storage.dtype = spec.dtype

    def _drop_array(self) -> None:
        self._array = None
        self._room_generation = _NO_ROOM

    def _leave_storage(self, spec: TensorSpec) -> None:
        """Start a storage of this tensor's own; others that share the old one keep it."""
        self.storage.remove_sharer(self)
        self.storage = _storage_for(spec, self.storage.holder)
        self.offset_bytes = 0
        self._room = None

    def reserve(self) -> None:
        """Allocate now what the shape needs."""
        self._make_room(self.spec)
        self._room_generation = self.storage.generation

    @property
    def address(self) -> int:
        """Address of the first element, allocated if need be; in elements of the layout.

        Raises:
            DTypeError: strings have no address.
        """
        if self.spec.dtype is DataType.STRING:
            raise DTypeError(f"{self.spec} has no address: strings are references")
        if self._room_generation != self.storage.generation:
            self.reserve()
        return self.storage.address + self.offset_bytes

    def share(self, other: Tensor) -> None:
        """Become the same data as `other`: one storage, two tensors, until one of them grows."""
        if other is self:
            return
        self._become_view(other, other.spec, other.offset_bytes)

    def view(self, dims: Iterable[SupportsIndex], *, offset: int = 0, strides: Sequence[int] | None = None) -> Tensor:
        """Return a tensor over the same storage: `offset` and `strides` in elements, strides None for row-major.

        Raises:
            ShapeError: the view does not fit into the span of this tensor.
            UnsupportedError: the layout is opaque, or it is not row-major and no strides are given.
        """
        mine = self.spec.layout
        if not isinstance(mine, Strided) or (strides is None and mine != ROW_MAJOR):
            raise UnsupportedError(f"cannot view {self.spec}: {mine} is not row-major", hint="use plain()")
        shape = Dim(dims)
        layout = ROW_MAJOR if strides is None else Strided.of(shape, strides)
        item = self.spec.dtype.itemsize
        last = offset * item + layout.span_bytes(shape, item)
        span = mine.span_bytes(self.spec.shape, item)
        if offset < 0 or last > span:
            raise ShapeError(
                f"view {shape} at element {offset} ends at byte {last} > {span} bytes of {self.spec}",
                hint="a view lies inside of its tensor",
            )
        self.reserve()  # a storage that moves at first touch would leave the view behind
        view = Tensor.__new__(Tensor)
        whole = self.spec.quantization
        # Scales of channels or rows belong to the shape that they were made for.
        kept = whole if isinstance(whole, PerTensor) else None
        view.spec = TensorSpec(shape, self.spec.dtype, self.spec.place, layout, kept)
        view.storage = self.storage
        view.offset_bytes = self.offset_bytes + offset * item
        view._room = view.spec
        view._drop_array()
        self.storage.add_sharers(view, self)
        return view

    @staticmethod
    def over(storage: Storage, offset_bytes: int, spec: TensorSpec) -> Tensor:
        """Return a tensor in memory that somebody else planned: it is neither counted as a sharer nor may it grow."""
        tensor = Tensor.__new__(Tensor)  # without a storage and a spec of its own: a third of the time
        tensor.spec, tensor.storage, tensor.offset_bytes = spec, storage, offset_bytes
        tensor._room = tensor._array = None
        tensor._room_generation = _NO_ROOM
        return tensor

    def _become_view(self, other: Tensor, spec: TensorSpec, offset_bytes: int) -> None:
        # An equal spec at another offset is another address: the identity has to change.
        self._become_views(
            [self], other, dataclasses.replace(spec) if offset_bytes != self.offset_bytes else spec, offset_bytes
        )

    @staticmethod
    def _become_views(tensors: Sequence[Tensor], other: Tensor, spec: TensorSpec, offset_bytes: int) -> None:
        """Let tensors lie in the storage of another one, all of them or, where somebody interrupts it, none."""
        former = [one.storage for one in tensors]
        other.storage.add_sharers(*tensors, other)
        told = {"storage": other.storage, "offset_bytes": offset_bytes, "_room": other._room, "spec": spec}
        told |= {"_array": None, "_room_generation": _NO_ROOM}
        # One call of C, within which nobody looks for signals.
        deque(starmap(setattr, [(one, name, value) for one in tensors for name, value in told.items()]), maxlen=0)
        for one, storage in zip(tensors, former, strict=True):
            if storage is not other.storage:
                storage.remove_sharer(one)

    def release(self) -> None:
        """Give the memory back (to the others, when it is shared) and keep the spec."""
        if self.storage.share_count > 1:
            self._leave_storage(self.spec)
            self.spec = dataclasses.replace(self.spec)
        else:
            self.storage.release()
            self.offset_bytes = 0
            self._room = None
        self._drop_array()

    # -- content -------------------------------------------------------------------------------------------------------

    @property
    def array(self) -> npt.NDArray[Any]:
        """The elements as a NumPy view of the tensor's own memory, for kernels and other code of this package.

        It is not counted as escaped, so whoever writes through it calls `mark_written`, and nobody keeps it longer than
        the call: the next growth leaves it behind.

        Raises:
            UnsupportedError: the layout is opaque, or the CPU does not read the place.
        """
        storage = self.storage
        array = self._array
        if array is not None and self._room_generation == storage.generation:
            return array
        return self._make_array()

    def _make_array(self) -> npt.NDArray[Any]:
        spec = self.spec
        if not isinstance(spec.layout, Strided):
            raise UnsupportedError(f"{spec} has no plain elements in place", hint="use plain(), which reorders them")
        self.reserve()
        self._array = self.storage.window(spec.dtype, spec.shape, self.offset_bytes, spec.layout.strides)
        return self._array

    @property
    def span(self) -> npt.NDArray[Any]:
        """All of its memory on the host as a flat array, in whatever order elements lie there, with what pads them.

        As for `array`, whoever writes calls `mark_written`.
        """
        if self._room_generation != self.storage.generation:
            self._drop_array()
            self.reserve()
        spec = self.spec
        return self.storage.window(spec.dtype, (spec.span_bytes // spec.dtype.itemsize,), self.offset_bytes, None)

    def mark_written(self) -> None:
        """Say that the content changed."""
        self.storage.version += 1

    def plain(self) -> npt.NDArray[Any]:
        """Return the elements as strided data and change nothing: a read-only view, or what the engine's reorder makes.

        Of a tensor on a device these are a copy on the host, made when the work that was queued there has ended.

        Raises:
            NotFoundError: nobody registered a reorder for the engine of the layout.
            UnavailableError: nothing that is here copies from the device.
        """
        if not self.spec.place.is_host:
            return self._on_host().plain()
        layout = self.spec.layout
        if isinstance(layout, Opaque):
            return REORDERS[layout.engine](self)
        view = self.array.view()
        view.flags.writeable = False
        return view

    def _on_host(self) -> Tensor:
        return ATTACHED["to_place"](self, CPUPlace())

    def make_plain(self) -> None:
        """Bring an opaque layout into row-major order, on the host in other memory."""
        if self._has_form:
            self._leave_form()
        if isinstance(self.spec.layout, Opaque):
            meaning = self.spec.quantization
            self.assign(self.plain())
            self.quantize_as(meaning)

    def numpy(self) -> npt.NDArray[Any]:
        """Hand out a writable view without copying; an opaque layout becomes row-major first.

        It is read-only where elements lie on top of each other, as after `broadcast_to`. The storage counts as escaped
        from then on: nothing derived from its content is kept.

        >>> t = Tensor.from_numpy(np.zeros(2)); t.numpy()[1] = 7; t
        Tensor([0., 7.], dtype=float64)
        """
        self.make_plain()
        array = self.array
        self.storage.escaped = True
        view = array.view()  # the caller may change shape or dtype of what it gets
        layout = self.spec.layout
        if isinstance(layout, Strided) and layout.overlaps_itself(self.spec.shape):
            view.flags.writeable = False
        return view

    def assign(self, array: npt.NDArray[Any]) -> None:
        """Take shape, element type and a copy of the elements of `array`, which may have any strides and byte order.

        Text is held as UTF-8 bytes. A view keeps its strides when shape and element type stay. A quantized tensor
        becomes a plain one: `quantize_as` says what the integers stand for.

        Raises:
            DTypeError: no tensor holds such elements; nothing was changed then.
        """
        dtype = DataType.of(array)
        source = encode_text(array) if dtype is DataType.STRING else array
        if not self.spec.place.is_host:
            self._assign_from_host(source, dtype)
            return
        if not self._takes_in_place(array.shape, dtype):
            if self._has_form:
                self._leave_form()  # who is interrupted has what was there
            self.resize(array.shape, dtype)
        np.copyto(self.array, source, casting="equiv")
        self.storage.version += 1

    def _assign_from_host(self, array: npt.NDArray[Any], dtype: DataType) -> None:
        """Copy to the device, as `assign` does on the host."""
        if dtype is DataType.STRING:
            raise DTypeError(f"strings do not go to {self.spec.place}: they are references")
        self.resize(array.shape, dtype)
        ATTACHED["copy_to"](Tensor.from_numpy(np.ascontiguousarray(array, dtype.numpy), copy=None), self)

    def _takes_in_place(self, dims: tuple[int, ...], dtype: DataType) -> bool:
        """Whether elements of that shape and type go where this view has its own."""
        spec = self.spec
        if self._room is None or spec.dtype is not dtype or spec.dims != dims or spec.quantization is not None:
            return False
        return isinstance(spec.layout, Strided) and not spec.layout.overlaps_itself(spec.shape)

    def has_form(self, array: npt.NDArray[Any]) -> bool:
        """Whether an array has the shape and dtype of this tensor; False, too, where that takes longer to see."""
        mine = self._array
        if mine is None or self._room_generation != self.storage.generation or self.spec.quantization is not None:
            return False
        return array.shape == mine.shape and array.dtype == mine.dtype and not mine.dtype.hasobject

    def overwrite(self, array: npt.NDArray[Any]) -> bool:
        """Take the elements of an array of the same shape and dtype, quickly; False for any other (`has_form`)."""
        if not self.has_form(array):
            return False
        np.copyto(self.array, array)
        self.storage.version += 1
        return True

    def copied(self) -> npt.NDArray[Any]:
        """Return the elements as a fresh row-major array.

        Raises:
            OutOfMemoryError: there is no memory for it.
        """
        try:
            mine = self._array
            if mine is not None and self._room_generation == self.storage.generation:
                return mine.copy()
            return np.array(self.plain())
        except MemoryError as error:
            raise OutOfMemoryError(f"{self.spec} cannot be copied: {error}", hint="fetch smaller blobs") from error

    def fetched(self) -> npt.NDArray[Any] | Int8Tensor:
        """Return a fresh copy of the elements, with scale and zero point where these are no plain numbers.

        Raises:
            OutOfMemoryError: there is no memory for it.
        """
        elements, meaning = self.copied(), self.spec.quantization
        if meaning is None:
            return elements
        return Int8Tensor.of(elements, meaning) if isinstance(meaning, (PerTensor, PerChannel)) else elements

    @staticmethod
    def from_numpy(array: npt.NDArray[Any], *, copy: bool | None = True) -> Tensor:
        """Return a tensor with the elements of `array`.

        `copy=False` shares the memory, `None` does so where possible. Shared memory counts as escaped.

        Raises:
            DTypeError: no tensor holds such elements.
            UnsupportedError: `copy=False`, and the memory cannot be shared; says why.
        """
        dtype = DataType.of(array)
        obstacle = "a copy was asked for" if copy is True else _sharing_obstacle(array, dtype)
        if obstacle is None:
            return _adopted(array, dtype)
        if copy is False:
            raise UnsupportedError(
                f"array {array.dtype}{array.shape} cannot be shared: {obstacle}", hint="copy it: copy=True, or None"
            )
        tensor = Tensor(array.shape, dtype)
        tensor.assign(array)
        return tensor

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Let NumPy read it: without copying, a *read-only* view (`numpy()` hands out the writable one)."""
        view = self.plain()
        if dtype is not None and numpy_dtype(dtype) != view.dtype:
            if copy is False:
                raise ValueError(f"{self.spec} cannot become {numpy_dtype(dtype)} without a copy")
            return view.astype(dtype)
        return view.copy() if copy else view

    # -- exchange ------------------------------------------------------------------------------------------------------

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's array interface, read-only; `AttributeError` for elements that it does not know."""
        return ATTACHED["array_interface"](self)

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Hand the memory to another library without copying; it counts as escaped."""
        return ATTACHED["to_dlpack"](self, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return ATTACHED["dlpack_device"](self)

    @staticmethod
    def from_dlpack(source: SupportsDLPack) -> Tensor:
        """Return a tensor over the memory of another library's array, or a copy where it must be; see `ta.from_dlpack`.

        Raises:
            DTypeError: no tensor holds such elements.
            ExchangeError: the memory is on a device that is not read from.
        """
        return ATTACHED["from_dlpack"](source)

    def __repr__(self) -> str:
        return ATTACHED["representation"](self)

    def _repr_html_(self) -> str:
        """Return it for a notebook: what it is, and its elements as `repr` shows them."""
        from tazza.runtime.html import heading, preformatted

        return heading(f"{self.dtype.label}{list(self.shape)}, {self.nbytes:,} bytes") + preformatted(repr(self))


def _storage_for(spec: TensorSpec, holder: str) -> Storage:
    if spec.dtype is DataType.STRING:
        return StringStorage(holder=holder)
    return Storage(spec.place, holder=holder, dtype=spec.dtype)


def _dense_bytes(spec: TensorSpec) -> int:
    """Return the bytes of the elements if they fill their span without gaps, in whatever order, else 0."""
    layout = spec.layout
    gaps = layout.span_bytes(spec.shape, spec.dtype.itemsize) != spec.nbytes
    return 0 if gaps or (isinstance(layout, Strided) and layout.overlaps_itself(spec.shape)) else spec.nbytes


def encode_text(array: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
    """Return text of any kind as an object array of UTF-8 bytes.

    Raises:
        DTypeError: an element is neither `str` nor `bytes`.
    """
    encoded = np.empty(array.shape, object)
    flat = encoded.reshape(-1)
    for i, item in enumerate(array.reshape(-1).tolist()):
        if isinstance(item, str):
            flat[i] = item.encode()
        elif isinstance(item, bytes):
            flat[i] = item
        else:
            raise DTypeError(
                f"element {i} of an object array is {type(item).__name__}, not str or bytes",
                hint="string tensors hold text only; give numbers a numeric dtype",
            )
    return encoded


def _sharing_obstacle(array: npt.NDArray[Any], dtype: DataType) -> str | None:
    item = dtype.itemsize
    checks = (
        (dtype is DataType.STRING, "strings are held as references"),
        (array.dtype != dtype.numpy, f"byte order {array.dtype.byteorder!r} is not the machine's"),
        (not array.flags.writeable, "it is read-only"),
        (not array.flags.aligned, f"its address or a stride is not a multiple of {item}"),
        (array.size > 0 and min(array.strides, default=0) < 0, f"a stride of {array.strides} is less than 0"),
    )
    return next((reason for fails, reason in checks if fails), None)


def _adopted(array: npt.NDArray[Any], dtype: DataType) -> Tensor:
    item = dtype.itemsize
    layout = Strided.of(array.shape, [step // item for step in array.strides])
    tensor = Tensor(array.shape, dtype, layout=layout)
    # The whole span from the first to the last element, gaps included, which belong to the same memory.
    length = layout.span_bytes(tensor.shape, item) // item
    span = np.lib.stride_tricks.as_strided(array, (length,), (item,))
    tensor.storage = Storage(CPUPlace(), allocation=Allocation.adopt(span))
    tensor._room = tensor.spec  # pyright: ignore[reportPrivateUsage] -- part of the class
    tensor.storage.escaped = True
    return tensor
