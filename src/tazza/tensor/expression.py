"""Pointwise formulas: text in a small part of Python's expression syntax, as data.

    Expression.parse("where(X >= 0, X, alpha * X)").substitute({"alpha": 0.1}).evaluate({"X": array})

Names, numbers, `+ - * /`, unary `-`, single comparisons (they count as 1 or 0) and calls of `FUNCTIONS`. Nothing of a
text is executed: Python's parser reads it, and whatever is outside of this language is refused.

A family states the formula of an operator in it; graph passes compose several, lazy expressions become the same form
(`tazza.tensor.lazy`), and engines compile it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, cast

from numpy.typing import NDArray

from tazza.errors import ArgumentError
from tazza.runtime.cache import remembered
from tazza.tensor.attached import ATTACHED
from tazza.tensor.function import FUNCTIONS

Array: TypeAlias = NDArray[Any]

DEEPEST = 200
"""How deep a text may nest; Python's own parser and our recursion stay far from their limits."""


_BINARY: dict[str, type[ast.operator]] = {"add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "div": ast.Div}
_COMPARE: dict[str, type[ast.cmpop]] = {
    "lt": ast.Lt,
    "le": ast.LtE,
    "gt": ast.Gt,
    "ge": ast.GtE,
    "eq": ast.Eq,
    "ne": ast.NotEq,
}
_SIGNS: dict[type[ast.AST], str] = {sign: name for name, sign in (*_BINARY.items(), *_COMPARE.items())}
_CALLED = {name for name in FUNCTIONS if name not in (*_BINARY, *_COMPARE, "neg")}


class Node:
    """A name, a constant, or a function of nodes; immutable, equal by content, its hash computed once."""

    __slots__ = ("_hash", "arguments", "head", "value")

    def __init__(self, head: str, value: str | float | None, arguments: tuple[Node, ...] = ()) -> None:
        """Head "name" or "constant" with a value, else the name of a function with arguments."""
        self.head = head
        self.value = value
        self.arguments = arguments
        # -0.0 == 0.0, but they are two constants
        told = repr(value) if isinstance(value, float) else value
        self._hash = hash((head, told, tuple(one._hash for one in arguments)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            return False
        seen: set[tuple[int, int]] = set()  # what two nodes share is compared once, not once for each way to it
        waiting: list[tuple[Node, Node]] = [(self, other)]
        while waiting:
            a, b = waiting.pop()
            if a is b or (id(a), id(b)) in seen:
                continue
            seen.add((id(a), id(b)))
            if a._hash != b._hash or a.head != b.head or repr(a.value) != repr(b.value):
                return False
            if len(a.arguments) != len(b.arguments):
                return False
            waiting += zip(a.arguments, b.arguments, strict=True)
        return True


def constant(value: float) -> Node:
    """Return a constant.

    Raises:
        ArgumentError: it is NaN, which no text can name.
    """
    if math.isnan(value):
        raise ArgumentError("a constant of an expression cannot be NaN")
    return Node("constant", float(value))


class Expression:
    """One formula over names. Immutable; equal when the canonical texts are.

    >>> leaky = Expression.parse("where(X >= 0, X, alpha * X)")
    >>> leaky.names
    ('X', 'alpha')
    >>> leaky.substitute({"alpha": 0.5}).text()
    'where(X >= 0.0, X, 0.5 * X)'
    >>> import numpy as np
    >>> leaky.evaluate({"X": np.array([-2.0, 3.0]), "alpha": 0.5})
    array([-1.,  3.])
    """

    __slots__ = ("root",)

    def __init__(self, root: Node) -> None:
        """Wrap a node; texts come through `parse`."""
        self.root = root

    @staticmethod
    def parse(text: str) -> Expression:
        """Read a text.

        Raises:
            ArgumentError: it is no expression of this language; nothing of it was executed.
        """
        return _parse(text)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that occur, each once, in the order of the text."""
        return tuple(str(node.value) for node in self.nodes() if node.head == "name")

    @property
    def flops(self) -> int:
        """Floating-point operations for one element; what occurs twice is counted once."""
        return sum(FUNCTIONS[node.head].flops for node in self.nodes() if node.head in FUNCTIONS)

    @property
    def exact(self) -> bool:
        """Whether it never rounds, so that it gives the same bits wherever it is computed."""
        return all(FUNCTIONS[node.head].exact for node in self.nodes() if node.head in FUNCTIONS)

    def nodes(self) -> Iterator[Node]:
        """Yield every different node once, operands before what uses them."""
        seen: set[Node] = set()
        waiting = [(self.root, False)]  # a stack of our own: depth is not bounded by Python's
        while waiting:
            node, entered = waiting.pop()
            if node in seen:
                continue
            if entered or not node.arguments:
                seen.add(node)
                yield node
            else:
                waiting.append((node, True))
                waiting += [(one, False) for one in reversed(node.arguments)]

    def substitute(self, values: Mapping[str, Expression | float]) -> Expression:
        """Return the expression with names replaced, all at once."""
        done: dict[Node, Node] = {}
        for node in self.nodes():
            if node.head == "name" and node.value in values:
                value = values[str(node.value)]
                done[node] = value.root if isinstance(value, Expression) else constant(value)
            elif node.arguments:
                done[node] = _apply(node.head, tuple(done[one] for one in node.arguments))
            else:
                done[node] = node
        return Expression(done[self.root])

    def evaluate(self, values: Mapping[str, Any]) -> Array:
        """Return the value by NumPy, typed and rounded as lazy expressions are; the arrays broadcast.

        Comparisons give bools, which count as 1 or 0 where they are computed with. Half-precision values are rounded
        at the end.

        Raises:
            ArgumentError: a name without a value.
            DTypeError: a function does not take these types, or a constant that is no integer meets integers.
        """
        missing = [name for name in self.names if name not in values]
        if missing:
            raise ArgumentError(f"expression {self.text()!r}: no value for {', '.join(missing)}")
        return ATTACHED["compute_formula"](self, values)

    def text(self) -> str:
        """Return the canonical text: parsing it gives an equal expression."""
        return _text(self.root)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.root == other.root

    def __hash__(self) -> int:
        return hash(self.root)

    def __repr__(self) -> str:
        return f"Expression({self.text()!r})"


@remembered("parsed expressions", entries=1024)
def _parse(text: str) -> Expression:
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ArgumentError(f"expression {text!r} cannot be read: {error}") from None
    return Expression(_from_ast(tree, text, 0))


@remembered("texts of expressions", entries=1024)
def _text(root: Node) -> str:
    return ast.unparse(ast.fix_missing_locations(_to_ast(root)))


def _apply(name: str, arguments: tuple[Node, ...]) -> Node:
    if name == "neg" and arguments[0].head == "constant":
        return constant(-cast("float", arguments[0].value))
    return Node(name, None, arguments)


def _from_ast(tree: ast.expr, text: str, depth: int) -> Node:
    if depth > DEEPEST:
        raise ArgumentError(f"expression of {len(text)} letters nests deeper than {DEEPEST}")
    match tree:
        case ast.Name(id=name):
            return Node("name", name)
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return constant(float(value))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _apply("neg", (_from_ast(operand, text, depth + 1),))
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _from_ast(operand, text, depth + 1)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SIGNS:
            head, operands = _SIGNS[type(sign)], (left, right)
        case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _SIGNS:
            head, operands = _SIGNS[type(sign)], (left, right)
        case ast.Call(func=ast.Name(id=name), args=given, keywords=[]) if name in _CALLED:
            if len(given) != FUNCTIONS[name].arity:
                raise ArgumentError(
                    f"expression {text!r}: {name} has {len(given)} operands, it takes {FUNCTIONS[name].arity}"
                )
            head, operands = name, tuple(given)
        case _:
            raise ArgumentError(
                f"expression {text!r}: {ast.unparse(tree)!r} is not of this language",
                hint=f"names, numbers, + - * /, comparisons, and {', '.join(sorted(_CALLED))}",
            )
    return _apply(head, tuple(_from_ast(one, text, depth + 1) for one in operands))


def _to_ast(node: Node) -> ast.expr:
    if node.head == "name":
        return ast.Name(str(node.value))
    if node.head == "constant":
        return ast.Constant(node.value)
    operands = [_to_ast(one) for one in node.arguments]
    if node.head == "neg":
        return ast.UnaryOp(ast.USub(), operands[0])
    if node.head in _BINARY:
        return ast.BinOp(operands[0], _BINARY[node.head](), operands[1])
    if node.head in _COMPARE:
        return ast.Compare(operands[0], [_COMPARE[node.head]()], [operands[1]])
    return ast.Call(ast.Name(node.head), operands, [])
