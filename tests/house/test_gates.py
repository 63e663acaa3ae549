"""The rules of the house that a program can check: sizes, the direction of imports, names, and what an import loads."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.house.trees import nodes, tree

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
    ["data_class", "errors", "registry", "runtime"],
    ["proto"],
    ["tensor"],
    ["array"],
    ["db"],
    ["images"],
    ["device"],
    ["random"],
    ["operator"],
    ["ops"],
    ["codegen"],
    ["engines"],
    ["graph"],
    ["nets"],
    ["workspace"],
    ["procedure"],
    ["observers"],
    ["testing"],
    ["models"],
    ["interop"],
    ["fitting"],
    ["bulk"],
    ["distributed"],
    ["tazza"],
    ["cli", "__main__"],
]
"""What lies on which floor, the lowest first; `tazza` is the package's own `__init__`. Imports never point upwards."""
FLOOR_OF = {name: floor for floor, names in enumerate(FLOORS) for name in names}

LOADED_ON_FIRST_USE = {"matplotlib", "typer", "rich", "lmdb", "sklearn", "numba", "scipy", "pytest", "hypothesis"}
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


def test_programs_of_pages_are_short() -> None:
    """Comments begin a line, or go on with a `*` or as a block of their own at the head of a file."""
    sizes = {
        path.name: sum(
            bool(line.strip()) and not line.strip().startswith(("//", "*", "/*"))
            for line in path.read_text().splitlines()
        )
        for path in sorted((ROOT / "src").rglob("*.js"))
    }
    assert sizes
    assert {name: size for name, size in sizes.items() if size > FILE_LINES_MAX} == {}


def test_data_classes_are_made_when_they_are_used() -> None:
    """The library's decorator compiles all methods of a class at once, which every start of a process would pay for."""
    asking = [
        str(path.relative_to(ROOT))
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.stem != "data_class" and "dataclass" in _names_from(path, "dataclasses")
    ]
    assert asking == []


def _names_from(path: Path, module: str) -> set[str]:
    found = (node for node in nodes(path) if isinstance(node, ast.ImportFrom) and node.module == module)
    return {alias.name for node in found for alias in node.names}


def test_no_file_has_a_vague_name() -> None:
    """The old names are given: `caffe2.python.utils`, `caffe2.python.helpers`."""
    free = [path for path in FILES if (ROOT / "src" / "caffe2") not in path.parents]
    assert [path for path in free if VAGUE_NAMES & {path.stem, path.parent.name}] == []


def _imported_modules(module: ast.AST) -> Iterator[str]:
    r"""Name what a module imports from tazza, at its top or inside of functions, as `part` of `tazza.part`.

    >>> list(_imported_modules(ast.parse('import tazza.db.minidb, os\nfrom tazza import nets, load')))
    ['db', 'nets', 'tazza']
    """
    for node in _statements(module, running=True):
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
        for imported in _imported_modules(tree(path))
        if FLOOR_OF[imported] > FLOOR_OF[_part(path)]
    ]
    assert upwards == []


def test_type_checking_imports_are_free() -> None:
    source = "if TYPE_CHECKING:\n    from tazza.cli import main\nelse:\n    import tazza.db\n"
    assert list(_imported_modules(ast.parse(source))) == ["db"]


@pytest.mark.parametrize("module", ["tazza", "tazza.proto", "tazza.runtime.files", "tazza.testing"])
def test_import_loads_nothing_heavy(module: str) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert LOADED_ON_FIRST_USE.intersection(loaded) == set()
    assert [name for name in loaded if name.startswith(FAMILIES)] == []


A_NET = """
import sys
import numpy as np
from tazza import Model, Workspace, sgd
model = Model("mlp")
hidden = model.relu(model.fc("data", "hidden", 2, 3), "hidden")
softmax, loss = model.softmax_with_loss(model.fc(hidden, "scores", 3, 5), "label", ["softmax", "loss"])
model.add_gradients([loss])
sgd(model, base_learning_rate=0.1, momentum=0.9)
workspace = Workspace()
workspace.run_net_once(model.init_net.proto)
workspace.feed("data", np.ones((7, 2), np.float32))
workspace.feed("label", np.zeros(7, np.int32))
for model.net.proto.type in ("simple", "plan"):
    workspace.run_net_once(model.net.proto)
print(*sys.modules)
"""


@pytest.mark.slow
def test_a_net_loads_nothing_of_what_people_write() -> None:
    """But for what works a formula out in numbers, which an engine may ask for while it prepares a kernel."""
    formulas = "import sys, tazza.array.lowering; print(*sys.modules)"
    loaded, allowed = (_loaded_of(program, "tazza.array") for program in (A_NET, formulas))
    assert loaded - allowed == set()
    assert len(allowed) < 10, "and that is little"


def _loaded_of(program: str, package: str) -> set[str]:
    """Run a program that prints `sys.modules`, and return what it loaded of a package."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name for name in done.stdout.split() if name.startswith(package)}


def _imports(path: Path) -> set[str]:
    """Name the modules of the package that a file imports, at its top or inside of functions."""
    return _names_imported(tree(path))


def _names_imported(module: ast.AST) -> set[str]:
    """Name what a module imports while it runs: modules, and what may be a module or something in one."""
    found: set[str] = set()
    for node in _statements(module, running=True):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _circle(imports: Mapping[str, set[str]]) -> list[str]:
    """Return modules each of which imports the next, and the last the first; none if there is no such circle.

    >>> _circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}), _circle({"a": {"b", "c"}, "b": {"c"}, "c": set()})
    (['b', 'c', 'b'], [])
    """
    try:
        graphlib.TopologicalSorter({name: found & set(imports) for name, found in imports.items()}).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])[::-1]
    return []


@pytest.mark.parametrize("folder", ["tensor"])
def test_files_of_a_floor_import_each_other_one_way(folder: str) -> None:
    files = [path for path in sorted((PACKAGE / folder).rglob("*.py")) if path.name != "__init__.py"]
    names = {".".join(("tazza", *path.relative_to(PACKAGE).with_suffix("").parts)): path for path in files}
    assert _circle({name: _imports(path) for name, path in names.items()}) == []


# -- engines do not know each other ------------------------------------------------------------------------------------


def _other_engines(path: Path, module: ast.AST) -> set[str]:
    r"""Name what a file of an engine imports of another engine, at its top or inside of functions.

    >>> mine = PACKAGE / "engines" / "onednn" / "nn" / "conv.py"
    >>> sorted(_other_engines(mine, ast.parse("from tazza.engines import gemm\nimport tazza.engines.onednn.launch")))
    ['tazza.engines.gemm']
    """
    own = path.relative_to(PACKAGE).parts[1]
    parts = {name: name.split(".") for name in _names_imported(module)}
    engines = {name for name, path in parts.items() if path[:2] == ["tazza", "engines"] and len(path) > 2}
    return {name for name in engines if parts[name][2] != own}


def test_no_engine_calls_another() -> None:
    """What is shared lies in `codegen`; who computes is chosen by `operator/choice.py`, which knows all offers."""
    files = [path for path in sorted((PACKAGE / "engines").rglob("*.py")) if path.parent != PACKAGE / "engines"]
    assert len(files) > 100
    assert {path.name: found for path in files if (found := _other_engines(path, tree(path)))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from tazza.engines.native.tall_product import Grid",
        "from tazza.engines import native",
        "import tazza.engines.native.pointwise as pointwise",
        "def prepare():\n    from tazza.engines.native import loop\n    return loop\n",
    ],
)
def test_calls_between_engines_are_noticed(source: str) -> None:
    folder = PACKAGE / "engines"
    assert _other_engines(folder / "onednn" / "nn" / "conv_gradient.py", ast.parse(source)) != set()
    assert _other_engines(folder / "native" / "lazy.py", ast.parse(source)) == set()


# -- facts are declared, not guessed -----------------------------------------------------------------------------------


def _is_text(node: ast.AST) -> bool:
    """Whether an expression is a literal text, or a row of such.

    >>> [_is_text(ast.parse(text, mode="eval").body) for text in ('"Sum"', '("FC", "Conv")', "SUM.type", "1")]
    [True, True, False, False]
    """
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return any(_is_text(each) for each in node.elts)
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _parsed(source: str) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(source))


def _types_by_name(module: Iterable[ast.AST]) -> list[int]:
    r"""Return the lines of a module that ask an operator for its type by name, in place of what its schema declares.

    >>> _types_by_name(_parsed('a = op.type == "Sum"\nb = op.type in ("FC", "Conv")\nc = op.type == SUM.type\n'))
    [1, 2]
    >>> _types_by_name(_parsed('match op.type:\n    case "Sum":\n        pass\n'))
    [1]
    """
    found: list[int] = []
    for node in module:
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        typed = any(isinstance(side, ast.Attribute) and side.attr == "type" for side in sides)
        if typed and any(map(_is_text, sides)):
            found.append(node.lineno if isinstance(node, ast.Compare) else 0)
        if isinstance(node, ast.Call) and _asks_how_a_type_begins(node):
            found.append(node.lineno)
        if isinstance(node, ast.Match) and isinstance(node.subject, ast.Attribute) and node.subject.attr == "type":
            found.append(node.lineno)
    return found


def _asks_how_a_type_begins(call: ast.Call) -> bool:
    method = call.func
    if not isinstance(method, ast.Attribute) or method.attr not in ("startswith", "endswith"):
        return False
    return isinstance(method.value, ast.Attribute) and method.value.attr == "type" and any(map(_is_text, call.args))


def _is_family(path: Path) -> bool:
    """Whether a file holds the meaning of a family of operators, or an engine's kernels of one."""
    parts = path.relative_to(PACKAGE).parts
    fields = {folder.name for folder in (PACKAGE / "ops").iterdir() if folder.is_dir()}
    return parts[0] == "ops" or (parts[0] == "engines" and len(parts) > 2 and parts[2] in fields)


def test_nobody_asks_for_an_operator_by_name() -> None:
    """Outside of families, what an operator is comes from its schema; who means one operator names its schema."""
    asking = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not _is_family(path) and not path.name.endswith("_pb2.py")
        for line in _types_by_name(nodes(path))
    ]
    assert asking == []


PLANTED = {
    'if op.type == "Sum":\n    pass\n': 1,
    'pass\nfound = node.type not in ("FC", "Conv")\n': 2,
    'found = [op for op in ops if "Relu" != op.type]\n': 1,
    'pass\npass\nif op.type.startswith("Conv"):\n    pass\n': 3,
    'match op.type:\n    case "Sum":\n        pass\n': 1,
}
"""Sources that ask an operator for its type by name, and in which line."""


@pytest.mark.parametrize(("source", "line"), PLANTED.items())
def test_names_of_operators_are_noticed(source: str, line: int) -> None:
    assert _types_by_name(_parsed(source)) == [line]


def test_families_may_name_their_operators() -> None:
    inside = ["ops/math/sum.py", "engines/onednn/math/arithmetic.py"]
    outside = ["graph/composition.py", "engines/native/pointwise.py", "engines/native/__init__.py", "nets/pair.py"]
    assert [_is_family(PACKAGE / path) for path in (*inside, *outside)] == [True] * 2 + [False] * 4


@pytest.mark.parametrize(
    "source", ["import inspect\nx = inspect.signature(f)\n", "from inspect import signature as s\n"]
)
def test_signatures_are_noticed(source: str) -> None:
    assert _reads_signatures(_parsed(source))


def test_signatures_are_read_on_the_operator_floor_alone() -> None:
    """What a function takes is declared where it is registered; parameters are no facts that an upper floor may ask."""
    asking = [
        str(path.relative_to(ROOT))
        for path in sorted(PACKAGE.rglob("*.py"))
        if FLOOR_OF[_part(path)] > FLOOR_OF["operator"] and _reads_signatures(nodes(path))
    ]
    assert asking == []


def _reads_signatures(module: Iterable[ast.AST]) -> bool:
    r"""Whether a module asks for the parameters of a function.

    >>> [_reads_signatures(_parsed(text)) for text in ("inspect.signature(f)", "from inspect import signature")]
    [True, True]
    >>> [_reads_signatures(_parsed(text)) for text in ("f.__kwdefaults__", "signature('add', types)")]
    [True, False]
    """
    asked = {"signature", "getfullargspec", "__kwdefaults__", "__defaults__"}
    for node in module:
        if isinstance(node, ast.Attribute) and node.attr in asked:
            owner = node.value
            if node.attr.startswith("__") or (isinstance(owner, ast.Name) and owner.id == "inspect"):
                return True
        if isinstance(node, ast.ImportFrom) and node.module == "inspect" and asked & {one.name for one in node.names}:
            return True
    return False
