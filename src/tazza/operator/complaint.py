"""What the checks of an operator's own code say: errors and their messages, read from the source that raises them.

What every operator refuses follows from its declaration: numbers of blobs, element types, patterns of shapes, ranges of
arguments. What an `infer` rule, a `validate` rule or the reference kernel refuses beside that stands in their code
alone. There it is found, in these functions and in those of `tazza.ops` that they call; nobody writes it twice.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias, TypeGuard, cast

from tazza.data_class import dataclass
from tazza.errors import ShapeError, TazzaError
from tazza.operator.index import FAMILIES
from tazza.operator.kernel import kernel_for
from tazza.operator.schema import OpSchema
from tazza.runtime.cache import remembered
from tazza.tensor.place import CPU_KIND

LONGEST = 32
"""Characters of an expression that a message shows; a longer one is an ellipsis there."""

ELLIPSIS = "..."
"""What stands for an expression that has no words."""

Definition: TypeAlias = "ast.FunctionDef | ast.Lambda | ast.ClassDef"


@dataclass(frozen=True, slots=True, order=True)
class Complaint:
    """An error's class and its message; what depends on the operator stands there in words, as `<length of X>`."""

    error: str
    message: str


def complaints_of(schema: OpSchema) -> tuple[Complaint, ...]:
    """Return what the code of an operator type refuses beside what its declaration says, in order; none without source.

    >>> from tazza.operator import find_schema
    >>> complaints_of(find_schema("ReluN"))
    (Complaint(error='ArgumentError', message='n = <n>, it must be above 0'),)
    """
    rules, reference = schema.rules, kernel_for(schema.type, CPU_KIND, "reference")
    roots = [rules.validate, rules.infer, None if reference is None else reference.function]
    seen: set[tuple[str, int]] = set()
    found = [complaint for root in roots if root is not None for complaint in _of_callable(root, seen)]
    return tuple(dict.fromkeys(found))


def _of_callable(target: Any, seen: set[tuple[str, int]]) -> Iterator[Complaint]:
    """Yield what a function or class complains of, with the functions of families that it calls."""
    if isinstance(target, functools.partial):
        inner = cast("functools.partial[Any]", target)
        for one in (inner.func, *inner.args, *inner.keywords.values()):
            yield from _of_callable(one, seen)
        return
    function = target.__func__ if isinstance(target, MethodType) else target
    if not isinstance(function, FunctionType | type):
        return
    if _is_wrapper(function):
        for one in _captured(function).values():
            yield from _of_callable(one, seen)
        return
    node = _definition(function)
    if node is None or (function.__module__, node.lineno) in seen:
        return
    seen.add((function.__module__, node.lineno))
    own, callees = _read(function)
    yield from own
    for callee in callees:
        yield from _of_callable(callee, seen)


@remembered("complaints of functions", entries=4096)
def _read(function: FunctionType | type) -> tuple[tuple[Complaint, ...], tuple[Callable[..., Any], ...]]:
    """Return what a function of a family complains of itself, and what it calls."""
    node = _definition(function)
    assert node is not None
    names = {**vars(sys.modules[function.__module__]), **_captured(function)}
    nodes = list(ast.walk(node))
    texts = _assigned(nodes)
    calls = [_complaint(each, names, texts) for each in nodes if isinstance(each, ast.Call)]
    return tuple(each for each in calls if each is not None), tuple(dict.fromkeys(_called(nodes, names)))


def _is_wrapper(function: FunctionType | type) -> bool:
    """Whether the code is none of a family's: such a function has the family's among what it captured."""
    if isinstance(function, type) or not function.__module__.startswith(FAMILIES):
        return not function.__module__.startswith(FAMILIES)
    return function.__code__.co_filename != sys.modules[function.__module__].__file__


def _captured(function: FunctionType | type) -> dict[str, Any]:
    """Return what a function has from the functions around it."""
    if isinstance(function, type) or function.__closure__ is None:
        return {}
    cells = zip(function.__code__.co_freevars, function.__closure__, strict=True)
    return {name: cell.cell_contents for name, cell in cells if _filled(cell)}


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _definition(function: FunctionType | type) -> Definition | None:
    """Return the tree of a function, or of the class: a method stands for all of its class."""
    classes, functions = _definitions(function.__module__)
    owner = function.__qualname__.split(".")[0]
    if owner in classes:
        return classes[owner]
    return None if isinstance(function, type) else functions.get(function.__code__.co_firstlineno)


@remembered("trees of families", entries=128)
def _definitions(module: str) -> tuple[Mapping[str, ast.ClassDef], Mapping[int, Definition]]:
    """Return the classes of a module by name, and its functions by the line where they begin, decorators included."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except OSError:  # installed without source
        return {}, {}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    functions: dict[int, Definition] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            functions[min([node.lineno, *(each.lineno for each in node.decorator_list)])] = node
        elif isinstance(node, ast.Lambda):
            functions.setdefault(node.lineno, node)
    return classes, functions


def _called(nodes: Iterable[ast.AST], names: Mapping[str, Any]) -> Iterator[Callable[..., Any]]:
    """Yield what is named in a tree and can be called: functions that are handed on count as called."""
    for each in nodes:
        found = None
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
            found = names.get(each.id)
        elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            owner = names.get(each.value.id)
            found = getattr(owner, each.attr, None) if isinstance(owner, ModuleType) else None
        if isinstance(found, FunctionType | type | functools.partial):
            yield cast("Callable[..., Any]", found)


def _assigned(nodes: Iterable[ast.AST]) -> list[tuple[int, str, ast.expr]]:
    """Return line, name and value of each assignment to one name, in order."""
    found = [each for each in nodes if isinstance(each, ast.Assign)]
    named = [(each.lineno, target.id, each.value) for each in found for target in each.targets if _is_name(target)]
    return sorted(named, key=lambda one: one[0])


def _is_name(node: ast.expr) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name)


def _complaint(
    call: ast.Call, names: Mapping[str, Any], texts: Sequence[tuple[int, str, ast.expr]]
) -> Complaint | None:
    """Return what a call refuses: `op.error(Error, message)`, `Error(message)`, or `op.require(condition, message)`."""
    told, method = call.args, call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if method == "require" and len(told) > 1:
        return Complaint(ShapeError.__name__, _message(_meant(told[1], texts)))
    kind, told = (told[0], told[1:]) if method == "error" and len(told) > 1 else (call.func, told)
    error = names.get(kind.id) if isinstance(kind, ast.Name) else None
    if not told or not (isinstance(error, type) and issubclass(error, TazzaError)):
        return None
    return Complaint(error.__name__, _message(_meant(told[0], texts)))


def _meant(node: ast.expr, texts: Sequence[tuple[int, str, ast.expr]]) -> ast.expr:
    """Return what a name was last given above the line where it stands; anything else as it is."""
    given = [value for line, name, value in texts if _is_name(node) and name == node.id and line <= node.lineno]
    return given[-1] if given else node


def _message(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.JoinedStr(values=values):
            return "".join(_message(value) for value in values)
        case ast.FormattedValue(value=value):
            return _placed(value)
        case _:
            return _placed(node)


def _placed(node: ast.expr) -> str:
    text = _words(node)
    return f"<{text}>" if len(text) <= LONGEST and ELLIPSIS not in text else ELLIPSIS


def _words(node: ast.expr) -> str:
    """Return what an expression gives in words: what it is about, not how the code shows it."""
    match node:
        case ast.Name(id=text) | ast.Attribute(value=ast.Name(id="op" | "self"), attr=text):
            return text
        case ast.Attribute(value=inner, attr="label" | "name" | "value" | "__name__"):
            return _words(inner)
        case ast.Attribute(value=inner, attr=text):
            return f"{text} of {_words(inner)}"
        case ast.Call(func=ast.Name(id="len"), args=[inner]):
            return f"length of {_words(inner)}"
        case ast.Call(func=ast.Name(), args=[inner, *_]) | ast.Call(func=ast.Attribute(value=inner), args=[]):
            return _words(inner)
        case _:
            return ELLIPSIS if _calls(node) else ast.unparse(node).replace("op.", "").replace("self.", "")


def _calls(node: ast.expr) -> bool:
    """Whether there is more in an expression than names and numbers."""
    plain = (ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.BinOp, ast.UnaryOp, ast.Slice)
    return not all(isinstance(each, (*plain, ast.operator, ast.unaryop, ast.expr_context)) for each in ast.walk(node))
