"""What is read before it is written is asked of `operator.touches`, and worked out nowhere else.

A second walk that asks of the inputs of each operator whether an earlier one wrote them forgets nets within operators,
as six of them did.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.test_gates import PACKAGE, ROOT, Function
from tests.house.trees import tree

ALLOWED = {"operator/touches.py": "the one place"}
READ, WRITTEN = {"input", "reads"}, {"output", "writes", "certain"}


def _mentions(node: ast.AST, attributes: set[str]) -> bool:
    return any(isinstance(one, ast.Attribute) and one.attr in attributes for one in ast.walk(node))


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _grown(function: ast.AST) -> set[str]:
    """Return the names of what a function adds written blobs to."""
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("update", "add"):
            if any(_mentions(argument, WRITTEN) for argument in node.args):
                found |= _names(node.func.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitOr) and _mentions(node.value, WRITTEN):
            found |= _names(node.target)
    return found


def _questions(function: ast.AST) -> Iterator[tuple[set[str], ast.Compare]]:
    """Yield what goes through inputs of operators, with each `in` that is asked meanwhile."""
    for node in ast.walk(function):
        if isinstance(node, ast.For):
            loops = [(node.target, node.iter)]
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            loops = [(loop.target, loop.iter) for loop in node.generators]
        else:
            continue
        names = set[str]().union(*(_names(target) for target, through in loops if _mentions(through, READ)))
        for one in ast.walk(node) if names else ():
            if isinstance(one, ast.Compare) and isinstance(one.ops[0], (ast.In, ast.NotIn)):
                yield names, one


def walks(source: ast.AST) -> Iterator[str]:
    """Yield the functions that look among what was written for what is read."""
    for function in ast.walk(source):
        if not isinstance(function, Function):
            continue
        grown = _grown(function)
        if any(_names(a.left) & names and _names(a.comparators[0]) & grown for names, a in _questions(function)):
            yield function.name


@pytest.mark.slow
def test_nobody_else_works_it_out() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).as_posix() not in ALLOWED
        for name in walks(tree(path))
    }
    assert found == set(), "ask tazza.operator.read_first"


WRITTEN_AGAIN = [
    """
def first(net):
    written, found = set(), {}
    for op in net.op:
        found.update(dict.fromkeys(name for name in op.input if name not in written))
        written.update(op.output)
    return found
""",
    """
def missing(ops, known):
    for op in ops:
        for name in op.input:
            if name in known:
                continue
            yield name
        known |= set(op.output)
""",
    """
def check(net):
    known = set(net.external_input)
    for position, op in enumerate(net.op):
        absent = [name for name in touches(op).reads if name not in known]
        for name in touches(op).writes:
            known.add(op.output[0])
""",
]


@pytest.mark.parametrize("text", WRITTEN_AGAIN)
def test_one_that_is_put_in_is_found(text: str) -> None:
    assert len(list(walks(ast.parse(text)))) == 1


def test_the_one_place_is_one_that_would_be_found() -> None:
    path = Path(PACKAGE) / "operator" / "touches.py"
    assert "_read_first" in list(walks(tree(path)))
