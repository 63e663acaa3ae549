"""Libraries of operators that are loaded once somebody asks for operators; see `dyndep`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from caffe2.python import dyndep, lazy

_LAZY_IMPORTED_DYNDEPS: set[str] = set()
_handlers: list[Callable[[Exception], Any]] = []


def RegisterOpsLibrary(name: str) -> None:
    """Note a library; one that does not exist is passed over."""
    if os.path.exists(name):
        _LAZY_IMPORTED_DYNDEPS.add(name)
    else:
        print(f"Ignoring {name} as it is not a valid file.")


def SetErrorHandler(handler: Callable[[Exception], Any]) -> None:
    """Let a function be called with the error of a library that cannot be loaded."""
    _handlers[:] = [handler]


def GetImportedOpsLibraries() -> set[str]:
    """Load what was noted; return all that was loaded."""
    _import_lazy()
    return dyndep.GetImportedOpsLibraries()


def _import_lazy() -> None:
    while _LAZY_IMPORTED_DYNDEPS:
        name = _LAZY_IMPORTED_DYNDEPS.pop()
        try:
            dyndep.InitOpsLibrary(name, trigger_lazy=False)
        except Exception as error:
            for handler in _handlers:
                handler(error)


lazy.RegisterLazyImport(_import_lazy)
