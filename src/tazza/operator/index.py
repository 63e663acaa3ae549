"""Which module brings which operator, kernel and engine: an index, so that nothing is imported before it is needed.

The index (`index.json`) is generated from what the modules register: `python -m tazza.operator.index`. A test checks
that it is up to date. Nobody edits it.
"""

from __future__ import annotations

import functools
import importlib
import json
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict, cast

from tazza.errors import UnavailableError
from tazza.registry import Registry

PATH = Path(__file__).with_name("index.json")
FAMILIES, ENGINES = "tazza.ops", "tazza.engines"

ANY = "any"
"""The device of kernels that are for every kind of device: host work, whatever device its operator stands on."""

MAKERS: Registry[tuple[str, str], Callable[[str], None]] = Registry("maker of kernels for (device, engine)")
"""Device and engine -> function that registers its kernel for an operator type if it can make one.

Filled with the engine; for those whose kernels follow from what schemas say, so that no file names the operators."""


class Index(TypedDict):
    """Operator type -> family module; engine -> package; engine -> device -> operator type -> kernel module."""

    operators: dict[str, str]
    engines: dict[str, str]
    kernels: dict[str, dict[str, dict[str, str]]]


@functools.cache
def index() -> Index:
    """Return the stored index."""
    return json.loads(PATH.read_text())


def load_operator(type: str) -> None:
    """Import the family of an operator type; unknown types are left to the registry's own error."""
    module = index()["operators"].get(type)
    if module is not None:
        importlib.import_module(module)


def load_engine(name: str) -> None:
    """Import the package of an engine, which registers it."""
    package = index()["engines"].get(name)
    if package is not None:
        importlib.import_module(package)


def load_kernel(key: tuple[str, str, str]) -> None:
    """Import the module that registers a kernel: the family for `reference`, else the engine's file; or have it made.

    Raises:
        UnavailableError: the file cannot be imported; the engine's own reason should have said so before.
    """
    type, device, engine = key
    if engine == "reference":
        load_operator(type)
    module = index()["kernels"].get(engine, {}).get(device, {}).get(type)
    if module is None:
        if (device, engine) in MAKERS:
            MAKERS[device, engine](type)
        return
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise UnavailableError(f"engine {engine!r} cannot be loaded: {error}") from error


def modules(package: str) -> list[str]:
    """Return the names of all modules below a package; packages are imported on the way, modules are not."""
    root = importlib.import_module(package)
    return sorted(found.name for found in pkgutil.walk_packages(root.__path__, f"{package}."))


def generate() -> Index:
    """Import every family and engine, and return the index of what they registered."""
    from tazza.operator.engine import ENGINES as ENGINE_REGISTRY
    from tazza.operator.kernel import KERNELS
    from tazza.operator.registry import SCHEMAS

    found: Index = {"operators": {}, "engines": {}, "kernels": {}}
    for name in modules(FAMILIES) + modules(ENGINES):
        importlib.import_module(name)
    for engine in ENGINE_REGISTRY.registered():
        module = ENGINE_REGISTRY[engine].module
        if module.startswith(ENGINES):
            found["engines"][engine] = module
    for type in SCHEMAS.registered():
        if SCHEMAS[type].module.startswith(FAMILIES):
            found["operators"][type] = SCHEMAS[type].module
    for key in KERNELS.registered():
        type, device, engine = key
        if KERNELS[key].module.startswith(ENGINES):
            found["kernels"].setdefault(engine, {}).setdefault(device, {})[type] = KERNELS[key].module
    return found


def dump(found: Index) -> str:
    """Return the text of the index file: one operator a line, sorted, so that changes are easy to read."""
    ordered = {key: dict(sorted(entries.items())) for key, entries in cast("dict[str, dict[str, Any]]", found).items()}
    return json.dumps(ordered, indent=1, sort_keys=True) + "\n"
