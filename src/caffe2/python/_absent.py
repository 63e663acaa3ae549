"""Modules that Caffe2 had and that are not there yet: scripts can import them, and what they call says so.

`_absent.txt` has a line for each, with its names. They are found last, behind all files: a module that comes is simply
there.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

PREFIX = "caffe2.python."


@functools.cache
def absent() -> dict[str, list[str]]:
    """Return the names of each module."""
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    parts = [line.partition(":") for line in text.splitlines()]
    return {module: names.split() for module, _, names in parts}


REASON = "tazza has no work for it"


def _refuse(path: str) -> Exception:
    from tazza.errors import UnavailableError

    return UnavailableError(
        f"{path} is not there yet: {REASON}", hint="docs/caffe2_names.md lists the modules that are"
    )


class _Absent(type):
    """A name whose work is not there: it can be imported and derived from, and that is all."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise _refuse(cls.__qualname__)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _refuse(f"{cls.__qualname__}.{name}")


class AbsentModules(MetaPathFinder, Loader):
    """Finds them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a module of the list."""
        del path, target
        name = fullname.removeprefix(PREFIX)
        if name == fullname or name not in absent():
            return None
        below = any(one.startswith(f"{name}.") for one in absent())
        return ModuleSpec(fullname, self, is_package=below)

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave that to Python."""

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its names; `__refusal__`, of it and of each, is what `tazza migrate` tells."""
        vars(module)["__refusal__"] = REASON
        for name in absent()[module.__name__.removeprefix(PREFIX)]:
            path = f"{module.__name__}.{name}"
            own = {"__module__": module.__name__, "__qualname__": path, "__refusal__": REASON}
            made = _Absent(name, (), own)
            setattr(module, name, made)


def install() -> None:
    """Let Python find them, once."""
    if not any(isinstance(finder, AbsentModules) for finder in sys.meta_path):
        sys.meta_path.append(AbsentModules())
