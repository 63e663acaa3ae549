"""What a tensor looks like as text: as NumPy prints arrays, and what is not usual about it besides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tazza.tensor.attached import attached
from tazza.tensor.layout import ROW_MAJOR
from tazza.tensor.place import CPUPlace

if TYPE_CHECKING:
    from tazza.tensor.tensor import Tensor

_PREFIX = "Tensor("


@attached
def text_of(x: Tensor) -> str:
    """Return the elements as NumPy's `str` writes them; NumPy's print options hold."""
    return str(x.plain()) if x.place.is_host else repr(x)


@attached
def representation(x: Tensor) -> str:
    """Return the elements as NumPy's `repr` writes them, the element type, and what is not usual.

    Told besides are a shape that the elements do not show, a place that is not the CPU, a layout that is not row-major,
    and the name. A tensor that nobody touched stays without memory.

    >>> from tazza.tensor.tensor import Tensor
    >>> x = Tensor.from_numpy(np.arange(6, dtype=np.int16).reshape(2, 3)); x.storage.holder = "weights"; x.T
    Tensor([[0, 3],
            [1, 4],
            [2, 5]], dtype=int16, layout=strides (1, 3), name='weights')
    """
    facts = [f"dtype={x.dtype.label}"]
    if x.place != CPUPlace():
        facts.append(f"place={x.place}")
    if x.layout != ROW_MAJOR:
        facts.append(f"layout={x.layout}")
    if x.storage.holder:
        facts.append(f"name={x.storage.holder!r}")
    told = ", ".join(facts)
    if not x.allocated or not x.place.is_host:
        why = "elsewhere" if x.allocated else "no memory yet"
        return f"{_PREFIX}<{why}>, shape={tuple(x.shape)}, {told})"
    array = x.plain()
    elements = np.array2string(array, separator=", ", prefix=_PREFIX)
    if array.size == 0 or array.size > np.get_printoptions()["threshold"]:
        told = f"shape={tuple(x.shape)}, {told}"
    return f"{_PREFIX}{elements}, {told})"
