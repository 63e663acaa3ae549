"""What is known of a blob before, or without, its value: element type, extents, place, layout, what integers mean."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tazza.data_class import dataclass
from tazza.errors import ShapeError
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.layout import ROW_MAJOR, Layout
from tazza.tensor.place import CPUPlace, Place
from tazza.tensor.quantization import Quantization

MOST_AXES = 64
"""Rank that a tensor can have: that of a NumPy array."""
_MOST_BYTES = 2**63
_SURELY_FITS = 2**59  # elements of up to 16 bytes


def size_obstacle(dims: Sequence[int], itemsize: int) -> str | None:
    """Return why there can be no tensor of these extents, or None; an extent of 0 does not make up for others.

    >>> size_obstacle((2**62, 2**62, 0), 4)
    'extents (4611686018427387904, 4611686018427387904, 0) are for 2**63 bytes or more'
    """
    if len(dims) > MOST_AXES:
        return f"rank {len(dims)} > {MOST_AXES}"
    if math.prod(dims) * itemsize >= _MOST_BYTES or (
        0 in dims and math.prod(extent for extent in dims if extent) * itemsize >= _MOST_BYTES
    ):
        return f"extents {tuple(dims)} are for 2**63 bytes or more"
    return None


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor without its elements. A `None` among the `dims` is an unknown extent, `dims=None` an unknown rank.

    `quantization` says what the integers of a quantized tensor stand for; None: nothing but themselves.

    Raises:
        ShapeError: an extent is below 0, there are more than 64, or the bytes are 2**63 or more.
        ShapeError, ArgumentError: the quantization does not fit the extents or the element type.

    >>> str(TensorSpec((2, None, 3), DataType.FLOAT)), TensorSpec((2, 3), DataType.INT64).nbytes
    ('float32[2, ?, 3]', 48)
    """

    dims: Sequence[int | None] | None
    dtype: DataType
    place: Place = CPUPlace()
    layout: Layout = ROW_MAJOR
    quantization: Quantization | None = None

    def __post_init__(self) -> None:
        """Make the dims a `Dim` when all are known, else a tuple; names of element types become these."""
        dims = self.dims
        if type(self.dtype) is not DataType:
            object.__setattr__(self, "dtype", DataType.of(self.dtype))
        if self.quantization is not None:
            self.quantization.check(dims, self.dtype)
        if dims is None:
            return
        if type(dims) is Dim:
            known = dims
        else:
            known = Dim(extent for extent in dims if extent is not None)
            object.__setattr__(self, "dims", known if len(known) == len(dims) else tuple(dims))
        if 0 < math.prod(known) < _SURELY_FITS and len(known) <= MOST_AXES:
            return
        obstacle = size_obstacle(known, self.dtype.itemsize)
        if obstacle is not None:
            raise ShapeError(
                f"no tensor: {obstacle}", hint=f"a tensor has up to {MOST_AXES} axes, and less than 2**63 bytes"
            )

    @property
    def shape_known(self) -> bool:
        """Whether every extent is known."""
        return type(self.dims) is Dim

    @property
    def shape(self) -> Dim:
        """The extents.

        Raises:
            ShapeError: one of them, or the rank, is unknown.
        """
        if type(self.dims) is not Dim:
            raise ShapeError(f"the shape of {self} is not known yet", hint="ask `shape_known` first")
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

    @property
    def span_bytes(self) -> int:
        """Bytes of the memory that it takes, padding included; raises `ShapeError` like `shape`."""
        return self.layout.span_bytes(self.shape, self.dtype.itemsize)

    def some_rows(self) -> TensorSpec:
        """Return what some of its rows are, nobody knows how many.

        >>> str(TensorSpec((2, 3), DataType.FLOAT).some_rows())
        'float32[?, 3]'
        """
        return TensorSpec(None if self.dims is None else (None, *self.dims[1:]), self.dtype)

    def __str__(self) -> str:
        dims = "..." if self.dims is None else ", ".join("?" if d is None else str(d) for d in self.dims)
        place = "" if self.place == CPUPlace() else f" @ {self.place}"
        layout = "" if self.layout == ROW_MAJOR else f" ({self.layout})"
        quantization = "" if self.quantization is None else f" ({self.quantization})"
        return f"{self.dtype.label}[{dims}]{place}{layout}{quantization}"


@dataclass(frozen=True, slots=True)
class Field:
    """One of the blobs that a blob holds, such as a column of a reader; None: nothing is known of it."""

    name: str
    spec: TensorSpec | TypeSpec | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """What is in a blob that holds no tensor: its fields in order, and how many records it takes. None: unknown."""

    fields: tuple[Field, ...] | None = None
    capacity: int | None = None

    def __str__(self) -> str:
        fields = "..." if self.fields is None else ", ".join(f"{one.name}: {one.spec}" for one in self.fields)
        return f"[{fields}]" if self.capacity is None else f"[{fields}; at most {self.capacity}]"


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """A blob that holds no tensor: the name of its type, as `Blob.type_name` gives it, and what is in it.

    >>> print(TypeSpec("std::shared_ptr<BlobsQueue>", Content((Field("image"), Field("label")), 8)))
    std::shared_ptr<BlobsQueue>[image: None, label: None; at most 8]
    """

    type_name: str
    content: Content | None = None

    def __str__(self) -> str:
        return self.type_name if self.content is None else f"{self.type_name}{self.content}"
