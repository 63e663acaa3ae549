"""Libraries of operators in C++, which tazza cannot run: those that do not exist are passed over, as they were."""

from __future__ import annotations

import os

from tazza.errors import UnavailableError

_IMPORTED_DYNDEPS: set[str] = set()


def InitOpsLibrary(name: str, trigger_lazy: bool = True) -> None:
    """Pass over a library that does not exist.

    Raises:
        UnavailableError: it exists: its operators are for the framework that it was compiled with.
    """
    del trigger_lazy
    if not os.path.exists(name):
        print(f"Ignoring {name} as it is not a valid file.")
        return
    raise UnavailableError(
        f"library {name!r} holds operators compiled for Caffe2, which tazza cannot call",
        hint="write them in Python: net.Python(f), or a schema and a kernel in a module of tazza",
    )


def GetImportedOpsLibraries() -> set[str]:
    """Return the libraries that were loaded: none."""
    return _IMPORTED_DYNDEPS
