"""Strategies for hypothesis: tensors of any element type, rank 0-9 and layout, each with the array it must equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tazza.array.views import broadcast_to
from tazza.tensor.dtype import DataType
from tazza.tensor.layout import REORDERS, Opaque
from tazza.tensor.tensor import Tensor

Array: TypeAlias = npt.NDArray[Any]

NUMBERS = [member for member in DataType if member is not DataType.STRING]
INTEGERS = [member for member in NUMBERS if not member.is_float and member is not DataType.BOOL]
FLOATS = [member for member in NUMBERS if member.is_float]
LAYOUTS = ("row-major", "permuted", "gaps", "stretched", "adopted", "opaque")
RANK_MAX = 9
ELEMENTS_MAX = 400

MIRROR = "inverted"
"""An engine whose layout is row-major, with all bits turned."""


def reorder_mirror(tensor: Tensor) -> Array:
    """Return what a tensor of the mirror layout holds."""
    raw = tensor.storage.window(DataType.UINT8, (tensor.nbytes,), tensor.offset_bytes, None)
    return (~raw).view(tensor.dtype.numpy).reshape(tensor.shape)


def register_mirror() -> None:
    """Register the engine, once."""
    if MIRROR not in REORDERS:
        REORDERS.register(MIRROR, reorder_mirror)


@dataclass(frozen=True)
class Pair:
    """A tensor and what NumPy has: `array` lies over a copy of all memory that the tensor lies over, as it does."""

    tensor: Tensor
    array: Array
    layout: str

    def __repr__(self) -> str:
        return f"{self.layout} {self.array.dtype}{self.array.shape}"

    def check(self) -> None:
        """Check that both hold the same."""
        assert_same(self.tensor, self.array)


def assert_same(tensor: Tensor, array: npt.ArrayLike) -> None:
    """Check type, shape and elements; NaN equals NaN."""
    expected = np.asarray(array)
    found = tensor.plain()
    assert tensor.dtype is DataType.of(expected)
    assert (found.dtype, tuple(tensor.shape)) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)


@st.composite
def shapes(draw: st.DrawFn, *, min_rank: int = 0, max_rank: int = RANK_MAX, min_extent: int = 0) -> tuple[int, ...]:
    """Draw extents of at most `ELEMENTS_MAX` elements together."""
    extents: list[int] = []
    room = ELEMENTS_MAX
    for _ in range(draw(st.integers(min_rank, max_rank))):
        extent = draw(st.integers(min_extent, max(min(5, room), min_extent)))
        room //= max(extent, 1)
        extents.append(extent)
    return tuple(extents)


def values_of(dtype: DataType, shape: tuple[int, ...], seed: int) -> Array:
    """Return elements that few share, small enough that sums of integers stay what they are."""
    rng = np.random.default_rng(seed)
    if dtype is DataType.BOOL:
        return np.asarray(rng.integers(0, 2, shape), bool)
    low = 0 if dtype in (DataType.UINT8, DataType.UINT16) else -9
    whole = rng.integers(low, 10, shape)
    return np.asarray(whole / 4 if dtype.is_float else whole, dtype.numpy)


@st.composite
def pairs(
    draw: st.DrawFn,
    dtypes: list[DataType] | None = None,
    layouts: tuple[str, ...] = LAYOUTS,
    shape: tuple[int, ...] | None = None,
    **limits: int,
) -> Pair:
    """Draw a tensor of any layout, and NumPy's array."""
    dtype = draw(st.sampled_from(NUMBERS if dtypes is None else dtypes))
    extents = draw(shapes(**limits)) if shape is None else shape
    layout = draw(st.sampled_from(layouts))
    seed = draw(st.integers(0, 2**16))
    axes = draw(st.permutations(range(len(extents))))
    return make_pair(dtype, extents, layout, seed, axes)


def make_pair(dtype: DataType, shape: tuple[int, ...], layout: str, seed: int, axes: list[int]) -> Pair:
    """Return the tensor and NumPy's array; `axes` is the order in memory of a permuted one."""
    if layout == "permuted":
        inner = values_of(dtype, tuple(shape[k] for k in axes), seed)
        back = [axes.index(k) for k in range(len(shape))]
        return Pair(Tensor.from_numpy(inner).transpose(back), inner.transpose(back), layout)
    if layout == "gaps":
        inner = values_of(dtype, tuple(2 * extent + 1 for extent in shape[-3:]), seed)
        inner = np.broadcast_to(inner, shape[:-3] + inner.shape).copy()
        at = (...,) + (slice(1, None, 2),) * len(shape[-3:])
        return Pair(Tensor.from_numpy(inner)[at], inner[at], layout)
    array = values_of(dtype, shape, seed)
    if layout == "stretched":
        inner = values_of(dtype, tuple(1 if k % 2 else extent for k, extent in enumerate(shape)), seed)
        return Pair(broadcast_to(Tensor.from_numpy(inner), shape), np.broadcast_to(inner, shape), layout)
    if layout == "adopted":
        return Pair(Tensor.from_numpy(array.copy(), copy=None), array, layout)
    tensor = Tensor.from_numpy(array)
    if layout == "opaque":
        register_mirror()
        raw = tensor.storage.window(DataType.UINT8, (tensor.nbytes,), 0, None)
        np.invert(raw, out=raw)
        tensor.resize(shape, layout=Opaque(MIRROR, None, tensor.nbytes))
    return Pair(tensor, array, layout)


@st.composite
def simple_indices(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Draw integers, slices of any pace, new axes and maybe an ellipsis for some axes of `shape`."""
    items: list[Any] = []
    taken = draw(st.integers(0, len(shape)))
    for extent in shape[:taken]:
        whole = st.integers(-extent, extent - 1) if extent else st.nothing()
        items.append(draw(whole | st.slices(extent)))
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), None)
    if draw(st.booleans()) and taken == len(items):
        items.append(...)
    return tuple(items)
