"""Record the plain values of Caffe2's Python modules and classes; run by the Python that has the genuine Caffe2.

    PYTHON_OF_CAFFE2 tools/record_values.py tests/data/caffe2_values.json

Of each module that can be imported, and of each public class that it defines, the public names that hold texts,
numbers, truths or nothing, and tuples, lists, sets and tables of these: what programs compare with, or hand on. Sets
are sorted. Tests and tools are left out, and how the extension was compiled.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import types
from pathlib import Path
from typing import Any, cast

from tools.record_absent import NOT_OFFERED
from tools.record_signatures import stand_in

MARKED = ("tuple", "set", "table")


def plain(value: Any) -> Any:
    """Return a value in JSON's terms, those of `MARKED` as `[kind, ...]`; raise ValueError where it is no plain one."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return repr(value)
    if type(value) is list:
        return [plain(one) for one in cast("list[Any]", value)]
    if type(value) is tuple:
        return [MARKED[0], *map(plain, cast("tuple[Any, ...]", value))]
    if type(value) in (set, frozenset):
        return [MARKED[1], *sorted(map(plain, cast("set[Any]", value)), key=repr)]
    if type(value) is dict:
        table = cast("dict[Any, Any]", value)
        return [MARKED[2], *sorted(([plain(key), plain(one)] for key, one in table.items()), key=repr)]
    raise ValueError(f"{value!r} is no plain value")


def values(names: dict[str, Any]) -> dict[str, Any]:
    """Return the public names that hold plain values, with these."""
    found: dict[str, Any] = {}
    for name, value in sorted(names.items()):
        if not name.startswith("_"):
            try:
                found[name] = plain(value)
            except ValueError:
                continue
    return found


def described(module: str) -> dict[str, dict[str, Any]]:
    """Return the values of a module, under no name, and of each of its classes, under the name of it."""
    imported = importlib.import_module(module)
    own: types.ModuleType = vars(imported).get("wrapped", imported)
    names: dict[str, Any] = dict(vars(own))
    found = {"": values(names)}
    for name, value in sorted(names.items()):
        if inspect.isclass(value) and value.__module__ == module and not name.startswith("_"):
            found[name] = values(dict(vars(value)))
    return {name: one for name, one in found.items() if one}


def modules() -> list[str]:
    """Return Caffe2's modules in Python, but for its tests, by name."""
    import caffe2.python as root

    folder = Path(root.__path__[0])
    parts = sorted(file.relative_to(folder).with_suffix("").parts for file in folder.rglob("*.py"))
    left_out = {"__init__", "build", *NOT_OFFERED}
    return [".".join(("caffe2.python", *one)) for one in parts if not left_out & {*one} and "test" not in "".join(one)]


if __name__ == "__main__":
    for library in ("matplotlib", "matplotlib.cm", "matplotlib.pyplot"):
        stand_in(library)
    recorded: dict[str, dict[str, dict[str, Any]]] = {}
    for one in modules():
        try:
            found_in_it = described(one)
        except Exception as error:
            print(one, type(error).__name__, error, file=sys.stderr)
            continue
        if found_in_it:
            recorded[one] = found_in_it
    with open(sys.argv[1], "w") as file:
        json.dump(recorded, file, indent=1, sort_keys=True)
        file.write("\n")
