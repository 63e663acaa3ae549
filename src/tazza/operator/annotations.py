"""The annotations of a function as types, those included whose names exist for type checkers only.

`typing.get_type_hints` stops at a name that a module imports or defines under `if TYPE_CHECKING:`, and at an alias that
is a text (`Axis: TypeAlias = "int | None"`) in a union. Here the statements of that block are run when one of their
names is needed, and texts are evaluated wherever they are met.
"""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, ForwardRef

from tazza.runtime.cache import remembered


def annotations_of(owner: Callable[..., Any] | type) -> dict[str, Any]:
    """Return name -> type of the annotations of a function or class.

    Raises:
        NameError, TypeError: one cannot be evaluated.

    >>> annotations_of(annotations_of)["return"]
    dict[str, typing.Any]
    """
    bare: Any = inspect.unwrap(owner)
    found: dict[str, Any] = getattr(bare, "__annotations__", {})
    defined = getattr(bare, "__globals__", None)  # a function of another module may have been given a new home
    names = _Names(bare.__module__, _globals_of(bare.__module__) if defined is None else defined)
    return {name: _evaluated(value, names) for name, value in found.items()}


def _globals_of(module: str) -> dict[str, Any]:
    return getattr(sys.modules.get(module), "__dict__", {})


def _evaluated(annotation: Any, names: _Names) -> Any:
    text = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation  # as NamedTuple keeps them
    found = eval(text, {}, names) if isinstance(text, str) else text
    return types.NoneType if found is None else found


class _Names(dict[str, Any]):
    """What names mean to type checkers, where a function or class was defined."""

    def __init__(self, module: str, defined: dict[str, Any]) -> None:
        super().__init__()
        self._module: str = defined.get("__name__", module)
        self._defined = defined

    def __missing__(self, name: str) -> Any:
        found = self._defined
        value = found[name] if name in found else _for_type_checkers(self._module)[name]
        self[name] = _evaluated(value, self) if isinstance(value, str) else value
        return self[name]


@remembered("names for type checkers", entries=256)
def _for_type_checkers(module: str) -> dict[str, Any]:
    """Return what the blocks `if TYPE_CHECKING:` of a module define; nothing where its source is not there."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError, KeyError):
        return {}
    found = dict(vars(sys.modules[module]))
    for node in tree.body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), f"<names of {module} for type checkers>", "exec"), found)
    return found
