"""The rules of the house that a program can check: sizes, the direction of imports, names, and what an import loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.house.trees import tree

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "tazza"
FOLDERS = ["src", "tests", "benchmarks", "examples", "tools"]
FILES = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
    if not path.name.endswith("_pb2.py") or (ROOT / "src" / "caffe2") in path.parents
)

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 50
SIZE_EXCEPTIONS: dict[str, str] = {}
"""Files (`src/tazza/a.py`) and functions (`src/tazza/a.py:f`) that may be longer, with the reason."""

VAGUE_NAMES = {"utils", "util", "common", "misc", "helpers", "helper", "basic", "extra"}

FLOORS = [
    ["errors", "registry", "runtime"],
    ["proto"],
    ["tensor"],
    ["db"],
    ["device"],
    ["operator"],
    ["ops"],
    ["engines"],
    ["graph"],
    ["nets"],
    ["workspace"],
    ["observers"],
    ["models"],
    ["interop"],
    ["tazza"],
    ["cli", "__main__"],
]
"""What lies on which floor, the lowest first; `tazza` is the package's own `__init__`. Imports never point upwards."""
FLOOR_OF = {name: floor for floor, names in enumerate(FLOORS) for name in names}

LOADED_ON_FIRST_USE = {"matplotlib", "typer", "rich", "lmdb", "sklearn", "numba", "scipy"}
FAMILIES = ("tazza.ops.", "tazza.engines.")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _statements(node: ast.AST, *, running: bool = False) -> Iterator[ast.AST]:
    """Walk the statements of a tree, however deep, without their expressions, which are most of it.

    With `running`, what only a type checker reads is left out.
    """
    for field in ("body", "handlers", "cases", "orelse", "finalbody"):
        if field == "body" and running and _is_type_checking(node):
            continue
        for child in getattr(node, field, ()):
            yield child
            yield from _statements(child, running=running)


def _docstring_lines(statements: Iterable[ast.AST]) -> set[int]:
    """Return the lines of all strings that stand alone: docstrings of modules, classes, functions and constants."""
    return {
        line
        for node in statements
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def _code_lines(source: str, statements: Iterable[ast.AST]) -> set[int]:
    r"""Return the lines that hold code: no comments, docstrings or blank lines.

    >>> source = 'def f():\n    "Doc."\n\n    # why\n    return (\n        1\n    )\n'
    >>> sorted(_code_lines(source, _statements(ast.parse(source))))
    [1, 5, 6, 7]
    """
    bare = (line.strip() for line in source.splitlines())
    lines = {number for number, line in enumerate(bare, 1) if line and not line.startswith("#")}
    return lines - _docstring_lines(statements)


def _sizes(path: Path) -> Iterator[tuple[str, int, int]]:
    """Give name, size in code lines and limit of a file and of each function in it."""
    source = path.read_text(encoding="utf-8")
    statements = list(_statements(tree(path)))
    code = _code_lines(source, statements)
    name = path.relative_to(ROOT).as_posix()
    yield name, len(code), FILE_LINES_MAX
    for node in statements:
        if isinstance(node, Function):
            body = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            yield f"{name}:{node.name}", len(code.intersection(body)), FUNCTION_LINES_MAX


def test_files_and_functions_are_short() -> None:
    sizes = [size for path in FILES for size in _sizes(path)]
    too_long = {name: f"{lines} code lines, at most {limit}" for name, lines, limit in sizes if lines > limit}
    assert {name: text for name, text in too_long.items() if name not in SIZE_EXCEPTIONS} == {}
    assert set(SIZE_EXCEPTIONS) - set(too_long) == set(), "an exception that is not needed any more"


def test_no_file_has_a_vague_name() -> None:
    assert [path for path in FILES if VAGUE_NAMES & {path.stem, path.parent.name}] == []


def _imported_modules(source: str) -> Iterator[str]:
    r"""Name what a source imports from tazza, at its top or inside of functions, as `part` of `tazza.part`.

    >>> list(_imported_modules('import tazza.db.minidb, os\nfrom tazza import nets, load'))
    ['db', 'nets', 'tazza']
    """
    for node in _statements(ast.parse(source), running=True):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "tazza":
            names = [f"tazza.{alias.name}" if alias.name in FLOOR_OF else "tazza" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module]
        else:
            continue
        yield from (name.split(".")[-1 if name == "tazza" else 1] for name in names if name.split(".")[0] == "tazza")


def _part(path: Path) -> str:
    """Return the part of the package that a file belongs to: its folder or file directly below `tazza`."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "tazza" if first == "__init__" else first


def test_every_part_has_a_floor() -> None:
    assert {_part(path) for path in PACKAGE.rglob("*.py")} - set(FLOOR_OF) == set()


def test_imports_point_down() -> None:
    upwards = [
        f"{path.relative_to(ROOT)} imports {imported}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for imported in _imported_modules(path.read_text(encoding="utf-8"))
        if FLOOR_OF[imported] > FLOOR_OF[_part(path)]
    ]
    assert upwards == []


def test_type_checking_imports_are_free() -> None:
    source = "if TYPE_CHECKING:\n    from tazza.cli import main\nelse:\n    import tazza.db\n"
    assert list(_imported_modules(source)) == ["db"]


@pytest.mark.parametrize("module", ["tazza", "tazza.proto", "tazza.runtime.files"])
def test_import_loads_nothing_heavy(module: str) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert LOADED_ON_FIRST_USE.intersection(loaded) == set()
    assert [name for name in loaded if name.startswith(FAMILIES)] == []
