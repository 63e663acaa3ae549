"""What Python 3 reads in an old program and what fails there all the same, found in its tree."""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Collection, Iterable, Iterator

import numpy as np

from tazza.interop.migration.python2 import BUILTINS, METHODS, MODULES, Remark
from tazza.ops.nn.window import window_args

ASSCALAR = "a.item()"
NUMPY = {
    "asscalar": ASSCALAR,
    **{name: name for name in ("bool", "float", "int", "object", "str", "complex")},
    "long": "int",
    "float_": "np.float64",
    "complex_": "np.complex128",
    "Inf": "np.inf",
    "NaN": "np.nan",
    "product": "np.prod",
    "string_": "np.bytes_",
    "unicode": "str",
    "unicode_": "np.str_",
}
"""What to write for names that NumPy had. Whether it has one still is asked of NumPy itself."""

LOOKED_AT = (ast.Import, ast.ImportFrom, ast.Name, ast.Attribute, ast.Call, ast.keyword, ast.Assign, ast.Expr)
"""Nodes that may need a remark."""
WHOLE = "//, or int(...): an extent is a whole number"


def remarks_on(nodes: Collection[ast.AST]) -> list[Remark]:
    r"""Return what has to be changed in a program, by line; `nodes` are those of its tree.

    >>> nodes = list(ast.walk(ast.parse("import cPickle\nf(pad=(k - 1) / 2)")))
    >>> [(one.line, one.what) for one in remarks_on(nodes)]
    [(1, 'cPickle'), (2, 'pad = a / b')]
    """
    numpys, bound = _bound_names(nodes)
    both = {id(node) for part in nodes if _is_for_both(part) for node in ast.walk(part)}
    found = {
        remark
        for node in nodes
        if isinstance(node, LOOKED_AT)
        for remark in (
            *(() if id(node) in both else _of_python2(node, bound)),
            *_of_numpy(node, numpys),
            *_of_division(node),
        )
    }
    return sorted(found)


def _is_for_both(node: ast.AST) -> bool:
    """Whether a statement asks which Python runs it, or tries what only one has: it was written for both."""
    if isinstance(node, ast.Try):
        caught = {one.id for handler in node.handlers for one in ast.walk(handler) if isinstance(one, ast.Name)}
        return bool(caught & {"ImportError", "ModuleNotFoundError", "NameError"})
    if isinstance(node, (ast.If, ast.IfExp)):
        asked = {getattr(one, "attr", getattr(one, "id", "")) for one in ast.walk(node.test)}
        return bool(asked & {"version_info", "PY2", "PY3", "hexversion"})
    return False


def _bound_names(nodes: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """Return the names of NumPy in a program, and all names that it gives a meaning of its own."""
    numpys: set[str] = set()
    bound: set[str] = set()
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                name = alias.name if alias.asname is None else alias.asname
                bound.add(name)
                if isinstance(node, ast.Import) and alias.name == "numpy":
                    numpys.add(name)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
    return numpys, bound


def _of_python2(node: ast.AST, bound: set[str]) -> Iterator[Remark]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = [name.partition(".")[0] for name in _modules(node)]
        yield from (Remark(node.lineno, name, MODULES[name]) for name in names if name in MODULES)
    if isinstance(node, ast.Name) and node.id in BUILTINS and node.id not in bound:
        yield Remark(node.lineno, node.id, BUILTINS[node.id])
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
        owner = node.func.value
        if not (isinstance(owner, ast.Name) and owner.id == "six"):
            yield Remark(node.lineno, f".{node.func.attr}", METHODS[node.func.attr])
    if isinstance(node, ast.Expr) and _goes_on_behind_print(node.value):
        yield Remark(node.lineno, "print", "print(...)")


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if node.module is not None and node.level == 0 else []


def _goes_on_behind_print(node: ast.expr, depth: int = 0) -> bool:
    """Whether it is a statement of Python 2, and an expression of Python 3: `print >>f, a`, `print("a") % b`."""
    if isinstance(node, ast.BinOp):
        return _goes_on_behind_print(node.left, depth + 1)
    if isinstance(node, ast.Tuple) and node.elts:
        return _goes_on_behind_print(node.elts[0], depth + 1)
    called = node.func if isinstance(node, ast.Call) else node
    return depth > 0 and isinstance(called, ast.Name) and called.id == "print"


def _of_numpy(node: ast.AST, numpys: set[str]) -> Iterator[Remark]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in numpys:
        names, prefix = [node.attr], f"{node.value.id}."
    elif isinstance(node, ast.ImportFrom) and node.module == "numpy":
        names, prefix = [alias.name for alias in node.names if alias.name != "*"], "numpy."
    else:
        return
    for name in names:
        if not _numpy_has(name):
            instead = NUMPY.get(name, "what NumPy's notes on the release that dropped it say")
            yield Remark(node.lineno, f"{prefix}{name}", instead, python2=False)


def _numpy_has(name: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return hasattr(np, name)


@functools.cache
def _extents() -> frozenset[str]:
    """Return the names of arguments that are extents of windows, and of what `brew` makes of them."""
    return frozenset({spec.name for spec in window_args() if spec.type is not str} | {"dim_in", "dim_out"})


def _of_division(node: ast.AST) -> Iterator[Remark]:
    """Yield the places where an extent is a quotient: a whole number in Python 2, and none in Python 3."""
    if isinstance(node, ast.keyword) and node.arg in _extents():
        pairs = [(node.arg, node.value)]
    elif isinstance(node, ast.Assign):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        pairs = [(name, node.value) for name in names if name in _extents()]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_brew(node.func.value):
        pairs = [(node.func.attr, value) for value in node.args]
    else:
        return
    for name, value in pairs:
        if _divides(value):
            what = f"{name}(a / b)" if isinstance(node, ast.Call) else f"{name} = a / b"
            yield Remark(value.lineno, what, WHOLE, python2=False)


def _is_brew(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "brew"


def _divides(node: ast.AST) -> bool:
    """Whether a value is a quotient that nothing rounds."""
    if isinstance(node, ast.Call):
        return False
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return True
    return any(map(_divides, ast.iter_child_nodes(node)))
