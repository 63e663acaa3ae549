"""Functions that what flows through nets needs, and that lie above it: looked up by name, brought by their modules.

A tensor has operators and methods of an array, a formula can be evaluated, rows of a gradient can be summed up: nets
need none of it, and what does it is written with tensors. So it attaches itself; the index (`names.py`) knows where.

>>> import numpy as np; from tazza.tensor.tensor import Tensor
>>> ATTACHED["to_place"](Tensor.from_numpy(np.arange(3)), "cpu").shape
Dim(3)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tazza.registry import Registry
from tazza.tensor.names import indexed

Function = TypeVar("Function", bound=Callable[..., Any])

ATTACHED: Registry[str, Callable[..., Any]] = indexed("functions", "function of tensors")
"""By the function's own name."""


def attached(function: Function) -> Function:
    """Let lower modules find a function by its name."""
    ATTACHED.register(function.__name__, function)
    return function
