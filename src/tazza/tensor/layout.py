"""How the elements of a tensor lie in memory: with strides, or in a form that only one engine understands.

The shape of a tensor is always the logical one; a vendor's blocked form is a property of it, not a copy. `REORDERS` is
filled by the engines: whoever brings an opaque layout registers the function that makes plain data of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tazza.data_class import dataclass
from tazza.errors import ShapeError, UnsupportedError
from tazza.registry import Registry
from tazza.tensor.dim import Dim

if TYPE_CHECKING:
    from tazza.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Layout:
    """Base of the two layouts."""

    def span_bytes(self, dims: Dim, itemsize: int) -> int:
        """Bytes from the first to the last element of a tensor of shape `dims` with this layout."""
        raise NotImplementedError

    @property
    def whole(self) -> Layout:
        """The layout for elements that shall not be rounded: this one, or the one that comes closest."""
        return self


@dataclass(frozen=True, slots=True)
class Strided(Layout):
    """Element i lies at sum(i[k] * strides[k]), in *elements*; None is row-major of whatever shape.

    Use `Strided.of` for given strides, so that row-major ones become `ROW_MAJOR` and compare equal.
    """

    strides: tuple[int, ...] | None = None

    @staticmethod
    def of(dims: Sequence[int], strides: Sequence[int]) -> Strided:
        """Return the layout of these strides for a tensor of shape `dims`.

        Raises:
            ShapeError: another rank, or a negative stride.

        >>> Strided.of((2, 3), (3, 1)) is ROW_MAJOR
        True
        """
        shape = Dim(dims)
        if len(strides) != len(shape):
            raise ShapeError(f"{len(strides)} strides {tuple(strides)} do not fit {shape} of rank {len(shape)}")
        if any(step < 0 for step in strides):
            raise ShapeError(f"strides {tuple(strides)} have a value < 0", hint="copy the data into positive order")
        # The step of an axis of extent 0 or 1 is never taken, so it does not tell two layouts apart.
        plain = zip(strides, shape.strides(), shape, strict=True)
        if shape.numel == 0 or all(mine == dense or extent == 1 for mine, dense, extent in plain):
            return ROW_MAJOR
        return Strided(tuple(strides))

    def steps(self, dims: Dim) -> tuple[int, ...]:
        """Strides in elements for the shape `dims`."""
        return dims.strides() if self.strides is None else self.strides

    def span_bytes(self, dims: Dim, itemsize: int) -> int:
        """Bytes from the first element to the end of the last; 0 when there is none."""
        if self.strides is None or dims.numel == 0:
            return dims.numel * itemsize
        last = sum((extent - 1) * step for extent, step in zip(dims, self.strides, strict=True))
        return (last + 1) * itemsize

    def overlaps_itself(self, dims: Dim) -> bool:
        """Whether two elements may be one in memory: true where no order of the axes nests their steps."""
        if self.strides is None or dims.numel == 0:
            return False
        reach = 1  # elements that the axes up to here span
        for step, extent in sorted(zip(self.strides, dims, strict=True)):
            if extent > 1 and step < reach:
                return True
            reach += step * (extent - 1)
        return False

    def __str__(self) -> str:
        return "row-major" if self.strides is None else f"strides {self.strides}"

    def __repr__(self) -> str:
        return "Strided(row-major)" if self.strides is None else f"Strided({self.strides})"


@dataclass(frozen=True, slots=True)
class Opaque(Layout):
    """A form of `engine` that `descriptor` (hashable, its own business) describes; it takes `nbytes` with padding.

    `derived`: elements that are brought into it do not come back unrounded. So copies lie in it, and what a kernel
    computes; a blob that holds something is moved into it only where what was rounded is kept beside (`residue`).
    `nearest` is the strided layout with the elements in the same order, None where there is none: what whoever does not
    know the form would rather read.
    """

    engine: str
    descriptor: Any
    nbytes: int
    derived: bool = False
    nearest: Strided | None = None

    def span_bytes(self, dims: Dim, itemsize: int) -> int:
        """Bytes of the whole form, whatever the shape."""
        return self.nbytes

    @property
    def whole(self) -> Layout:
        """This one, unless it is derived: then the nearest strided one, or row-major."""
        if not self.derived:
            return self
        return ROW_MAJOR if self.nearest is None else self.nearest

    def __str__(self) -> str:
        return f"{self.engine} layout"


ROW_MAJOR = Strided()

REORDERS: Registry[str, Callable[[Tensor], npt.NDArray[Any]]] = Registry("reorder of engine")

RESIZED: Registry[str, Callable[[Opaque, int], Opaque | None]] = Registry("other number of images for engine")
"""Engine -> function that returns how a layout lies for another first extent, None where parts are no spans of it."""

PLACES: Registry[str, Callable[[Opaque], str | None]] = Registry("places of elements for engine")
"""Engine -> function that says where a layout has each element, in words that are the same in every process.

None where its memory holds anything but elements of the tensor's own type, one by one, and zeros.
"""


def words_of(layout: Layout, dims: Dim, itemsize: int) -> str | None:
    """Return words for where a layout has each element; None where memory holds more than these and zeros.

    What is done to memory element by element, such as a sum, is done to the tensors that lie in it where words agree.

    >>> words_of(channels_last((2, 3, 5)), Dim((2, 3, 5)), 4)
    'strides (15, 1, 3)'
    """
    if isinstance(layout, Opaque):
        say = PLACES.get(layout.engine)
        return None if layout.derived or say is None else say(layout)
    gaps = layout.span_bytes(dims, itemsize) != dims.numel * itemsize
    overlaps = isinstance(layout, Strided) and layout.overlaps_itself(dims)
    return None if gaps or overlaps else str(layout)


def refuse_plain(engine: str, done: str, *, help: str) -> None:
    """Register that what an engine has made of weights is not brought back: who wants them looks at the blob itself.

    `done` ends the sentence "W float32[...] has been ...".
    """

    def refuse(tensor: Tensor) -> npt.NDArray[Any]:
        raise UnsupportedError(f"{tensor.spec} has been {done}", hint="look at the blob of W")

    REORDERS.register(engine, refuse, help=help)


def channels_last(dims: Sequence[int]) -> Strided:
    """Return the layout of a tensor of shape (N, C, spatial ...) whose channels are dense in memory.

    Raises:
        ShapeError: fewer than two axes.

    >>> channels_last((2, 3, 5, 7)).strides
    (105, 1, 21, 3)
    """
    if len(dims) < 2:
        raise ShapeError(f"{Dim(dims)} of rank {len(dims)} < 2 has no channels")
    steps = Dim((dims[0], *dims[2:], dims[1])).strides()
    return Strided.of(dims, (steps[0], steps[-1], *steps[1:-1]))
