"""What flows through a net: element types, places, shapes, layouts, memory, tensors, blobs and their stored form.

The names of the stored form (`serialize` ...) need the protobuf runtime and are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tazza.tensor.allocation import (
    ALLOCATORS,
    AlignedAllocator,
    Allocation,
    Allocator,
    AllocatorStatistics,
    PinnedAllocator,
    allocator_of,
    default_allocator,
)
from tazza.tensor.blob import BLOB_TYPES, Blob, BlobType, blob_type
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.layout import REORDERS, ROW_MAJOR, Layout, Opaque, Strided, channels_last
from tazza.tensor.place import CPUPlace, CUDAPlace, PinnedPlace, Place
from tazza.tensor.spec import TensorSpec, TypeSpec
from tazza.tensor.storage import Storage, StringStorage
from tazza.tensor.tensor import Tensor

if TYPE_CHECKING:
    from tazza.tensor.serialization import (
        BlobAssembler,
        array_to_tensor_proto,
        deserialize,
        serialize,
        serialize_blob,
        tensor_proto_to_array,
    )

__all__ = [
    "ALLOCATORS",
    "BLOB_TYPES",
    "REORDERS",
    "ROW_MAJOR",
    "AlignedAllocator",
    "Allocation",
    "Allocator",
    "AllocatorStatistics",
    "Blob",
    "BlobAssembler",
    "BlobType",
    "CPUPlace",
    "CUDAPlace",
    "DataType",
    "Dim",
    "Layout",
    "Opaque",
    "PinnedAllocator",
    "PinnedPlace",
    "Place",
    "Storage",
    "Strided",
    "StringStorage",
    "Tensor",
    "TensorSpec",
    "TypeSpec",
    "allocator_of",
    "array_to_tensor_proto",
    "blob_type",
    "channels_last",
    "default_allocator",
    "deserialize",
    "serialize",
    "serialize_blob",
    "tensor_proto_to_array",
]


def __getattr__(name: str) -> object:
    """Load the stored form when one of its names, the only ones that are not here yet, is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("tazza.tensor.serialization"), name)
