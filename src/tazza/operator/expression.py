"""Pointwise formulas: text in a small part of Python's expression syntax, as data.

    Expression.parse("where(X >= 0, X, alpha * X)").substitute({"alpha": 0.1}).evaluate({"X": array})

Names, numbers, `+ - * /`, unary `-`, single comparisons (they give 1.0 or 0.0) and calls of `FUNCTIONS`. Nothing of a
text is executed: Python's parser reads it, and whatever is outside of this language is refused.

A family states the formula of an operator beside its schema (`formula`); engines compile it, graph passes compose
several, and the operator's reference kernel, a plain function of its own, judges it.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tazza.errors import ArgumentError, SchemaError

if TYPE_CHECKING:
    from tazza.operator.schema import OpSchema, Spec
    from tazza.operator.view import OpView

Array: TypeAlias = NDArray[Any]
Texts: TypeAlias = "Callable[[OpView], Mapping[str, str]]"
Align: TypeAlias = "Callable[[OpView, Mapping[str, Spec]], Mapping[str, tuple[int, ...]]]"

DEEPEST = 200
"""How deep a text may nest; Python's own parser and our recursion stay far from their limits."""


@dataclass(frozen=True, slots=True)
class Function:
    """One function of the language: how many operands it takes, its cost in flops, and its meaning in NumPy."""

    name: str
    arity: int
    flops: int
    evaluate: Callable[..., Any]


def _erf(x: Any) -> Any:
    values = np.asarray(x)
    return np.vectorize(math.erf, otypes=[np.float64])(values).astype(values.dtype)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))  # at most 1: nothing overflows
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


def _cube(x: Array) -> Array:
    return x * x * x


def _where(condition: Any, yes: Array, no: Array) -> Array:
    return np.where(np.asarray(condition, bool), yes, no)


FUNCTIONS = {
    function.name: function
    for function in (
        Function("add", 2, 1, np.add),
        Function("sub", 2, 1, np.subtract),
        Function("mul", 2, 1, np.multiply),
        Function("div", 2, 4, np.divide),
        Function("neg", 1, 1, np.negative),
        Function("lt", 2, 1, np.less),
        Function("le", 2, 1, np.less_equal),
        Function("gt", 2, 1, np.greater),
        Function("ge", 2, 1, np.greater_equal),
        Function("eq", 2, 1, np.equal),
        Function("ne", 2, 1, np.not_equal),
        Function("exp", 1, 12, np.exp),
        Function("log", 1, 15, np.log),
        Function("log1p", 1, 20, np.log1p),
        Function("expm1", 1, 16, np.expm1),
        Function("tanh", 1, 18, np.tanh),
        Function("sigmoid", 1, 18, _sigmoid),
        Function("erf", 1, 25, _erf),
        Function("sqrt", 1, 6, np.sqrt),
        Function("rsqrt", 1, 10, _rsqrt),
        Function("abs", 1, 1, np.abs),
        Function("min", 2, 1, np.minimum),
        Function("max", 2, 1, np.maximum),
        Function("pow", 2, 35, np.power),
        Function("sin", 1, 18, np.sin),
        Function("cos", 1, 18, np.cos),
        Function("floor", 1, 1, np.floor),
        Function("ceil", 1, 1, np.ceil),
        Function("round", 1, 1, np.rint),
        Function("sign", 1, 2, np.sign),
        Function("where", 3, 1, _where),
        Function("square", 1, 1, np.square),
        Function("cube", 1, 2, _cube),
        Function("relu", 1, 1, _relu),
    )
}
"""The whole language. Minimum, maximum and relu hand on NaN; round goes to the even neighbour from the middle."""

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
COMPARISONS = frozenset(_COMPARE)
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
        if self is other:
            return True
        return (
            isinstance(other, Node)
            and self._hash == other._hash
            and self.head == other.head
            and repr(self.value) == repr(other.value)
            and self.arguments == other.arguments
        )


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

    def nodes(self) -> Iterator[Node]:
        """Yield every different node once, operands before what uses them."""
        seen: set[Node] = set()

        def walk(node: Node) -> Iterator[Node]:
            if node in seen:
                return
            for one in node.arguments:
                yield from walk(one)
            if node not in seen:
                seen.add(node)
                yield node

        return walk(self.root)

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
        """Return the value by NumPy, in the dtype of the arrays; they are broadcast against each other.

        Raises:
            ArgumentError: a name without a value.
        """
        missing = [name for name in self.names if name not in values]
        if missing:
            raise ArgumentError(f"expression {self.text()!r}: no value for {', '.join(missing)}")
        arrays: list[Any] = [value for name in self.names if hasattr(value := values[name], "dtype")]
        dtype = np.result_type(*arrays) if arrays else np.dtype(np.float64)
        done: dict[Node, Any] = {}
        for node in self.nodes():
            if node.head == "name":
                done[node] = values[str(node.value)]
            elif node.head == "constant":
                done[node] = node.value
            else:
                result = FUNCTIONS[node.head].evaluate(*(done[one] for one in node.arguments))
                done[node] = np.asarray(result, dtype) if node.head in COMPARISONS else result
        return np.asarray(done[self.root], dtype)

    def text(self) -> str:
        """Return the canonical text: parsing it gives an equal expression."""
        return ast.unparse(ast.fix_missing_locations(_to_ast(self.root)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.root == other.root

    def __hash__(self) -> int:
        return hash(self.root)

    def __repr__(self) -> str:
        return f"Expression({self.text()!r})"


@functools.lru_cache(maxsize=1024)
def _parse(text: str) -> Expression:
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ArgumentError(f"expression {text!r} cannot be read: {error}") from None
    return Expression(_from_ast(tree, text, 0))


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


# -- formulas of operators ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Formulas:
    """What a schema keeps: texts by output letter, and how the dimensions of inputs lie under those of the outputs."""

    texts: Texts
    align: Align | None


def formula(schema: OpSchema, texts: Texts | None = None, /, *, align: Align | None = None, **outputs: str) -> None:
    """State what a pointwise operator computes: one text for each output letter.

    Names are input letters and names of arguments, which stand for their values. The blobs of a variadic letter `X`
    are `X0`, `X1` ... Each output element depends on the elements of the inputs at the same place.

    Args:
        schema: the operator's.
        texts: a function of the OpView that gives output letter -> text, where that depends on arguments.
        align: `align(op, {name: spec})` gives for inputs the dims that broadcast, as NumPy's do, against the output;
            default: their own dims.
        outputs: output letter -> text.

    Raises:
        SchemaError: no text, an unknown output letter, or a name that is neither letter nor argument.
    """
    if (texts is None) == (not outputs):
        raise SchemaError(
            f"{schema.type}: give its formulas as texts or as a function of the operator, and one of them"
        )
    if texts is None:
        known = {*schema.inputs_by_letter, *schema.args}
        for letter, text in outputs.items():
            if letter not in schema.outputs_by_letter:
                raise SchemaError(f"{schema.type} has no output {letter!r}, so no formula of it")
            strange = [name for name in Expression.parse(text).names if name not in known]
            if strange:
                raise SchemaError(f"{schema.type}: formula {text!r} of {letter} names {', '.join(strange)}")
        fixed = dict(outputs)
        schema.formulas = Formulas(lambda op: fixed, align)
    else:
        schema.formulas = Formulas(texts, align)


def formulas_of(op: OpView) -> dict[str, Expression]:
    """Return output letter -> expression over input letters, with the arguments' values; empty: it has no formula.

    Raises:
        ArgumentError: an argument that stands in a formula is no number.
    """
    found = op.schema.formulas
    if found is None:
        return {}
    result: dict[str, Expression] = {}
    for letter, text in found.texts(op).items():
        parsed = Expression.parse(text)
        result[letter] = parsed.substitute({name: _number(op, name) for name in parsed.names if name in op.schema.args})
    return result


def _number(op: OpView, name: str) -> float:
    value = op.arguments[name]
    if not isinstance(value, (bool, int, float)):
        raise op.error(ArgumentError, f"argument {name} = {value!r} of a formula is no number")
    return float(value)
