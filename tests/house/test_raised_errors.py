"""Who raises an error that it holds by a name lets the name go: else error, traceback and frame hold each other.

What the frame holds (a reader with an open file, a workspace) would then live until Python searches for garbage.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.house.trees import nodes

ROOT = Path(__file__).parents[2]


def _own(function: ast.AST, held: frozenset[str] = frozenset()) -> Iterator[tuple[ast.Raise, frozenset[str]]]:
    """Yield what a function itself raises, and which names are let go around it: by `except`, or by `finally`."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        free = held
        if isinstance(node, ast.ExceptHandler) and node.name is not None:
            free = held | {node.name}
        if isinstance(node, ast.Try):
            free = held | {
                target.id
                for last in node.finalbody
                if isinstance(last, ast.Delete)
                for target in last.targets
                if isinstance(target, ast.Name)
            }
        if isinstance(node, ast.Raise):
            yield node, free
        yield from _own(node, free)


def kept(module: Iterable[ast.AST]) -> list[int]:
    """Return the lines that raise what a name of their function holds, and go on holding it."""
    functions = (one for one in module if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    return [
        raised.lineno
        for function in functions
        for raised, free in _own(function)
        if isinstance(raised.exc, ast.Name) and raised.exc.id[0].islower() and raised.exc.id not in free
    ]


@pytest.mark.slow
def test_no_error_is_held_by_its_own_traceback() -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for path in sorted((ROOT / "src").rglob("*.py"))
        if (lines := kept(nodes(path)))
    }
    assert found == {}, "raise it in a `try`, whose `finally` deletes the name"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("def f(error):\n    raise error", [2]),
        ("def f(error):\n    try:\n        raise error\n    finally:\n        del error", []),
        ("def f():\n    try:\n        g()\n    except Exception as error:\n        raise error", []),
        ("def f():\n    raise ValueError", []),
    ],
)
def test_what_is_held_is_noticed(source: str, lines: list[int]) -> None:
    assert kept(ast.walk(ast.parse(source))) == lines
