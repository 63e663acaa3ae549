"""Memory descriptors: what oneDNN knows of a tensor's extents, element type and layout.

A descriptor is immutable and owned: its handle is freed with the object. Two are equal when oneDNN would read memory
alike through both. Plain ones become `Strided` layouts of tazza; blocked ones `Opaque("onednn", descriptor, nbytes)`,
so that the descriptor itself is what a blob carries.

A float32 blob may also lie in a descriptor of a narrower type (see `narrow`), which is opaque then, plain or not.

The extents of an opaque descriptor need not be those of the blob: a kernel may see axes split (groups) or in another
order. It brings them back with `permute` before it answers, so that what holds is: the descriptor's extents in
row-major order are the blob's elements in row-major order.
So who reads a blob asks `Descriptor.of`, which sees it in the blob's extents or refuses; who brings two extents
together itself asks `seen_as_it_lies`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

from tazza.data_class import dataclass
from tazza.engines.onednn.library import Unimplemented, check, constant, ffi, lib
from tazza.errors import KernelError
from tazza.operator.schema import Spec
from tazza.runtime.cache import remembered
from tazza.tensor import ROW_MAJOR, DataType, Dim, Layout, Opaque, Strided, TensorSpec, channels_last

_TYPES = {
    DataType.FLOAT: "f32",
    DataType.BFLOAT16: "bf16",
    DataType.FLOAT16: "f16",
    DataType.INT32: "s32",
    DataType.INT8: "s8",
    DataType.UINT8: "u8",
    DataType.DOUBLE: "f64",
}
MOST_AXES = 12
BEYOND = 1 << 31
"""Extents from here on are no 32-bit integers."""


@remembered("types of oneDNN", entries=64)
def type_number(dtype: DataType) -> int:
    """Return oneDNN's number of an element type.

    Raises:
        Unimplemented: it has no such type.
    """
    name = _TYPES.get(dtype)
    if name is None:
        raise Unimplemented(f"oneDNN has no element type {dtype.label}")
    return constant(f"dnnl_{name}")


@dataclass(frozen=True, slots=True)
class Content:
    """What a descriptor says; `blocks` are (axis, extent) of the inner blocks, outermost first."""

    dtype: int
    dims: tuple[int, ...]
    kind: int
    strides: tuple[int, ...] = ()
    padded: tuple[int, ...] = ()
    offset: int = 0
    blocks: tuple[tuple[int, int], ...] = ()
    identity: int = 0


class Descriptor:
    """One owned `dnnl_memory_desc_t`."""

    def __init__(self, handle: Any) -> None:
        """Take over a handle."""
        self.handle = ffi.gc(handle, lib.dnnl_memory_desc_destroy)

    @classmethod
    def made(cls, function: str, *arguments: Any, what: str) -> Descriptor:
        """Return the one that a function `dnnl_memory_desc_...` makes of these arguments; `what` says what was done.

        Raises:
            KernelError: it makes none.
        """
        made = ffi.new("dnnl_memory_desc_t *")
        check(getattr(lib, f"dnnl_memory_desc_{function}")(made, *arguments), what)
        return cls(made[0])

    @staticmethod
    def of(spec: Spec | Sequence[int], dtype: DataType = DataType.FLOAT, layout: Layout = ROW_MAJOR) -> Descriptor:
        """Return the descriptor of a spec, or of extents, element type and layout.

        Rank 0 becomes one axis of extent 1, which is how oneDNN sees a single number. An opaque layout is seen with
        these extents, too.

        Raises:
            Unimplemented: an element type, rank or layout that oneDNN does not have, or one that lies in other extents
                and cannot be seen in these.
        """
        if isinstance(spec, TensorSpec):
            return Descriptor.of(spec.shape, spec.dtype, spec.layout)
        dims = Dim(cast("Sequence[int]", spec))
        if isinstance(layout, Opaque):
            return Descriptor.lying(layout).reshape(dims if len(dims) else (1,))
        steps = cast("Strided", layout).steps(dims)
        return _strided(tuple(dims), dtype, tuple(steps)) if len(dims) else _strided((1,), dtype, (1,))

    @staticmethod
    def lying(layout: Opaque) -> Descriptor:
        """Return the descriptor of a blob as it lies, whose extents may be others than the blob's.

        Raises:
            Unimplemented: the layout is another engine's.
        """
        if not isinstance(layout.descriptor, Descriptor):
            raise Unimplemented(f"oneDNN cannot read a layout of engine {layout.engine!r}")
        return layout.descriptor

    @staticmethod
    def any(dims: Sequence[int], dtype: DataType = DataType.FLOAT) -> Descriptor:
        """Return a descriptor whose layout the primitive may choose."""
        return _any(tuple(dims), dtype)

    @staticmethod
    def channels_last(dims: Sequence[int], dtype: DataType = DataType.FLOAT) -> Descriptor:
        """Return the descriptor of (N, C, spatial ...) with dense channels.

        Its strides say so even where extents of 1 make that the same as row-major, because oneDNN goes by the strides.
        """
        steps = Dim((dims[0], *dims[2:], dims[1])).strides()
        return _strided(tuple(dims), dtype, (steps[0], steps[-1], *steps[1:-1]))

    # -- content -------------------------------------------------------------------------------------------------------

    @cached_property
    def content(self) -> Content:
        """What the descriptor says, asked from the library once."""
        rank = self._int("ndims_s32")
        kind = self._int("format_kind")
        dtype, dims = self._int("data_type"), self._extents("dims", rank)
        if kind == constant("dnnl_format_kind_any"):
            return Content(dtype, dims, kind)
        if kind != constant("dnnl_blocked"):
            return Content(dtype, dims, kind, identity=id(self))
        count = self._int("inner_nblks_s32")
        blocks = zip(self._extents("inner_idxs", count), self._extents("inner_blks", count), strict=True)
        padded = self._extents("padded_dims", rank)
        strides, offset = self._extents("strides", rank), self._int("submemory_offset_s64", "int64_t")
        return Content(dtype, dims, kind, strides, padded, offset, tuple(blocks))

    def _int(self, what: str, kind: str = "int") -> Any:
        found = ffi.new(f"{kind} *")
        check(lib.dnnl_memory_desc_query(self.handle, constant(f"dnnl_query_{what}"), found), f"query of {what}")
        return found[0]

    def _extents(self, what: str, count: int) -> tuple[int, ...]:
        return tuple(self._int(what, "int64_t *")[0:count]) if count else ()

    def __eq__(self, other: object) -> bool:
        # Filters of bytes may have sums behind them, of which the content says nothing.
        return isinstance(other, Descriptor) and (
            self is other
            or (self.content == other.content and bool(lib.dnnl_memory_desc_equal(self.handle, other.handle)))
        )

    @cached_property
    def _hash(self) -> int:
        return hash(self.content)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Descriptor({self})"

    def __str__(self) -> str:
        """Return type, extents and layout, axes as letters in order of memory: `float32[2, 16, 3, 5] aBcd16b`."""
        dims = ", ".join(map(str, self.dims))
        return f"{self.dtype.label}[{dims}] {self.tag}"

    @property
    def tag(self) -> str:
        """The layout in oneDNN's letters: axes from the slowest to the fastest, capital where they have blocks."""
        found = self.content
        if found.kind != constant("dnnl_blocked"):
            return "any" if found.kind == constant("dnnl_format_kind_any") else "opaque"
        inner = {axis for axis, _ in found.blocks}
        order = sorted(range(len(found.dims)), key=lambda axis: (-found.strides[axis], -found.padded[axis], axis))
        outer = "".join(chr(ord("A" if axis in inner else "a") + axis) for axis in order)
        return outer + "".join(f"{extent}{chr(ord('a') + axis)}" for axis, extent in found.blocks)

    @property
    def dims(self) -> tuple[int, ...]:
        """The extents."""
        return self.content.dims

    @property
    def dtype(self) -> DataType:
        """The element type."""
        return next(dtype for dtype in _TYPES if type_number(dtype) == self.content.dtype)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the memory, padding of blocks included."""
        return lib.dnnl_memory_desc_get_size(self.handle)

    @property
    def is_plain(self) -> bool:
        """Whether strides tell everything: no blocks, no padding, no offset."""
        found = self.content
        plain = found.kind == constant("dnnl_blocked") and not found.blocks
        return plain and found.offset == 0 and found.padded == found.dims

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to describe, as for an argument that a primitive does not have."""
        return len(self.dims) == 0

    # -- other descriptors ---------------------------------------------------------------------------------------------

    def permute(self, axes: Sequence[int]) -> Descriptor:
        """Return the descriptor of the same memory with axes in another order: its axis i is `axes[i]` of this."""
        if tuple(axes) == tuple(range(len(axes))):
            return self
        if self.content.kind == constant("dnnl_format_kind_any"):
            return Descriptor.any([self.dims[axis] for axis in axes], self.dtype)
        where = sorted(range(len(axes)), key=axes.__getitem__)
        return Descriptor.made("permute_axes", self.handle, where, what=f"permute {self} by {tuple(axes)}")

    def reshape(self, dims: Sequence[int]) -> Descriptor:
        """Return the descriptor of the same memory with axes split or joined, in row-major order of the extents.

        Raises:
            Unimplemented: the layout does not allow it.
        """
        if tuple(dims) == self.dims:
            return self
        try:
            return Descriptor.made("reshape", self.handle, len(dims), list(dims), what="reshape")
        except KernelError:
            raise Unimplemented(f"memory of {self} cannot be seen as {Dim(dims)}") from None

    def part(self, axis: int, start: int, dims: Sequence[int]) -> Descriptor:
        """Return the descriptor of a part of the same memory: extents `dims`, from `start` on along `axis`.

        Raises:
            Unimplemented: the part does not begin and end where blocks do.
        """
        offsets = [start if k == axis else 0 for k in range(len(dims))]
        what = f"the part {tuple(dims)} from {tuple(offsets)} on, of {self}"
        return Descriptor.made("create_submemory", self.handle, list(dims), offsets, what=what)

    def layout(self, dims: Sequence[int] | None = None, *, dtype: DataType | None = None) -> Layout:
        """Return the layout for a blob of extents `dims` and element type `dtype` (those of the descriptor by default).

        Strides where they tell all; axes of extent 1 have those of row-major or channels-last when that fits.
        """
        shape = Dim(self.dims if dims is None else dims)
        narrow = dtype is not None and dtype is not self.dtype
        nearest = self._strides(shape)
        if nearest is None or narrow:
            return Opaque("onednn", self, self.nbytes, narrow, nearest)
        return nearest

    def _strides(self, shape: Dim) -> Strided | None:
        """Return the strides of a blob of that shape, None where they do not tell all."""
        if not self.is_plain:
            return None
        try:
            steps = self.reshape(shape).content.strides if len(shape) else ()
        except Unimplemented:
            return None
        return _canonical(shape, steps)


def seen_as_it_lies(spec: TensorSpec) -> Descriptor:
    """Return the descriptor of a blob in whatever extents it lies in, for who brings these together with others.

    Raises:
        Unimplemented: an element type, rank or layout that oneDNN does not have.
    """
    return Descriptor.lying(spec.layout) if isinstance(spec.layout, Opaque) else Descriptor.of(spec)


def resized(layout: Opaque, count: int) -> Opaque | None:
    """Return how a layout lies for another first extent: see `RESIZED`."""
    found = cast("Descriptor", layout.descriptor)
    dims, strides = found.dims, found.content.strides
    if not found.is_plain or strides[0] != math.prod(dims[1:]):
        return None
    made = _strided((count, *dims[1:]), found.dtype, strides)
    return Opaque("onednn", made, made.nbytes, layout.derived, _canonical(Dim(made.dims), strides))


def places(layout: Opaque) -> str | None:
    """Return where a layout has each element: see `PLACES`. What oneDNN keeps beside them has no words."""
    found = cast("Descriptor", layout.descriptor)
    content, whole = found.content, math.prod(found.content.padded) * found.dtype.itemsize
    if content.kind != constant("dnnl_blocked") or content.offset or found.nbytes != whole:
        return None
    return f"{found} in {content.padded}, strides {content.strides}"


def _canonical(shape: Dim, steps: tuple[int, ...]) -> Strided:
    found = Strided.of(shape, steps)
    if found != ROW_MAJOR and len(shape) > 2:
        last = channels_last(shape)
        same = zip(last.steps(shape), steps, shape, strict=True)
        if all(mine == theirs or extent == 1 for mine, theirs, extent in same):
            return last
    return found


@remembered("strided descriptors", entries=4096)
def _strided(dims: tuple[int, ...], dtype: DataType, steps: tuple[int, ...]) -> Descriptor:
    if len(dims) > MOST_AXES:
        raise Unimplemented(f"oneDNN takes at most {MOST_AXES} axes, {Dim(dims)} has {len(dims)}")
    if max(dims, default=0) >= BEYOND:
        raise Unimplemented(f"oneDNN's kernels count in 32 bits, {Dim(dims)} has an extent of {max(dims)}")
    what = f"dnnl_memory_desc_create_with_strides of {Dim(dims)}, strides {steps}"
    return Descriptor.made("create_with_strides", len(dims), dims, type_number(dtype), steps, what=what)


@remembered("open descriptors", entries=4096)
def _any(dims: tuple[int, ...], dtype: DataType) -> Descriptor:
    what, tag = f"dnnl_memory_desc_create_with_tag of {Dim(dims)}, any", constant("dnnl_format_tag_any")
    return Descriptor.made("create_with_tag", len(dims), dims, type_number(dtype), tag, what=what)


def is_dense(dims: Dim, steps: Sequence[int]) -> bool:
    """Whether strides put the elements side by side in some order of the axes, without gaps or sharing.

    >>> is_dense(Dim((2, 3)), (1, 2)), is_dense(Dim((2, 3)), (6, 2))
    (True, False)
    """
    expected = 1
    for step, extent in sorted((step, extent) for step, extent in zip(steps, dims, strict=True) if extent != 1):
        if step != expected:
            return False
        expected *= extent
    return math.prod(dims) == expected


def accepts_dense(letter: str, spec: Spec) -> bool:
    """Take every dense order of axes, and the layouts of this engine: `accepts` of most kernels here."""
    del letter
    if not isinstance(spec, TensorSpec):
        return False
    if isinstance(spec.layout, Opaque):
        return spec.layout.engine == "onednn" and not spec.layout.derived
    return spec.size == 0 or is_dense(spec.shape, cast("Strided", spec.layout).steps(spec.shape))


def accepts_narrow(letter: str, spec: Spec) -> bool:
    """Take narrow elements as well: `accepts` of kernels that go by the element types of descriptors."""
    return accepts_dense(letter, spec) or lies_here(spec)


def lies_here(spec: Spec) -> bool:
    """Whether a blob has a layout of this engine."""
    return isinstance(spec, TensorSpec) and isinstance(spec.layout, Opaque) and spec.layout.engine == "onednn"


def is_blocked(spec: TensorSpec) -> bool:
    """Whether a blob lies in blocks, which no strides tell."""
    return lies_here(spec) and not seen_as_it_lies(spec).is_plain


def accepts_strided(letter: str, spec: Spec) -> bool:
    """Take every layout of this engine and all strides that do not repeat an element: `accepts` of reorders."""
    if accepts_narrow(letter, spec):
        return True
    if not isinstance(spec, TensorSpec) or not isinstance(spec.layout, Strided):
        return False
    pairs = zip(spec.layout.steps(spec.shape), spec.shape, strict=True)
    return all(step > 0 or extent == 1 for step, extent in pairs)
