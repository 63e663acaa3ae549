"""Which module declares which flag: an index, so that a flag can be set before anything else is imported.

The index (`flags.json`) is generated from what the modules of tazza declare: `make index`. A test checks that it is up
to date. Nobody edits it. Flags of modules that users load are known from then on.
"""

from __future__ import annotations

import functools
import importlib
import json
import pkgutil
from pathlib import Path
from typing import TypedDict

PATH = Path(__file__).with_name("flags.json")
PACKAGE = "tazza"


class Index(TypedDict):
    """Flag -> module that declares it; alias -> flag."""

    flags: dict[str, str]
    aliases: dict[str, str]


@functools.cache
def index() -> Index:
    """Return the stored index."""
    return json.loads(PATH.read_text())


def load_flag(name: str) -> None:
    """Import the module that declares a flag; unknown names are left to the registry's own error."""
    module = index()["flags"].get(name)
    if module is not None:
        importlib.import_module(module)


def load_alias(alias: str) -> None:
    """Import the module that declares the flag of an alias."""
    load_flag(index()["aliases"].get(alias, ""))


def generate() -> Index:
    """Import every module of tazza, and return the index of the flags that they declare."""
    from tazza.runtime.flags import FLAGS  # which reads the index

    root = importlib.import_module(PACKAGE)
    for found in pkgutil.walk_packages(root.__path__, f"{PACKAGE}."):
        importlib.import_module(found.name)
    declared = [FLAGS[name] for name in sorted(FLAGS.registered())]
    own = [one for one in declared if one.module.startswith(f"{PACKAGE}.")]
    return {
        "flags": {one.name: one.module for one in own},
        "aliases": {one.alias: one.name for one in own if one.alias is not None},
    }


def dump(found: Index) -> str:
    """Return the text of the index file: one flag a line, so that changes are easy to read."""
    return json.dumps(found, indent=1) + "\n"
