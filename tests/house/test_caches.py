"""What is kept so that it need not be made again is a `Cache`, or `remembered`: with a name, a bound and counts.

Other forms are told by what they are. `functools.lru_cache` and `OrderedDict` are nowhere but in `runtime/cache.py`,
and in allocators, whose idle memory is listed as theirs. `functools.cache` is for functions of element types alone, or
without parameters: they have few results. A dict of a module is a cache if its keys are more than names, numbers, types
of elements and places, of which there are as many as somebody declared. A weak dictionary keeps nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.test_gates import PACKAGE
from tests.house.trees import nodes, tree

HOME = PACKAGE / "runtime" / "cache.py"
ALLOCATORS = PACKAGE / "tensor" / "allocators"
WORDS = "lru_cache", "OrderedDict", "@cache", "functools.cache", ": dict["
"""One of them is in every file with another form."""
CACHE = "cache", "functools.cache"
FEW = {"str", "int", "bool", "tuple", "type", "DataType", "Place"}
"""Types of keys of which there are as many as were declared."""


def _forms(module: list[ast.AST], top: list[ast.stmt], *, ordered: bool = False) -> Iterator[tuple[int, str]]:
    """Yield lines with another form of cache, and what it is."""
    for node in module:
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name == "lru_cache" or (name == "OrderedDict" and not ordered):
            assert isinstance(node, (ast.Attribute, ast.Name))
            yield node.lineno, name
        if (
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and node.decorator_list
            and not _of_types(node.args)
        ):
            if any(ast.unparse(one) in CACHE for one in node.decorator_list):
                yield node.lineno, f"cache of {node.name}({ast.unparse(node.args)})"
    for statement in top:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.annotation, ast.Subscript):
            kind = statement.annotation
            keys = kind.slice.elts[0] if isinstance(kind.slice, ast.Tuple) else kind.slice
            if ast.unparse(kind.value) == "dict" and not _few(keys) and _is_empty(statement.value):
                yield statement.lineno, ast.unparse(statement.target)


def _of_types(parameters: ast.arguments) -> bool:
    """Whether there are no parameters, or all are element types."""
    given = [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs, parameters.vararg, parameters.kwarg]
    return all(one is None or (one.annotation and ast.unparse(one.annotation) == "DataType") for one in given)


def _few(keys: ast.expr) -> bool:
    return all(one.id in FEW for one in ast.walk(keys) if isinstance(one, ast.Name))


def _is_empty(value: ast.expr | None) -> bool:
    return value is not None and ast.unparse(value) in ("{}", "dict()")


def test_every_cache_is_one_of_the_house() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {what}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != HOME and any(word in path.read_text(encoding="utf-8") for word in WORDS)
        for line, what in _forms(nodes(path), tree(path).body, ordered=ALLOCATORS in path.parents)
    ]
    assert not found, "make it a Cache of tazza.runtime.cache, or `remembered`:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("source", "noticed"),
    [
        ("@functools.lru_cache(maxsize=9)\ndef f(x): ...", True),
        ("@cache\ndef f(spec): ...", True),
        ("@functools.cache\ndef f(*dims): ...", True),
        ("@cache\ndef f(): ...", False),
        ("@cache\ndef f(a: DataType, b: DataType): ...", False),
        ("@cache\ndef f(a: DataType, n: int): ...", True),
        ("@remembered('f', entries=9)\ndef f(spec): ...", False),
        ("class A:\n    def __init__(self): self.x: OrderedDict[int, int] = OrderedDict()", True),
        ("_x: dict[Form, int] = {}", True),
        ("_x: dict[tuple[str, TensorSpec], int] = {}", True),
        ("_x: dict[tuple[str, Place], int] = {}", False),
        ("_x: WeakValueDictionary[Form, int] = WeakValueDictionary()", False),
        ("X: dict[Form, int] = {Form.A: 1}", False),
    ],
)
def test_other_forms_are_noticed(source: str, noticed: bool) -> None:
    module = ast.parse(source)
    assert any(_forms(list(ast.walk(module)), module.body)) is noticed


def test_the_rule_knows_where_caches_live() -> None:
    assert isinstance(HOME, Path)
    assert any(_forms(nodes(HOME), tree(HOME).body))
