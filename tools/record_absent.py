"""Record the modules of Caffe2 that tazza has no work for yet, with their public names.

    python -m tools.record_absent CAFFE2_PYTHON_FOLDER

A line of `src/caffe2/python/_absent.txt` is a module and its names; the source is read, nothing is run. Tests and tools
are left out, and what is there.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "caffe2" / "python"
LIST = PACKAGE / "_absent.txt"
NOT_OFFERED = {
    *("operator_test", "test", "tests", "serialized_test", "mint", "bin"),
    *(
        "benchmark_generator",
        "binarysize",
        "lstm_benchmark",
        "numa_benchmark",
        "embedding_generation_benchmark",
    ),
}
"""Folders and files that are tests or programs."""


def is_there(module: str) -> bool:
    """Whether a module is among those that tazza brings."""
    path = PACKAGE.joinpath(*module.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def _folded(node: ast.expr) -> ast.expr:
    """Return a product of numbers as one."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return ast.Constant(ast.literal_eval(_folded(node.left)) * ast.literal_eval(_folded(node.right)))
    return node


def _taken(node: ast.FunctionDef) -> str:
    node.args.defaults = [_folded(value) for value in node.args.defaults]
    return f"({ast.unparse(node.args)})"


def public_names(source: str) -> list[str]:
    r"""Return the names that a module defines at its outermost level, those of functions with what they take.

    >>> public_names("import a\nB, _c = 1, 2\ndef d(x, y=2 * 3): e = 1\nclass F: pass")
    ['B', 'F', 'd(x, y=6)']
    """
    found: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name + _taken(node))
        elif isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found.update(one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name))
    return sorted(name for name in found if not name.startswith("_"))


def lines(folder: Path) -> Iterator[str]:
    """Yield a line for each module of a folder that tazza lacks."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        if NOT_OFFERED.intersection(parts) or path.stem.endswith(
            ("_test", "_test_util", "_test_utils", "_test_runner")
        ):
            continue
        module = ".".join(parts).removesuffix(".__init__")
        if module != "__init__" and not is_there(module):
            yield f"{module}: {'; '.join(public_names(path.read_text(encoding='utf-8')))}".rstrip()


if __name__ == "__main__":
    LIST.write_text("".join(f"{line}\n" for line in lines(Path(sys.argv[1]))), encoding="utf-8")
