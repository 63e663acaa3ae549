"""Record the signatures of Caffe2's Python modules; run by the Python that has the genuine Caffe2.

    PYTHON_OF_CAFFE2 tools/record_signatures.py tests/data/caffe2_signatures.json MODULE...

Of each public function and method what `inspect` tells of its parameters: names, kinds and defaults; of each value its
type. What a module imported from elsewhere is left out. What draws is recorded without the library that it draws with.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import types
from typing import Any, cast


def parameters(function: Any) -> list[str] | None:
    """Return the parameters of a function as texts, or None where nobody knows them."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    made: list[str] = []
    for one in signature.parameters.values():
        mark = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        default = getattr(one.default, "__qualname__", repr(one.default))
        made.append(mark + one.name + ("" if one.default is one.empty else "=" + default))
    return made


def members(cls: Any) -> dict[str, Any]:
    """Return the public methods of a class, and what it is made with."""
    found: dict[str, Any] = {}
    own = cast("dict[str, Any]", cls.__dict__)
    for name, member in own.items():
        if name.startswith("_") and name != "__init__":
            continue
        inner = getattr(member, "__func__", member)
        if inspect.isfunction(inner):
            found[name] = parameters(inner)
        elif isinstance(inner, property):
            found[name] = "property"
    return found


def described(name: str) -> dict[str, Any]:
    """Return what a module offers."""
    full = "caffe2.python." + name
    imported = importlib.import_module(full)
    module: types.ModuleType = vars(imported).get("wrapped", imported)
    found: dict[str, Any] = {}
    for key, value in sorted(vars(module).items()):
        elsewhere = getattr(value, "__module__", full) != full
        if key.startswith("_") or inspect.ismodule(value):
            continue
        if inspect.isclass(value):
            if not elsewhere:
                found[key] = members(value)
        elif inspect.isfunction(value):
            if not elsewhere:
                found[key] = parameters(value)
        elif callable(value):
            found[key] = None
        elif not elsewhere:
            found[key] = type(value).__name__
    return found


def stand_in(name: str) -> None:
    """Let a library that is missing be imported as an empty module."""
    try:
        importlib.import_module(name)
    except ImportError:
        sys.modules[name] = types.ModuleType(name)
        outer, _, own = name.rpartition(".")
        if outer:
            setattr(sys.modules[outer], own, sys.modules[name])


if __name__ == "__main__":
    for library in ("matplotlib", "matplotlib.cm", "matplotlib.pyplot"):
        stand_in(library)
    recorded = {name: described(name) for name in sys.argv[2:]}
    with open(sys.argv[1], "w") as file:
        json.dump(recorded, file, indent=1, sort_keys=True)
        file.write("\n")
