"""What flows through a net: element types, places, shapes, layouts, memory, tensors, blobs, stored forms.

It is usable without nets. What people write with tensors as arrays is the floor above, `tazza.array`, which has the
names of this package too. Its names are found here as well, as `tazza.tensor.matmul`: by an index (`names.json`), which
is generated from `__all__` of all modules, so that a name imports its module when it is first used.
"""

from __future__ import annotations

from tazza.tensor.allocation import (
    ALLOCATORS,
    AlignedAllocator,
    Allocation,
    Allocator,
    AllocatorStatistics,
    PinnedAllocator,
    allocator_of,
    current_allocator,
    default_allocator,
    using_allocator,
)
from tazza.tensor.blob import BLOB_TYPES, Blob, BlobType, blob_type
from tazza.tensor.dim import Dim, broadcast_shapes
from tazza.tensor.dtype import DataType
from tazza.tensor.layout import REORDERS, RESIZED, ROW_MAJOR, Layout, Opaque, Strided, channels_last, refuse_plain
from tazza.tensor.names import find, homes
from tazza.tensor.place import CPUPlace, CUDAPlace, PinnedPlace, Place
from tazza.tensor.quantization import Int8Tensor, PerChannel, PerRow, PerTensor, Quantization
from tazza.tensor.spec import Content, Field, TensorSpec, TypeSpec
from tazza.tensor.storage import Storage, StringStorage
from tazza.tensor.tensor import Tensor

Array = Tensor
"""One data type for nets and for people."""

__all__ = [
    "ALLOCATORS",
    "BLOB_TYPES",
    "REORDERS",
    "RESIZED",
    "ROW_MAJOR",
    "AlignedAllocator",
    "Allocation",
    "Allocator",
    "AllocatorStatistics",
    "Array",
    "Blob",
    "BlobType",
    "CPUPlace",
    "CUDAPlace",
    "Content",
    "DataType",
    "Dim",
    "Field",
    "Int8Tensor",
    "Layout",
    "Opaque",
    "PerChannel",
    "PerRow",
    "PerTensor",
    "PinnedAllocator",
    "PinnedPlace",
    "Place",
    "Quantization",
    "Storage",
    "Strided",
    "StringStorage",
    "Tensor",
    "TensorSpec",
    "TypeSpec",
    "allocator_of",
    "blob_type",
    "broadcast_shapes",
    "channels_last",
    "current_allocator",
    "default_allocator",
    "refuse_plain",
    "using_allocator",
]
"""The names that are here already; a type checker sees the others as well (`__init__.pyi`)."""


def __getattr__(name: str) -> object:
    """Import the module that has the name, and keep what it means."""
    # Python asks every module alike for `__path__`, `__wrapped__` and others: no reason even to read the index.
    if name.startswith("_") and not name.startswith("__array_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    globals()[name] = value = find(name)
    return value


def __dir__() -> list[str]:
    """Name everything, for which nothing is imported."""
    return sorted({*__all__, *homes()})
