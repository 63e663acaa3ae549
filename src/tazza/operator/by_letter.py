"""Reference kernels that are one function for operators with unlike letters.

kernel(schema)(by_letter(schema, compute))    # compute(op, {"DATA": array, "Y": array})
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tazza.operator.schema import OpSchema
    from tazza.operator.view import OpView


def by_letter(
    schema: OpSchema, function: Callable[[OpView, Mapping[str, Any]], None], *, without: frozenset[str] = frozenset()
) -> Callable[..., None]:
    """Return `function(op, values by letter)` as a kernel on the letters of a schema, but for those `without`."""
    letters = [spec.name for spec in (*schema.inputs, *schema.outputs) if spec.name not in without]

    def compute(given: Mapping[str, Any]) -> None:
        function(given["op"], {letter: given[letter] for letter in letters})

    return with_names(("op", *letters), compute, function.__module__)


def with_names(names: Iterable[str], function: Callable[[Mapping[str, Any]], None], module: str) -> Callable[..., None]:
    """Return `function(values by name)` as a function of parameters with these names, defined in a module."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, kind) for name in names])

    def compute(*values: Any, **named: Any) -> None:
        function(signature.bind(*values, **named).arguments)

    compute.__dict__["__signature__"] = signature  # what `kernel` reads
    compute.__module__ = module
    return compute
