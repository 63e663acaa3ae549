"""What is known of a blob before, or without, its value: element type, extents, place and layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tazza.errors import ShapeError
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.layout import ROW_MAJOR, Layout
from tazza.tensor.place import CPUPlace, Place


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor without its elements. A `None` among the `dims` is an unknown extent, `dims=None` an unknown rank.

    >>> str(TensorSpec((2, None, 3), DataType.FLOAT)), TensorSpec((2, 3), DataType.INT64).nbytes
    ('float32[2, ?, 3]', 48)
    """

    dims: Sequence[int | None] | None
    dtype: DataType
    place: Place = CPUPlace()  # noqa: RUF009 - one immutable object per place
    layout: Layout = ROW_MAJOR

    def __post_init__(self) -> None:
        """Make the dims a `Dim` when all are known, else a tuple."""
        dims = self.dims
        if dims is None or type(dims) is Dim:
            return
        known = [extent for extent in dims if extent is not None]
        checked = Dim(known)
        object.__setattr__(self, "dims", checked if len(known) == len(dims) else tuple(dims))

    @property
    def known(self) -> bool:
        """Whether every extent is known."""
        return type(self.dims) is Dim

    @property
    def shape(self) -> Dim:
        """The extents.

        Raises:
            ShapeError: one of them, or the rank, is unknown.
        """
        if type(self.dims) is not Dim:
            raise ShapeError(f"the shape of {self} is not known yet", hint="ask `known` first")
        return self.dims

    @property
    def rank(self) -> int:
        """Number of extents, known or not.

        Raises:
            ShapeError: not even the rank is known.
        """
        if self.dims is None:
            raise ShapeError(f"the rank of {self} is not known yet", hint="ask whether `dims` is None first")
        return len(self.dims)

    @property
    def size(self) -> int:
        """Number of elements; raises `ShapeError` like `shape`."""
        return self.shape.numel

    @property
    def nbytes(self) -> int:
        """Bytes of the elements without any padding; raises `ShapeError` like `shape`."""
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        dims = "..." if self.dims is None else ", ".join("?" if d is None else str(d) for d in self.dims)
        place = "" if self.place == CPUPlace() else f" @ {self.place}"
        layout = "" if self.layout == ROW_MAJOR else f" ({self.layout})"
        return f"{self.dtype.label}[{dims}]{place}{layout}"


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """A blob that holds no tensor: the name of its type, as `Blob.type_name` gives it."""

    type_name: str

    def __str__(self) -> str:
        return self.type_name
