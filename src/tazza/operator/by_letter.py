"""Reference kernels of families that are tables: one function for operators with unlike letters.

kernel(schema)(by_letter(schema, compute))    # compute(op, {"DATA": array, "Y": array})
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tazza.operator.schema import OpSchema
    from tazza.operator.view import OpView


def by_letter(
    schema: OpSchema, function: Callable[[OpView, Mapping[str, Any]], None], *, without: frozenset[str] = frozenset()
) -> Callable[..., None]:
    """Return `function(op, values by letter)` as a kernel on the letters of a schema, but for those `without`."""
    letters = [spec.name for spec in (*schema.inputs, *schema.outputs) if spec.name not in without]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    known = inspect.Signature([inspect.Parameter(name, kind) for name in ("op", *letters)])

    def compute(*values: Any, **named: Any) -> None:
        given = known.bind(*values, **named).arguments
        function(given["op"], {letter: given[letter] for letter in letters})

    compute.__dict__["__signature__"] = known
    compute.__module__ = function.__module__
    compute.__qualname__ = function.__qualname__
    return compute
