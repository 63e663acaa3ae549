"""Names of a package that are imported when they are first used: `import tazza` costs next to nothing.

Source: PEP 562 (`__getattr__` and `__dir__` of a module).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping


def lazy_names(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that lends names of other modules.

    Args:
        package: its `__name__`.
        homes: module -> the names that it lends; with a dot in front it is one of the package's own.

    >>> get, names = lazy_names("tazza.runtime", {".digest": ("digest_of",)})
    >>> get("digest_of").__module__
    'tazza.runtime.digest'
    >>> get("other")
    Traceback (most recent call last):
    AttributeError: module 'tazza.runtime' has no attribute 'other'
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> object:
        """Import the module that has a public name, and keep the name."""
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        value = getattr(importlib.import_module(home_of[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return get, names
