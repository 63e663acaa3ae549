"""What a program uses of Caffe2, found in its tree: modules, their names, and operators.

A name is followed from the import that brought it: `from caffe2.python import core as c` makes `c.Net` the path
`caffe2.python.core.Net`. Operators are methods of nets, models and blobs, or texts that makers of operators get. What
an object is follows from what its variable was given (`held`). What is called on an object whose class the tree does
not tell is looked up by its name alone, by who knows the names.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Collection, Iterable, Iterator

from tazza.data_class import dataclass
from tazza.interop.migration.held import Held

ROOT = "caffe2"
PREFIX = "caffe2.python."
MAKERS = {f"{PREFIX}core.CreateOperator": (0, "operator_type"), f"{ROOT}.proto.caffe2_pb2.OperatorDef": (0, "type")}
"""What makes an operator, and by which argument, by place or name, it is told the type."""
HOLDERS = ("net", "model")
"""How the names of variables end that hold what operators are called on, where nothing else tells."""


class Kind(enum.Enum):
    """What a use is of."""

    MODULE = "module"
    NAME = "name"
    OPERATOR = "operator"
    METHOD = "method"
    """Called on an object that may be one of Caffe2's; an operator or a method of a class, or neither."""
    BARE = "bare"
    """A name that stands alone, and that an `import *` may have brought."""


@dataclass(frozen=True, slots=True)
class Use:
    """One use: a path such as `caffe2.python.core.Net`, or the name of an operator or a method."""

    kind: Kind
    name: str
    line: int
    sure: bool = True
    """Whether it is of Caffe2 for certain; else it is so if Caffe2 has something of that name."""
    owners: tuple[str, ...] = ()
    """Of a method: the paths of the classes, or functions, that made the object; none where that is unknown."""


@dataclass(frozen=True, slots=True)
class Uses:
    """All that a program uses, in order of lines."""

    found: tuple[Use, ...]
    stars: tuple[str, ...]
    """Modules of which it imports all names."""
    own: frozenset[str]
    """Functions and classes of the program itself."""


def uses_of(nodes: Collection[ast.AST]) -> Uses:
    r"""Return what a program uses, from the nodes of its tree.

    >>> source = "from caffe2.python import core\nnet = core.Net('a')\nnet.Relu('x', 'y')\n"
    >>> [(use.kind.value, use.name) for use in uses_of(list(ast.walk(ast.parse(source)))).found]
    [('name', 'caffe2.python.core'), ('name', 'caffe2.python.core.Net'), ('method', 'Relu')]
    """
    names = _Names.of(nodes)
    own = frozenset(node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef)))
    if not names.imported:
        return Uses((), (), own)
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}  # of a chain `a.b.c`
    held = Held.of(nodes, names.sure_path_of)
    found = [use for node in nodes for use in _uses(node, id(node) in inner, names, held)]
    return Uses(tuple(sorted(dict.fromkeys(found), key=lambda use: use.line)), tuple(names.stars), own)


@dataclass(frozen=True, slots=True)
class _Names:
    """What the names of a program stand for, wherever in it they are bound."""

    paths: dict[str, str]
    """Name -> the path of Caffe2 that it stands for."""
    others: set[str]
    """Names that other packages brought."""
    imported: list[Use]
    stars: list[str]
    rebound: set[str]
    """Names that an import brought and that the program gives to something else, somewhere."""

    @classmethod
    def of(cls, nodes: Collection[ast.AST]) -> _Names:
        """Read the imports, and the names that are given to what they brought."""
        names = cls({}, set(), [], [], set())
        for node in nodes:
            if isinstance(node, ast.Import):
                names._import(node)
            elif isinstance(node, ast.ImportFrom):
                names._import_from(node)
        names.rebound.update(names.paths.keys() & set(_given(nodes)))
        for node in nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                path = names.path_of(node.value)
                if path is not None and isinstance(node.value, ast.Attribute):
                    names.paths.setdefault(node.targets[0].id, path)
        return names

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            first = alias.name.partition(".")[0]
            if first != ROOT:
                self.others.add(first if alias.asname is None else alias.asname)
                continue
            self.imported.append(Use(Kind.MODULE, alias.name, node.lineno))
            bound, path = (first, first) if alias.asname is None else (alias.asname, alias.name)
            self.paths[bound] = path

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = "" if node.module is None else node.module
        for alias in node.names:
            bound = alias.name if alias.asname is None else alias.asname
            if node.level or module.partition(".")[0] != ROOT:
                self.others.add(bound)
            elif alias.name == "*":
                self.imported.append(Use(Kind.MODULE, module, node.lineno))
                self.stars.append(module)
            else:
                self.imported.append(Use(Kind.NAME, f"{module}.{alias.name}", node.lineno))
                self.paths[bound] = f"{module}.{alias.name}"

    def path_of(self, node: ast.expr) -> str | None:
        """Return the path that a chain of attributes stands for, if an import of Caffe2 stands at its begin."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.paths:
            return None
        return ".".join([self.paths[node.id], *reversed(parts)])

    def sure_path_of(self, node: ast.expr) -> str | None:
        """Return the path that a chain of attributes stands for, if its first name stands for nothing else too."""
        return None if self._is_rebound(node) else self.path_of(node)

    def use(self, node: ast.expr, path: str) -> Use:
        """Return the use of a path that `path_of` gave."""
        return Use(Kind.NAME, path, node.lineno, sure=not self._is_rebound(node))

    def _is_rebound(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.rebound


def _given(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names that a program gives to values: variables and parameters."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def _uses(node: ast.AST, inner: bool, names: _Names, held: Held) -> Iterator[Use]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (use for use in names.imported if use.line == node.lineno)
    elif isinstance(node, ast.Name):
        if not inner and node.id in names.paths:
            yield names.use(node, names.paths[node.id])
        elif names.stars and node.id not in names.others:
            yield Use(Kind.BARE, node.id, node.lineno, sure=False)
    elif isinstance(node, ast.Attribute):
        yield from _of_attribute(node, inner, names, held)
    elif isinstance(node, ast.Call):
        yield from _of_call(node, names)
    elif isinstance(node, ast.Assign):
        yield from _of_type(node)


def _of_attribute(node: ast.Attribute, inner: bool, names: _Names, held: Held) -> Iterator[Use]:
    path = names.path_of(node)
    if path is not None:
        if not inner:
            yield names.use(node, path)
        return
    first = node.value
    while isinstance(first, (ast.Attribute, ast.Call, ast.Subscript)):
        first = first.func if isinstance(first, ast.Call) else first.value
    if isinstance(first, ast.Name) and (first.id in names.others or (first.id in names.paths and _is_value(node))):
        return
    if node.attr[:1].isupper() and not held.is_given(node):
        line = node.lineno if node.end_lineno is None else node.end_lineno  # of the name itself
        owners = tuple(sorted(held.classes(node.value)))
        yield Use(Kind.METHOD, node.attr, line, _holds(node.value), owners)


def _is_value(node: ast.Attribute) -> bool:
    """Whether it is an attribute of an array that a function gave: `workspace.FetchBlob(name).T`."""
    return len(node.attr) == 1


def _holds(node: ast.expr) -> bool:
    """Whether a variable holds a net or a model, by its name."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.lower().endswith(HOLDERS)


def _of_call(node: ast.Call, names: _Names) -> Iterator[Use]:
    """Yield the operator whose type a maker of operators is told."""
    path = names.path_of(node.func) if isinstance(node.func, (ast.Attribute, ast.Name)) else None
    if path not in MAKERS:
        return
    place, keyword = MAKERS[path]
    given = [node.args[place]] if len(node.args) > place else []
    given += [one.value for one in node.keywords if one.arg == keyword]
    for value in given:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield Use(Kind.OPERATOR, value.value, value.lineno)


def _of_type(node: ast.Assign) -> Iterator[Use]:
    """Yield the operator in `op.type = "Relu"`; it may be the type of a net as well."""
    value = node.value
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        if any(isinstance(target, ast.Attribute) and target.attr == "type" for target in node.targets):
            yield Use(Kind.OPERATOR, value.value, node.lineno, sure=False)
