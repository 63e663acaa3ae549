"""Extension modules: code, named by the user, that adds operators, kernels, flags or whatever else has a registry.

A module is a Python module (by entry point of the group `tazza.modules`, dotted name or path of a .py file) whose
decorators register things as it is imported, or a shared object whose native kernels are registered here
(`tazza_module.h`). Only what the caller names is loaded; nothing is ever loaded because a data file says so.

Changing state: `MODULES` and what loading registers, under `_lock`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import threading
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from tazza.data_class import dataclass
from tazza.errors import DuplicateError, FileError, InitError
from tazza.registry import Registry
from tazza.runtime import flags, init, native
from tazza.runtime.files import kind_of, resolved, shown
from tazza.runtime.fork import freed_in_child
from tazza.runtime.near_names import did_you_mean

GROUP = "tazza.modules"
OWN = "tazza."
CALLER = "load_module"
"""Who named a module that a program loads by itself."""
SHARED_OBJECT = re.compile(r"\.(so(\.\d+)*|dylib|dll)$")


@dataclass(frozen=True)
class Module:
    """A loaded module.

    `kind` is python or native. `registered` tells what its own code put into watched registries as it was loaded, in
    lines such as "native kernel ('Relu', 'mine')": the file, or all modules of the package that a dotted name begins
    with. What others registered that it was the first to import is none of its, parts of tazza included; nothing is
    there if the module had been imported before. `source` is who named it.
    """

    name: str
    kind: str
    path: str | None
    registered: tuple[str, ...]
    source: str = CALLER


@dataclass(frozen=True, slots=True)
class Installed:
    """A module that an installed package names: by which name, what it is called in Python, and of which package."""

    name: str
    module: str
    package: str

    @property
    def source(self) -> str:
        """Who names it, in words."""
        return f"entry point {self.name} of {self.package}"


WATCHED: Registry[str, Registry[Any, Any]] = Registry("watched registry")

MODULES: Registry[str, Module] = Registry("module")
_lock = freed_in_child(threading.RLock())


def watch(registry: Registry[Any, Any]) -> None:
    """Report new keys of `registry` in `Module.registered`; floors above call this for theirs.

    Raises:
        DuplicateError: another registry of the same noun is watched.
    """
    WATCHED.register(registry.noun, registry)


for _registry in (flags.FLAGS, init.EARLY_FUNCTIONS, init.FUNCTIONS, native.NATIVE_KERNELS):
    watch(_registry)


def load_module(name_or_path: str | os.PathLike[str], *, source: str = CALLER) -> Module:
    """Load a module and return its description; one that is loaded already is returned as it is.

    `source` says, for those who list modules, who named it.

    A path is what has a folder in it or ends in .py, .so, .dylib, .dll; other names are sought among the entry points
    of the group `tazza.modules` first, then as dotted names of Python modules.

    Raises:
        InitError: nothing of that name, a file that is no module (nothing of it is registered then), or a Python module
            that fails as it is imported (what it registered before stays).
        DuplicateError: a shared object brings a kernel that another one brought.
    """
    named = os.fspath(name_or_path)
    if isinstance(name_or_path, os.PathLike) or _is_path(named):
        path = Path(named)
        key, load = _file_loader(path)
    else:
        key, load = _python_loader(named)
    with _lock:
        found = MODULES.get(key)
        if found is None:
            found = replace(load(), source=source)
            MODULES.register(key, found)
        return found


def loaded_modules() -> list[Module]:
    """Return all modules that were loaded, sorted by name."""
    return sorted((MODULES[key] for key in MODULES), key=lambda module: (module.name, str(module.path)))


def _is_path(named: str) -> bool:
    separators = {os.sep, "/"} if os.altsep is None else {os.sep, os.altsep}
    return any(mark in named for mark in separators) or named.endswith(".py") or bool(SHARED_OBJECT.search(named))


def _file_loader(path: Path) -> tuple[str, Callable[[], Module]]:
    try:
        real, kind = resolved(path), kind_of(path)
    except FileError as error:
        raise InitError(f"module file {shown(path)}: {error.message}", hint=error.hint) from error
    if kind is None:
        raise InitError(
            f"module file {path} does not exist", hint="give its path, or the dotted name of an installed module"
        )
    if kind != "file":
        raise InitError(f"{path} is not a file", hint="name the .py file or the shared object itself")
    # the name that was given decides: libm.so may be a link to libm-2.31.so
    if SHARED_OBJECT.search(path.name):
        return str(real), lambda: _load_native(real)
    if path.suffix == ".py":
        return str(real), lambda: _load_python_file(real)
    raise InitError(
        f"file {path} is not a module: its name ends neither in .py nor as a shared object (.so, .dylib, .dll)"
    )


def _python_loader(name: str) -> tuple[str, Callable[[], Module]]:
    module = _entry_points().get(name, name)
    return module, lambda: _load_python(module)


def _load_native(path: Path) -> Module:
    kernels = native.read_native_module(path)
    taken = [
        (one.operator_type, one.engine) for one in kernels if (one.operator_type, one.engine) in native.NATIVE_KERNELS
    ]
    if taken:
        other = native.NATIVE_KERNELS[taken[0]].module
        raise DuplicateError(
            f"module {path} brings a native kernel {taken[0]} that {other} brought already",
            hint="load one of them, or compile one with another name of the engine",
        )
    for one in kernels:
        native.NATIVE_KERNELS.register((one.operator_type, one.engine), one, help=f"from {path}")
    registered = [f"{native.NATIVE_KERNELS.noun} {one.operator_type, one.engine}" for one in kernels]
    return Module(path.stem, "native", str(path), tuple(registered))


def import_file(path: Path) -> ModuleType:
    """Return what a Python file is as a module of its own; each call runs the file anew.

    Files of one name in two folders are two modules, and neither hides an installed module of that name.

    Raises:
        InitError: it cannot be imported, or fails as it is; nothing is left of the module then.
    """
    name = f"tazza_module_{path.stem}_{zlib.crc32(os.fsencode(path)):08x}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InitError(f"file {path} cannot be imported as a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _telling(str(path)):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _load_python_file(path: Path) -> Module:
    with _watching() as registered:
        name = import_file(path).__name__
    return Module(path.stem, "python", str(path), registered(lambda origin: origin == name))


def _load_python(name: str) -> Module:
    if not all(part.isidentifier() for part in name.split(".")):
        raise InitError(
            f"{name!r} is no path, no entry point of {GROUP} and no dotted name of a module", hint=_installed(name)
        )
    with _watching() as registered, _telling(name):
        module = importlib.import_module(name)
    package = name if name.startswith(OWN) else name.partition(".")[0]
    return Module(
        name,
        "python",
        getattr(module, "__file__", None),
        registered(lambda origin: origin == package or origin.startswith(f"{package}.")),
    )


@contextmanager
def _watching() -> Generator[Callable[[Callable[[str], bool]], tuple[str, ...]]]:
    """Give a function that tells, after the block, what modules of which a condition holds registered within."""
    before = {id(entry): entry for noun in WATCHED for _, entry in WATCHED[noun].brought()}

    def registered(holds: Callable[[str], bool]) -> tuple[str, ...]:
        found = [(noun, key, entry) for noun in WATCHED for key, entry in WATCHED[noun].brought()]
        return tuple(f"{noun} {key}" for noun, key, entry in found if id(entry) not in before and holds(entry.origin))

    yield registered


@contextmanager
def _telling(name: str) -> Generator[None]:
    """Turn whatever importing the module `name` raises into an InitError with the reason."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise InitError(f"there is no module {name!r}: {error}", hint=_installed(name)) from error
        raise InitError(f"module {name} needs a module that is not installed: {error}") from error
    except (Exception, SystemExit) as error:
        raise InitError(f"module {name} failed as it was imported: {type(error).__name__}: {error}") from error


def installed_modules() -> list[Installed]:
    """Return what installed packages name for tazza, by name; nothing of it is imported."""
    from importlib.metadata import entry_points  # here, since it takes longer to import than all of this floor

    found = [
        Installed(point.name, point.module, "an unknown package" if of is None else f"{of.name} {of.version}")
        for point in entry_points(group=GROUP)
        for of in (point.dist,)
    ]
    return sorted(found, key=lambda one: one.name)


def _entry_points() -> dict[str, str]:
    return {one.name: one.module for one in installed_modules()}


def _installed(name: str) -> str:
    names = list(_entry_points())
    near = did_you_mean(name, names)
    if near is not None:
        return near
    return f"installed modules: {', '.join(names)}" if names else "no installed package names a module for tazza"
