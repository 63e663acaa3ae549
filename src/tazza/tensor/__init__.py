"""The tensor library, usable without nets: `import tazza.tensor as tt`.

What flows through a net (element types, places, shapes, layouts, memory, tensors, blobs) is imported with the package.
All else (functions of arrays, lazy expressions, sparse and quantized tensors, stored forms) is found in `_MODULES` when
one of its names is first used: each of those modules lists its public names in `__all__`. A name of the first module
that has it counts.
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
    current_allocator,
    default_allocator,
    using_allocator,
)
from tazza.tensor.blob import BLOB_TYPES, Blob, BlobType, blob_type
from tazza.tensor.dim import Dim, broadcast_shapes
from tazza.tensor.dtype import DataType
from tazza.tensor.layout import REORDERS, ROW_MAJOR, Layout, Opaque, Strided, channels_last
from tazza.tensor.place import CPUPlace, CUDAPlace, PinnedPlace, Place
from tazza.tensor.spec import TensorSpec, TypeSpec
from tazza.tensor.storage import Storage, StringStorage
from tazza.tensor.tensor import Tensor

Array = Tensor
"""One data type for nets and for people."""

__all__ = [
    "ALLOCATORS",
    "BLOB_TYPES",
    "REORDERS",
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
    "blob_type",
    "broadcast_shapes",
    "channels_last",
    "current_allocator",
    "default_allocator",
    "using_allocator",
]
"""The names that are here already; a type checker sees the others as well."""

if TYPE_CHECKING:
    from tazza.tensor import (
        comparison,
        creation,
        deferred,
        dispatch,
        elementwise,
        interchange,
        linear_algebra,
        manipulation,
        matrix,
        product,
        promotion,
        quantized,
        reduction,
        running,
        safetensors,
        searching,
        serialization,
        sparse,
        standard,
        transfer,
        views,
    )
    from tazza.tensor.allocators import arena, buddy, caching
    from tazza.tensor.allocators.arena import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.allocators.buddy import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.allocators.caching import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.comparison import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.creation import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.deferred import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.dispatch import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.elementwise import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.interchange import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.linear_algebra import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.manipulation import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.matrix import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.product import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.promotion import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.quantized import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.reduction import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.running import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.safetensors import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.searching import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.serialization import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.sparse import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.standard import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.transfer import *  # noqa: F403 - its __all__ says what
    from tazza.tensor.views import *  # noqa: F403 - its __all__ says what

    __all__ += comparison.__all__
    __all__ += product.__all__
    __all__ += safetensors.__all__
    __all__ += caching.__all__
    __all__ += arena.__all__
    __all__ += buddy.__all__
    __all__ += dispatch.__all__
    __all__ += creation.__all__
    __all__ += deferred.__all__
    __all__ += elementwise.__all__
    __all__ += interchange.__all__
    __all__ += linear_algebra.__all__
    __all__ += manipulation.__all__
    __all__ += matrix.__all__
    __all__ += promotion.__all__
    __all__ += quantized.__all__
    __all__ += reduction.__all__
    __all__ += running.__all__
    __all__ += searching.__all__
    __all__ += serialization.__all__
    __all__ += sparse.__all__
    __all__ += standard.__all__
    __all__ += transfer.__all__
    __all__ += views.__all__

_MODULES = (
    "standard",
    "creation",
    "views",
    "elementwise",
    "manipulation",
    "reduction",
    "comparison",
    "searching",
    "interchange",
    "transfer",
    "deferred",
    "promotion",
    "linear_algebra",
    "matrix",
    "running",
    "sparse",
    "quantized",
    "dispatch",
    "allocators.buddy",
    "allocators.arena",
    "allocators.caching",
    "safetensors",
    "product",
    "serialization",
)
"""Where other names are sought, in this order; the stored forms, which need the protobuf runtime, come last."""


def __getattr__(name: str) -> object:
    """Import modules until one has the name, and keep it."""
    # What is looked for in every module alike (`__path__`, `__wrapped__` ...) is no reason to import anything.
    if name.startswith("_") and name not in ("__array_api_version__", "__array_namespace_info__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module in _MODULES:
        found = importlib.import_module(f"{__name__}.{module}")
        if name in found.__all__:
            globals()[name] = value = getattr(found, name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Name everything, for which all modules are imported."""
    found = (importlib.import_module(f"{__name__}.{module}").__all__ for module in _MODULES)
    return sorted({*__all__, *(name for names in found for name in names)})
