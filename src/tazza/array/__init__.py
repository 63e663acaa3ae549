"""What people write with tensors: `import tazza.array as ta`.

Operators, elementwise functions, views, lazy expressions, linear algebra, sparse and quantized matrices, and what the
Python array-API standard asks of a namespace, which this is. Tensors themselves, their types, places and layouts are
those of `tazza.tensor`, and have their names here too. A name imports the module that has it when it is first used.

>>> import tazza.array as ta
>>> a = ta.asarray([[1.0, 2], [3, 4]]); a.T @ a - 1
Tensor([[ 9., 13.],
        [13., 19.]], dtype=float32)
"""

from __future__ import annotations

from tazza import tensor
from tazza.tensor.names import find, homes

_PRESENT: frozenset[str] = frozenset(vars(tensor)["__all__"])

__all__: list[str] = []
"""Names are not imported with the package; a type checker sees them (`__init__.pyi`)."""


def __getattr__(name: str) -> object:
    """Import the module that has the name, and keep what it means."""
    # Python asks every module alike for `__path__`, `__wrapped__` and others: no reason even to read the index.
    if name.startswith("_") and not name.startswith("__array_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    value = getattr(tensor, name) if name in _PRESENT else find(name, __name__)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Name everything, for which nothing is imported."""
    return sorted({*_PRESENT, *homes()})
