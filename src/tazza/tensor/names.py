"""Which module brings what: an index, so that a name imports one module, and an unknown one none.

It has the public names of `tazza.tensor` and `tazza.array`, which both lend all of them, and the entries of registries
that modules of these floors, and of those above, fill: functions of tensors (`attached.py`), stored forms of blobs
(`serializer.py`), so that a file is read by a process that has not met what is in it.
`names.json` and the two `__init__.pyi` (the names for type checkers) are generated, the former from `__all__` of all
modules and from the registries: `make index`. A test checks that they are up to date. Nobody edits them.
"""

from __future__ import annotations

import ast
import functools
import importlib
import json
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tazza.errors import DuplicateError
from tazza.registry import Registry

ROOT = "tazza"
PACKAGES = ("tazza.tensor", "tazza.array")
ABOVE = ("tazza.db", "tazza.ops")
"""Packages of floors above whose modules fill registries too."""
PATH = Path(__file__).with_name("names.json")

NAMES = "names"
"""The section of public names; each of the others is of a registry."""
_REGISTRIES: dict[str, Registry[str, Any]] = {}


@functools.cache
def index() -> dict[str, dict[str, str]]:
    """Return the stored index: section -> key -> module, relative to `tazza`; a module stands for itself."""
    return json.loads(PATH.read_text())


def homes() -> dict[str, str]:
    """Return the modules of the public names."""
    return index()[NAMES]


def find(name: str, package: str = PACKAGES[0]) -> object:
    """Import the module that has a name, and return what the name means; `package` was asked for it.

    Raises:
        AttributeError: no module has it; nothing is imported.
    """
    home = homes().get(name)
    if home is None:
        module = sys.modules.get(package)  # where Python looks for near names when it shows the error
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=module)
    module = importlib.import_module(f"{ROOT}.{home}")
    return module if home.rpartition(".")[2] == name else getattr(module, name)


def indexed(section: str, noun: str) -> Registry[str, Any]:
    """Return a registry that finds its keys in a section of the index."""

    def load(key: str) -> None:
        home = index()[section].get(key)
        if home is not None:
            importlib.import_module(f"{ROOT}.{home}")

    registry: Registry[str, Any] = Registry(noun, loader=load, listed=lambda: frozenset(index()[section]))
    _REGISTRIES[section] = registry
    return registry


def generate() -> dict[str, dict[str, str]]:
    """Import every module of the library, and return the index of what they bring.

    Raises:
        DuplicateError: two modules list one name.
    """
    names = _listed()
    for module in _modules(ABOVE):
        importlib.import_module(module)
    sections = {name: _registered(registry) for name, registry in sorted(_REGISTRIES.items())}
    return {NAMES: dict(sorted(names.items())), **sections}


def _listed() -> dict[str, str]:
    found: dict[str, str] = {}
    for module in _modules(PACKAGES):
        listed: list[str] | None = getattr(importlib.import_module(module), "__all__", None)
        _, _, home = module.partition(".")
        if listed is None:
            continue
        for name in (*listed, *([home.rpartition(".")[2]] if home.count(".") == 1 else [])):
            if name in found:
                raise DuplicateError(f"{name} stands in __all__ of {found[name]} and of {home}", hint="keep one")
            found[name] = home
    return found


def _modules(packages: Sequence[str]) -> Iterator[str]:
    for package in packages:
        root = importlib.import_module(package)
        yield from (info.name for info in pkgutil.walk_packages(root.__path__, f"{package}."))


def _registered(registry: Registry[str, Any]) -> dict[str, str]:
    """Return which module brought each entry; what others than these packages registered is not of it."""
    brought = {key: str(registry[key].__module__) for key in registry.registered()}
    packages = tuple(f"{one}." for one in (*PACKAGES, *ABOVE))
    inside = {key: home for key, home in brought.items() if home.startswith(packages)}
    return {key: home.partition(".")[2] for key, home in sorted(inside.items())}


def dump(found: dict[str, dict[str, str]]) -> str:
    """Return the text of the index file: one name a line, so that changes are easy to read."""
    return json.dumps(found, indent=1) + "\n"


def stub_path(package: str) -> Path:
    """Return what type checkers read instead of the `__init__.py` of a package."""
    return Path(__file__).parent.parent / package.rpartition(".")[2] / "__init__.pyi"


def dump_stub(names: dict[str, str]) -> str:
    """Return the text of both stubs: where each name comes from."""
    imports = {**_present(), **{name: f"{ROOT}.{home}" for name, home in names.items()}}
    lines = [
        f"from {_source(name, home)} import {name} as {name}"
        for name, home in sorted(imports.items(), key=lambda item: (item[1], item[0]))
    ]
    title = '"""Where each name comes from, for type checkers; generated by `make index`."""'
    order = "# ruff: noqa: I001 - sorted by name"
    return "\n".join([title, "", order, "", *lines, "", "Array = Tensor", ""])


def _source(name: str, home: str) -> str:
    """Return what a name is imported from: of a module that stands for itself, its package."""
    package, _, module = home.rpartition(".")
    return package if module == name else home


def _present() -> dict[str, str]:
    """Return name -> module of what `tazza.tensor` imports at once."""
    tree = ast.parse(Path(__file__).with_name("__init__.py").read_text())
    return {
        alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith(f"{PACKAGES[0]}.")
        for alias in node.names
        if node.module != __name__
    }
