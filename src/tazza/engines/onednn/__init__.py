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

from collections.abc import Callable
from importlib import import_module
from typing import Any

from tazza.operator import engine
from tazza.runtime.fpmath import NARROW
from tazza.tensor import REORDERS, RESIZED
from tazza.tensor.layout import PLACES


def _late(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a module of this package, which is loaded when it is first called."""
    return lambda *given: getattr(import_module(f"{__name__}.{module}"), name)(*given)


_unavailable = _late("library", "unavailable")
ONEDNN = engine(
    "onednn",
    "oneDNN 3: the vendor's kernels for x86-64",
    priority=20,
    unavailable=_unavailable,
    version=_late("library", "version_text"),
)


def _narrow(type: str) -> bool:
    return _unavailable() is None and _late("narrow", "multiplies")(type)


NARROW.register("onednn", _narrow, help="bfloat16, where the processor multiplies it")
REORDERS.register("onednn", _late("shape.copy", "plain_copy"), help="oneDNN's reorder to row-major")
RESIZED.register(
    "onednn",
    _late("descriptor", "resized"),
    help="plain ones, of narrow elements, whose images lie one after the other",
)
PLACES.register("onednn", _late("descriptor", "places"), help="blocked ones")
