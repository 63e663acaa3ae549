"""Every operator type can be found: by its name in its family file, and as a row where a family is a table."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tazza.operator import SCHEMAS
from tazza.operator.index import FAMILIES
from tests.house.trees import tree

ROOT = Path(__file__).parent.parent.parent
OPS = ROOT / "src" / "tazza" / "ops"

DECLARING = {"schema", "fused"}
"""Functions that declare an operator type."""

DERIVING = {
    "optimizer/rows.py:on_rows": "derives an update of rows from the dense one, as `fused` derives from a base",
}
"""Functions of families that declare operator types for other files, with the reason."""


def _called(node: ast.AST) -> str | None:
    function = node.func if isinstance(node, ast.Call) else None
    return function.id if isinstance(function, ast.Name) else None


def _is_family(function: ast.FunctionDef) -> bool:
    return any(_called(one) == "family" for one in function.decorator_list)


def dialects(module: ast.Module) -> Iterator[str]:
    """Yield the functions of a file that declare operator types and are none of a table."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and not _is_family(node):
            if any(_called(inner) in DECLARING for inner in ast.walk(node)):
                yield node.name
        elif isinstance(node, ast.For | ast.While):
            if any(_called(inner) in DECLARING for inner in ast.walk(node)):
                yield f"line {node.lineno}"
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr):
            comprehensions = (ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp, ast.Lambda)
            inner = [one for one in ast.walk(node) if isinstance(one, comprehensions)]
            if any(_called(deep) in DECLARING for one in inner for deep in ast.walk(one)):
                yield f"line {node.lineno}"


def test_operator_types_are_declared_one_by_one_or_as_rows() -> None:
    found = [f"{path.relative_to(OPS)}:{where}" for path in sorted(OPS.rglob("*.py")) for where in dialects(tree(path))]
    assert sorted(found) == sorted(DERIVING)


PLANTED = {
    'def _declare(type):\n    return schema(type, "Y = X.")\nA = _declare("A")\n': ["_declare"],
    'for name in ("A", "B"):\n    schema(name, "Y = X.")\n': ["line 1"],
    'ALL = {name: schema(name, "Y = X.") for name in ("A", "B")}\n': ["line 1"],
    "def _relu(type, base):\n    made = fused(type, base, RELU)\n    return made\n": ["_relu"],
    '@family("A", "B")\ndef letters(type):\n    return schema(type, "Y = X.")\n': [],
    'A = schema("A", "Y = X.")\n': [],
}
"""Sources of families, and what of them is a dialect of its own."""


@pytest.mark.parametrize(("source", "found"), PLANTED.items())
def test_dialects_are_noticed(source: str, found: list[str]) -> None:
    assert list(dialects(ast.parse(source))) == found


@functools.cache
def _text(module: str) -> str:
    return (ROOT / "src" / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")


def unfound(type: str, text: str) -> bool:
    """Whether a search for a type leads to nothing in a text; a gradient operator is found by its forward one."""
    return not any(f'"{name}"' in text for name in (type, type.removesuffix("Gradient")))


def test_every_operator_is_found_by_its_name() -> None:
    ours = [SCHEMAS[type] for type in SCHEMAS if SCHEMAS[type].module.startswith(FAMILIES)]
    assert len(ours) > 300
    assert [one.type for one in ours if unfound(one.type, _text(one.module))] == []


def test_names_that_are_put_together_are_noticed() -> None:
    assert unfound("ReduceSum", 'f"Reduce{name}"')
    assert not unfound("ReduceSumGradient", '{"ReduceSum": SUM}')
