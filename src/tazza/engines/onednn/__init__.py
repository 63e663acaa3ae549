"""The engine `onednn`: kernels of oneDNN 3 through its C interface.

Importing this package loads neither the library nor its declarations. How the files build on each other:

    library      finds, checks and loads libdnnl.so.3; statuses, the engine, forks
    descriptor   memory descriptors: tensor layouts to oneDNN's and back
    primitive    attributes, primitive descriptors and primitives, and their cache
    launch       primitives as launches of tazza: arguments, scratch memory, native calls
    prepare      the decorator that all kernels share
    conv ...     kernels, in files named like the operator family
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from tazza.operator import engine
from tazza.runtime.fpmath import NARROW
from tazza.tensor import REORDERS, RESIZED, Opaque, Tensor
from tazza.tensor.layout import PLACES


def _unavailable() -> str | None:
    from tazza.engines.onednn.library import unavailable

    return unavailable()


def _version() -> str:
    from tazza.engines.onednn.library import version_text

    return version_text()


ONEDNN = engine(
    "onednn",
    "oneDNN 3: the vendor's kernels for x86-64",
    priority=20,
    unavailable=_unavailable,
    version=_version,
)


def _plain(tensor: Tensor) -> NDArray[Any]:
    from tazza.engines.onednn.shape.copy import plain_copy

    return plain_copy(tensor)


def _resized(layout: Opaque, count: int) -> Opaque | None:
    from tazza.engines.onednn.descriptor import resized

    return resized(layout, count)


def _places(layout: Opaque) -> str | None:
    from tazza.engines.onednn.descriptor import places

    return places(layout)


def _narrow(type: str) -> bool:
    if _unavailable() is not None:
        return False
    from tazza.engines.onednn.narrow import multiplies

    return multiplies(type)


NARROW.register("onednn", _narrow, help="bfloat16, where the processor multiplies it")
REORDERS.register("onednn", _plain, help="oneDNN's reorder to row-major")
RESIZED.register("onednn", _resized, help="plain ones, of narrow elements, whose images lie one after the other")
PLACES.register("onednn", _places, help="blocked ones")
