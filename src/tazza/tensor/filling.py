"""How registries of this floor find the engines that fill them: by the name of a file, `engines/<engine>/<noun>.py`.

This floor imports nothing from above, and nobody keeps a list of engines. A registry whose `loader` calls
`load_fillers("product")` has every engine's file `product.py` imported, once in a process. A file that needs what is
not installed here is passed over, and its reason kept for who explains a choice.

State: `_missing`, noun -> engine -> reason; a noun's entry is complete before it is put in, under `_lock`.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import threading
from collections.abc import Mapping

from tazza.runtime.fork import freed_in_child

ENGINES = "tazza.engines"

_lock = freed_in_child(threading.RLock())
_missing: dict[str, dict[str, str]] = {}


def load_fillers(noun: str) -> Mapping[str, str]:
    """Import `tazza.engines.<engine>.<noun>` of every engine that has such a file.

    Returns:
        Engine -> reason of those whose file could not be imported.

    >>> load_fillers("a noun that no engine has")
    {}
    """
    found = _missing.get(noun)
    if found is None:
        with _lock:
            found = _missing.get(noun)
            if found is None:
                found = _missing[noun] = _load(noun)
    return found


def _load(noun: str) -> dict[str, str]:
    missing: dict[str, str] = {}
    for engine in _having(noun):
        try:
            importlib.import_module(f"{ENGINES}.{engine}.{noun}")
        except ImportError as error:
            missing[engine] = f"its file {noun}.py cannot be imported: {error}"
    return missing


def _having(noun: str) -> list[str]:
    """Return the engines with a file of that name; none of them is imported for it."""
    root = importlib.util.find_spec(ENGINES)
    if root is None or root.submodule_search_locations is None:
        return []
    folders = list(root.submodule_search_locations)
    packages = [found.name for found in pkgutil.iter_modules(folders) if found.ispkg]
    return [
        name
        for name in packages
        if noun in {inner.name for inner in pkgutil.iter_modules([f"{folder}/{name}" for folder in folders])}
    ]
