"""The syntax of the package's modules, read once for all gates."""

from __future__ import annotations

import ast
import functools
import gc
from pathlib import Path


@functools.cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a file; `conftest` forgets all of them behind the last gate.

    No search for garbage goes through the trees: together they would take four times as long as to read them.
    """
    gc.disable()
    try:
        module = ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.enable()
    gc.freeze()
    return module


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    """Return all nodes of a file's syntax tree."""
    return list(ast.walk(tree(path)))
