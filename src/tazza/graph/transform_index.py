"""After which others each transform runs, and which operators it needs: an index, so that few are imported.

The index (`transforms.json`) is generated from what the modules of `graph/transforms/` declare: `make index`. A test
checks that it is up to date. Nobody edits it. Transforms of modules that users load say both themselves.
"""

from __future__ import annotations

import functools
import importlib
import json
import pkgutil
from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict

PATH = Path(__file__).with_name("transforms.json")
PACKAGE = "tazza.graph.transforms"


class Declared(TypedDict):
    """What a transform says of itself: names of others, and types of operators, one of which a match holds."""

    after: list[str]
    needs: list[str] | None


@functools.cache
def index() -> dict[str, Declared]:
    """Return the stored index."""
    return json.loads(PATH.read_text())


@functools.cache
def module_names() -> frozenset[str]:
    """Return the names of the modules of transforms, each of which brings the one of its name."""
    return frozenset(found.name for found in pkgutil.iter_modules(importlib.import_module(PACKAGE).__path__))


def generate() -> dict[str, Declared]:
    """Import every transform of tazza, and return what they declare."""
    from tazza.graph.transform import TRANSFORMS  # which reads the index

    found = {name: TRANSFORMS[name] for name in sorted(module_names())}
    return {name: declared_by(one.after, one.needs) for name, one in found.items()}


def declared_by(after: Iterable[str], needs: Iterable[str] | None) -> Declared:
    """Return the entry of a transform."""
    return {"after": sorted(after), "needs": None if needs is None else sorted(needs)}


def dump(found: dict[str, Declared]) -> str:
    """Return the text of the index file."""
    return json.dumps(found, indent=1, sort_keys=True) + "\n"
