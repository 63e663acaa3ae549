"""Modules that Caffe2 had and that are not there yet: scripts can import them, and what they call says so.

`_absent.txt` has a line for each, with its names, and what these take where it is known. They are found last, behind
all files: a module that comes is simply there.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

PREFIX = "caffe2.python."


@functools.cache
def _offered() -> dict[str, dict[str, str]]:
    """Return by module and name what is taken: `(a, b=1)`, or nothing where nobody knows."""
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        module, _, names = line.partition(":")
        parts = [name.strip().partition("(") for name in names.split(";") if name.strip()]
        found[module] = {name: mark + taken for name, mark, taken in parts}
    return found


def absent() -> dict[str, list[str]]:
    """Return the names of each module."""
    return {module: list(names) for module, names in _offered().items()}


REASONS = {"onnx": "tazza reads and writes no ONNX", "trt": "tazza drives no TensorRT"}
"""Why a module, or one within it, has no work."""


def _reason(path: str) -> str:
    return REASONS.get(path.removeprefix(PREFIX).partition(".")[0], "tazza has no work for it")


def _signature(taken: str) -> inspect.Signature:
    """Return what `(a, b=1, **rest)` says.

    >>> _signature("(a, b=1, **rest)")
    <Signature (a, b=1, **rest)>
    """
    (function,) = ast.parse(f"def f{taken}: pass").body
    assert isinstance(function, ast.FunctionDef)
    given, kind = function.args, inspect.Parameter
    values = [ast.literal_eval(value) for value in given.defaults]
    missing = [kind.empty] * (len(given.args) - len(values))
    made = [
        kind(one.arg, kind.POSITIONAL_OR_KEYWORD, default=value)
        for one, value in zip(given.args, [*missing, *values], strict=True)
    ]
    if given.vararg is not None:
        made.append(kind(given.vararg.arg, kind.VAR_POSITIONAL))
    if given.kwarg is not None:
        made.append(kind(given.kwarg.arg, kind.VAR_KEYWORD))
    return inspect.Signature(made)


def _refuse(path: str) -> Exception:
    from tazza.errors import UnavailableError

    return UnavailableError(
        f"{path} is not there yet: {_reason(path)}", hint="docs/caffe2_names.md lists the modules that are"
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
        reason = _reason(module.__name__)
        vars(module)["__refusal__"] = reason
        for name, taken in _offered()[module.__name__.removeprefix(PREFIX)].items():
            path = f"{module.__name__}.{name}"
            own: dict[str, Any] = {"__module__": module.__name__, "__qualname__": path, "__refusal__": reason}
            if taken:
                own["__signature__"] = _signature(taken)
            made = _Absent(name, (), own)
            setattr(module, name, made)


def install() -> None:
    """Let Python find them, once."""
    if not any(isinstance(finder, AbsentModules) for finder in sys.meta_path):
        sys.meta_path.append(AbsentModules())
