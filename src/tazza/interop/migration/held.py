"""What the variables of a program hold: the classes of Caffe2 whose objects it gives them.

A variable is one of a function, or of the program where no function around gives it a value; `self.net` is one of the
whole program. It holds what all that it is given is known to be: a call of a class, `.net` and `.param_init_net` of a
model, another variable. Of anything else, such as a parameter without an annotation, nothing is known.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import field
from typing import TypeAlias

from tazza.data_class import dataclass

NET = "caffe2.python.core.Net"
PARTS = ("net", "param_init_net")
"""Attributes of models that are nets."""
UNKNOWN: frozenset[str] = frozenset()

PathOf: TypeAlias = "Callable[[ast.expr], str | None]"
"""Gives the path of Caffe2 that an expression stands for, if it does."""
Scope: TypeAlias = "int | None"
"""The `id` of the function that a variable is of; None: it is the program's."""

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(slots=True)
class Held:
    """What is given to the variables of a program, and where its nodes stand."""

    path_of: PathOf
    outer: dict[int, Scope] = field(default_factory=dict[int, Scope])
    """The scope of each node, by its `id`; of a function, that one around it."""
    given: dict[tuple[Scope, str], list[ast.expr | None]] = field(
        default_factory=lambda: defaultdict[tuple[Scope, str], list[ast.expr | None]](list)
    )
    """The values that a variable is given, and annotations; None for what the tree does not tell."""
    asked: set[tuple[Scope, str]] = field(default_factory=set[tuple[Scope, str]])
    """Variables that are being looked up: one that is given itself tells nothing."""

    @classmethod
    def of(cls, nodes: Collection[ast.AST], path_of: PathOf) -> Held:
        """Read what is given to variables, from the nodes of a tree, outer ones before inner ones."""
        held = cls(path_of)
        for node in nodes:
            scope = id(node) if isinstance(node, _SCOPES) else held.outer.get(id(node))
            held.outer.update(dict.fromkeys(map(id, ast.iter_child_nodes(node)), scope))
        for node in nodes:
            for target, value in _given(node):
                name = _variable(target)
                if name is not None:
                    held.given[held._home(name, held.outer.get(id(node))), name].append(value)
            if isinstance(node, ast.arg):
                held.given[held.outer.get(id(node)), node.arg].append(node.annotation)
        return held

    def _home(self, name: str, scope: Scope) -> Scope:
        return None if "." in name else scope

    def classes(self, node: ast.expr) -> frozenset[str]:
        r"""Return the paths of what an object may be made of: classes, or functions; none where one is unknown.

        >>> tree = ast.parse("n = Net('a')\nn.Relu")
        >>> held = Held.of(list(ast.walk(tree)), lambda node: NET if ast.unparse(node) == "Net" else None)
        >>> sorted(held.classes(tree.body[1].value.value))
        ['caffe2.python.core.Net']
        """
        if isinstance(node, ast.Call):
            path = self.path_of(node.func)
            return UNKNOWN if path is None else frozenset([path])
        name = _variable(node)
        found = UNKNOWN if name is None else self._of_variable(name, self.outer.get(id(node)))
        if not found and isinstance(node, ast.Attribute) and node.attr in PARTS and self.classes(node.value):
            return frozenset([NET])
        return found

    def is_given(self, node: ast.Attribute) -> bool:
        """Whether the program gives an attribute to its object itself: `model.Own = function`."""
        return (None, _variable(node)) in self.given

    def _of_variable(self, name: str, scope: Scope) -> frozenset[str]:
        scope = self._home(name, scope)
        while (scope, name) not in self.given and scope is not None:
            scope = self.outer.get(scope)
        key = scope, name
        if key not in self.given or key in self.asked:
            return UNKNOWN
        self.asked.add(key)
        found = [UNKNOWN if value is None else self._value(value) for value in self.given[key]]
        self.asked.remove(key)
        return UNKNOWN.union(*found) if all(found) else UNKNOWN

    def _value(self, value: ast.expr) -> frozenset[str]:
        annotated = self.path_of(value)  # of a class itself: `def f(net: core.Net)`
        return self.classes(value) if annotated is None else frozenset([annotated])


def _variable(node: ast.AST) -> str | None:
    """Return the name of a variable or of an attribute of one: `net`, `self.net`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return None


def _given(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Yield the targets in a statement with their values; None is nothing, and tells nothing."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _pairs(target, node.value)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        if node.value is not None:
            yield from _pairs(node.target, node.value)
    elif isinstance(node, ast.withitem):
        if node.optional_vars is not None:
            yield from _pairs(node.optional_vars, None)
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension, ast.AugAssign)):
        yield from _pairs(node.target, None)


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    if isinstance(target, (ast.Tuple, ast.List)):
        values: list[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(values):
            values = list(value.elts)
        for inner, part in zip(target.elts, values, strict=True):
            yield from _pairs(inner, part)
    elif not (isinstance(value, ast.Constant) and value.value is None):
        yield target, value
