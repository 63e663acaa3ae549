"""Views: tensors over the memory of another one, worked out from shapes and steps alone.

`Window` says where the elements of a view lie. It is pure arithmetic, so a view of memory that the CPU cannot read is
made as well as any other. A tensor's steps are never negative (layout.py): what would need such steps (`x[::-1]`,
`flip`) is copied. So is a part of an opaque layout, which has no steps at all.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from tazza.tensor.attached import attached
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.layout import Strided
from tazza.tensor.operators import Index, Simple
from tazza.tensor.tensor import Tensor
from tazza.tensor.transfer import check_writable

__all__ = [
    "broadcast_to",
    "diagonal",
    "expand_dims",
    "flatten",
    "moveaxis",
    "permute_dims",
    "reshape",
    "shares_memory",
    "squeeze",
    "swapaxes",
]


@dataclass(frozen=True, slots=True)
class Window:
    """Element i lies `offset + sum(i[k] * steps[k])` elements behind the first one of the tensor that is viewed."""

    shape: tuple[int, ...]
    steps: tuple[int, ...]
    offset: int = 0

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def permute(self, axes: Sequence[int]) -> Window:
        """Axis k of the result is axis `axes[k]`."""
        return Window(tuple(self.shape[k] for k in axes), tuple(self.steps[k] for k in axes), self.offset)

    def index(self, items: Sequence[Simple]) -> Window:
        """Apply integers, slices, new axes and at most one ellipsis, as Python's indexing means them.

        Raises:
            BoundsError: more items than axes, two ellipses, or an integer outside of its extent.

        >>> Window((3, 5), (5, 1)).index((1, slice(None, None, 2)))
        Window(shape=(3,), steps=(2,), offset=5)
        """
        shape: list[int] = []
        steps: list[int] = []
        offset, axis = self.offset, 0
        for item in self._spelled_out(items):
            if item is None:
                shape.append(1)
                steps.append(0)
                continue
            extent, step = self.shape[axis], self.steps[axis]
            if isinstance(item, slice):
                start, stop, pace = item.indices(extent)
                shape.append(len(range(start, stop, pace)))
                steps.append(step * pace)
                offset += start * step
            else:
                offset += _position(item, extent, axis) * step
            axis += 1
        return Window(tuple(shape), tuple(steps), offset)

    def _spelled_out(self, items: Sequence[Simple]) -> list[SupportsIndex | slice | None]:
        """Replace the ellipsis, or the end, by full slices."""
        taken = sum(item is not None and item is not Ellipsis for item in items)
        if taken > self.rank:
            raise BoundsError(f"{taken} indices for {Dim(self.shape)} of rank {self.rank}", hint="one index per axis")
        ellipses = sum(item is Ellipsis for item in items)
        if ellipses > 1:
            raise BoundsError(f"{ellipses} ellipses in one index", hint="one `...` stands for all the axes left over")
        full: list[SupportsIndex | slice | None] = [slice(None)] * (self.rank - taken)
        plain: list[SupportsIndex | slice | None] = []
        for item in items:
            if item is Ellipsis:
                plain += full
            else:
                plain.append(item)  # pyright: ignore[reportArgumentType] - the ellipsis is gone: compared by identity
        return plain if ellipses else plain + full

    def reshape(self, shape: Sequence[int]) -> Window | None:
        """Return the window with these extents over the same elements in row-major order; None where none exists.

        Runs of axes that lie densely behind each other may be cut anew; an extent of 1 fits anywhere.

        >>> Window((2, 3, 5), (15, 5, 1)).reshape((6, 5)), Window((2, 3), (1, 2)).reshape((6,))
        (Window(shape=(6, 5), steps=(5, 1), offset=0), None)
        """
        runs = _dense_runs(self.shape, self.steps)
        steps: list[int] = []
        for extent in reversed(shape):
            size, step = runs[-1] if runs else (1, 1)
            if extent == 1:
                steps.append(step)
                continue
            if size % extent:
                return None
            steps.append(step)
            runs[-1] = (size // extent, step * extent)
            if runs[-1][0] == 1:
                runs.pop()
        return Window(tuple(shape), tuple(reversed(steps)), self.offset)

    def broadcast(self, shape: Sequence[int]) -> Window:
        """Stretch extents of 1, and add axes in front, with steps of 0.

        Raises:
            ShapeError: an extent differs and is not 1, or there are fewer axes than now.
        """
        if Dim(self.shape).broadcast(shape) != tuple(shape):
            raise ShapeError(f"{Dim(self.shape)} does not broadcast to {Dim(shape)}", hint="only extents of 1 stretch")
        added = len(shape) - self.rank
        pairs = zip(self.shape, self.steps, shape[added:], strict=True)
        steps = tuple(step if mine == wanted else 0 for mine, step, wanted in pairs)
        return Window(tuple(shape), (0,) * added + steps, self.offset)

    def diagonal(self, offset: int, first: int, second: int) -> Window:
        """Put the elements [..., k, ..., k + offset, ...] of two axes into one new last axis."""
        down, right = max(-offset, 0), max(offset, 0)
        length = max(min(self.shape[first] - down, self.shape[second] - right), 0)
        kept = [axis for axis in range(self.rank) if axis not in (first, second)]
        rest = self.permute(kept)
        start = self.offset + down * self.steps[first] + right * self.steps[second]
        return Window((*rest.shape, length), (*rest.steps, self.steps[first] + self.steps[second]), start)


def _position(item: SupportsIndex, extent: int, axis: int) -> int:
    i = operator.index(item)
    if not -extent <= i < extent:
        raise BoundsError(f"index {i} is outside of extent {extent} of axis {axis}", hint=f"-{extent} <= i < {extent}")
    return i + extent if i < 0 else i


def _dense_runs(shape: Sequence[int], steps: Sequence[int]) -> list[tuple[int, int]]:
    """Return (elements, innermost step) of each maximal run of axes that could be one axis."""
    runs: list[tuple[int, int]] = []
    for extent, step in zip(shape, steps, strict=True):
        if extent == 1:
            continue
        if runs and runs[-1][1] == extent * step:
            runs[-1] = (runs[-1][0] * extent, step)
        else:
            runs.append((extent, step))
    return runs


def window_of(x: Tensor) -> Window | None:
    """Return the window over all of a tensor; None for an opaque layout."""
    layout = x.layout
    return Window(x.shape, layout.steps(x.shape)) if isinstance(layout, Strided) else None


def over_window(x: Tensor, window: Window) -> Tensor:
    """Return a tensor over the elements that `window` names: a view, or a copy where steps are negative."""
    shape = Dim(window.shape)
    if shape.numel == 0:
        return x.view(shape, strides=shape.strides())
    # The step of a single element is never taken: it may as well be positive.
    steps = tuple(0 if extent == 1 else step for extent, step in zip(shape, window.steps, strict=True))
    if min(steps, default=0) >= 0:
        return x.view(shape, offset=window.offset, strides=steps)
    x.reserve()
    itemsize = x.dtype.itemsize
    return Tensor.from_numpy(x.storage.window(x.dtype, shape, x.offset_bytes + window.offset * itemsize, steps))


def _viewable(x: Tensor) -> tuple[Tensor, Window]:
    """Return the tensor, or a plain copy of one whose layout is opaque, with the window over all of it."""
    window = window_of(x)
    if window is not None:
        return x, window
    copied = Tensor.from_numpy(x.plain())
    return copied, Window(copied.shape, copied.shape.strides())


# -- indexing ----------------------------------------------------------------------------------------------------------


@attached
def get_item(x: Tensor, index: Index) -> Tensor:
    """Return `x[index]`: a view for integers, slices (of positive pace), `...` and `None`; a copy for masks and lists.

    Raises:
        BoundsError: an index outside of its extent, or too many.

    >>> x = Tensor.from_numpy(np.arange(6).reshape(2, 3)); row = x[1]; row[0] = 9; x
    Tensor([[0, 1, 2],
            [9, 4, 5]], dtype=int64)
    """
    items = index if isinstance(index, tuple) else (index,)
    if _is_simple(items):
        x, window = _viewable(x)
        return over_window(x, window.index(cast("Sequence[Simple]", items)))
    try:
        return Tensor.from_numpy(np.asarray(x.plain()[_for_numpy(items)]))
    except IndexError as error:
        raise BoundsError(f"{x.spec}: {error}") from error


@attached
def set_item(x: Tensor, index: Index, value: object) -> None:
    """Do `x[index] = value`; the value broadcasts and may be a part of `x` itself.

    An opaque layout becomes row-major first.

    Raises:
        BoundsError: an index outside of its extent, or too many.
        DTypeError: the value is of a higher kind than `x`: floating-point numbers do not go into integers.
        ShapeError: the value does not broadcast to the elements that are named.
        UnsupportedError: the elements of `x` lie on top of each other, as after `broadcast_to`.
    """
    items = index if isinstance(index, tuple) else (index,)
    source = value_for(x, value)
    target = writable(x)
    try:
        target[_for_numpy(items)] = source
    except IndexError as error:
        raise BoundsError(f"{x.spec}: {error}") from error
    except ValueError as error:
        raise ShapeError(f"{x.spec}: {error}", hint="the value broadcasts to what is assigned") from error
    x.mark_written()


def writable(x: Tensor) -> npt.NDArray[Any]:
    """Return the elements of `x` to write to, in row-major order when the layout was opaque; marks nothing.

    Raises:
        UnsupportedError: elements lie on top of each other.
    """
    check_writable(x, "assignment")
    x.make_plain()
    return x.array


_KINDS = ("b", "iu", "fV")  # bool, integers, floating point; each goes into those behind it ("V": bfloat16)


def value_for(x: Tensor, value: object) -> Any:
    """Return `value` as NumPy can store it in `x`, after checking that nothing but precision can get lost."""
    source: Any = value.plain() if isinstance(value, Tensor) else value
    if x.dtype is DataType.STRING:
        return source.encode() if isinstance(source, str) else source
    theirs = np.asarray(source).dtype
    kind = theirs.kind
    mine = x.dtype.numpy.kind
    order = [next((k for k, letters in enumerate(_KINDS) if letter in letters), len(_KINDS)) for letter in (kind, mine)]
    if order[0] > order[1]:
        raise DTypeError(f"elements of type {theirs} do not go into {x.spec}", hint="convert them first: astype()")
    if not isinstance(value, Tensor | np.ndarray | np.generic):
        check_range(np.asarray(source), x.dtype)
    return source


def check_range(values: npt.NDArray[Any], dtype: DataType) -> None:
    """Check that whole numbers that people wrote fit the type; those of arrays wrap around, as everywhere.

    Raises:
        DTypeError: one does not fit.
    """
    if values.size == 0 or values.dtype.kind not in "iu" or dtype.numpy.kind not in "iu":
        return
    limits = np.iinfo(dtype.numpy)
    for found in (int(values.min()), int(values.max())):
        if not limits.min <= found <= limits.max:
            raise DTypeError(f"{found} does not fit {dtype}: {limits.min} to {limits.max}", hint="take a wider type")


_SIMPLE = frozenset({int, slice, type(None), type(Ellipsis)})


def _is_simple(items: Sequence[object]) -> bool:
    return all(type(item) in _SIMPLE or _is_integer(item) for item in items)


def _is_integer(item: object) -> bool:
    if isinstance(item, Tensor):
        return item.shape == () and item.dtype is not DataType.BOOL and not item.dtype.is_float
    # Asking for the protocol `SupportsIndex` takes twenty times as long.
    return hasattr(type(item), "__index__") and not isinstance(item, bool | np.bool_ | np.ndarray)


def _for_numpy(items: Sequence[object]) -> tuple[Any, ...]:
    return tuple(item.plain() if isinstance(item, Tensor) else item for item in items)


# -- shapes ------------------------------------------------------------------------------------------------------------


@attached
def reshape(x: Tensor, /, shape: Sequence[SupportsIndex], *, copy: bool | None = None) -> Tensor:
    """Return the elements in row-major order with another shape; one extent may be -1 and follows from the others.

    A view where the layout allows (`copy=None`), always (`False`) or never (`True`).

    Raises:
        ShapeError: another number of elements.
        ArgumentError: `copy=False`, and the elements do not lie so.

    >>> reshape(Tensor.from_numpy(np.arange(6)), (2, -1)).shape
    Dim(2, 3)
    """
    wanted = _completed(x.shape, [operator.index(extent) for extent in shape])
    base, window = _viewable(x)
    if copy is not True and (base is x or copy is None):
        if wanted.numel == 0:
            return base.view(wanted, strides=wanted.strides())
        found = window.reshape(wanted)
        if found is not None:
            return over_window(base, found)
    if copy is False:
        raise ArgumentError(f"{x.spec} takes the shape {wanted} only as a copy", hint="copy=None, or True")
    return Tensor.from_numpy(base.plain().reshape(wanted))


def _completed(old: Dim, wanted: list[int]) -> Dim:
    free = [k for k, extent in enumerate(wanted) if extent == -1]
    if len(free) > 1:
        raise ShapeError(f"{len(free)} extents of {tuple(wanted)} are -1", hint="one can follow from the others")
    if free:
        rest = Dim(extent for extent in wanted if extent != -1).numel
        wanted[free[0]] = old.numel // rest if rest else 0
    shape = Dim(wanted)
    if shape.numel != old.numel:
        raise ShapeError(f"{old} of {old.numel} elements cannot become {shape} of {shape.numel}")
    return shape


def flatten(x: Tensor, /) -> Tensor:
    """Return all elements in row-major order along one axis: a view where the layout allows."""
    return reshape(x, (x.size,))


@attached
def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """Return a view whose axis k is axis `axes[k]` of `x`.

    Raises:
        ShapeError: the axes are not a permutation of those of `x`.
    """
    order = [x.shape.canonical_axis(axis) for axis in axes]
    if sorted(order) != list(range(x.shape.rank)):
        raise ShapeError(f"axes {tuple(axes)} are no permutation of the {x.shape.rank} axes of {x.shape}")
    x, window = _viewable(x)
    return over_window(x, window.permute(order))


@attached
def swapaxes(x: Tensor, /, first: int, second: int) -> Tensor:
    """Return a view with two axes swapped; raises `ShapeError` for an axis that is not there."""
    axes = list(range(x.shape.rank))
    one, other = x.shape.canonical_axis(first), x.shape.canonical_axis(second)
    axes[one], axes[other] = other, one
    return permute_dims(x, axes)


def moveaxis(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    """Return a view with the axes `source` at the places `destination`, the others in their order.

    Raises:
        ShapeError: an axis that is not there or twice, or two lists of unlike length.
    """
    sources, places = _axes(x.shape, source), _axes(x.shape, destination)
    if len(sources) != len(places):
        raise ShapeError(f"{len(sources)} axes {sources} cannot go to {len(places)} places {places}")
    order = [axis for axis in range(x.shape.rank) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return permute_dims(x, order)


def _axes(shape: Dim, given: int | Sequence[int]) -> tuple[int, ...]:
    axes = tuple(shape.canonical_axis(axis) for axis in ((given,) if isinstance(given, int) else given))
    if len(set(axes)) != len(axes):
        raise ShapeError(f"axes {given} of {shape} name one axis twice")
    return axes


def expand_dims(x: Tensor, /, axis: int | Sequence[int] = 0) -> Tensor:
    """Return a view with new axes of extent 1 at these positions of the result.

    Raises:
        BoundsError: a position outside of the result.
    """
    positions = (axis,) if isinstance(axis, int) else tuple(axis)
    rank = x.shape.rank + len(positions)
    wrong = [position for position in positions if not -rank <= position < rank]
    if wrong:
        raise BoundsError(f"axis {wrong[0]} is outside of a result of rank {rank}", hint=f"-{rank} <= axis < {rank}")
    new = {position % rank for position in positions}
    if len(new) != len(positions):
        raise ShapeError(f"axes {positions} of a result of rank {rank} name one axis twice")
    x, window = _viewable(x)
    return over_window(x, window.index([None if k in new else slice(None) for k in range(rank)]))


@attached
def squeeze(x: Tensor, /, axis: int | Sequence[int]) -> Tensor:
    """Return a view without these axes of extent 1.

    Raises:
        ShapeError: an axis that is not there, or whose extent is not 1.
    """
    gone = _axes(x.shape, axis)
    wrong = [k for k in gone if x.shape[k] != 1]
    if wrong:
        raise ShapeError(f"axis {wrong[0]} of {x.shape} has extent {x.shape[wrong[0]]} != 1")
    x, window = _viewable(x)
    return over_window(x, window.permute([k for k in range(window.rank) if k not in gone]))


def broadcast_to(x: Tensor, /, shape: Iterable[SupportsIndex]) -> Tensor:
    """Return a view stretched to `shape`: extents of 1 repeat without taking memory. Nobody can write to it.

    Raises:
        ShapeError: an extent differs and is not 1.
    """
    x, window = _viewable(x)
    return over_window(x, window.broadcast(Dim(shape)))


@attached
def diagonal(x: Tensor, /, *, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """Return a view of the diagonals over two axes, as a new last axis; `offset` > 0 lies above the main one.

    Raises:
        ShapeError: an axis that is not there, or one axis twice.
    """
    first, second = _axes(x.shape, (axis1, axis2))
    x, window = _viewable(x)
    return over_window(x, window.diagonal(offset, first, second))


def shares_memory(x: Tensor, y: Tensor, /) -> bool:
    """Whether a write to one may be seen in the other: their spans of bytes overlap, whoever owns the memory."""
    if x.size == 0 or y.size == 0:
        return False
    if DataType.STRING in (x.dtype, y.dtype):
        return x.storage is y.storage
    spans = [(t.address, t.address + t.layout.span_bytes(t.shape, t.dtype.itemsize)) for t in (x, y)]
    return x.place == y.place and max(start for start, _ in spans) < min(end for _, end in spans)
