"""The package of old names is thin: it holds no kernel and no loop over data, and nothing in tazza knows of it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.trees import nodes, tree

SOURCE = Path(__file__).parents[2] / "src"
FILES = sorted((SOURCE / "caffe2").rglob("*.py"))

KERNELS = {"KERNELS", "kernel", "host_kernel", "schema", "family", "operator_of", "register_function", "launcher"}
"""What declares operators or computes them."""
COMPILERS = {"llvmlite", "cffi", "ctypes"}
ELEMENTS = {"flat", "flatten", "ravel", "nditer", "ndenumerate", "ndindex", "tolist", "tobytes"}
"""What goes through the elements of an array."""


def _imports(path: Path) -> Iterator[tuple[str, str]]:
    """Yield module and name of all that a file imports."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def _element_loops(source: ast.AST) -> Iterator[int]:
    r"""Yield the lines of loops over the elements of arrays.

    >>> list(_element_loops(ast.parse("for x in a.flat:\n    pass\ny = [x for x in np.nditer(a)]\nz = a.flatten()")))
    [1, 3]
    """
    for node in ast.walk(source):
        if isinstance(node, (ast.For, ast.comprehension)):
            names = {part.attr for part in ast.walk(node.iter) if isinstance(part, ast.Attribute)}
            if names & ELEMENTS:
                yield node.iter.lineno


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_it_holds_no_kernel_and_no_loop_over_data(path: Path) -> None:
    imported = list(_imports(path))
    assert [name for module, name in imported if module.startswith("tazza.operator") and name in KERNELS] == []
    assert [module for module, _ in imported if module.split(".")[0] in COMPILERS] == []
    assert list(_element_loops(tree(path))) == []


@pytest.mark.slow
def test_nothing_in_tazza_imports_it() -> None:
    files = (SOURCE / "tazza").rglob("*.py")
    users = [path for path in files for module, _ in _imports(path) if module.partition(".")[0] == "caffe2"]
    assert users == []


@pytest.mark.slow
def test_an_import_loads_nothing_heavy() -> None:
    """250 ms over NumPy is what it may cost; what would cost more is not there afterwards."""
    program = "import sys, caffe2.python.workspace; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert {"matplotlib", "typer", "rich", "lmdb", "scipy", "llvmlite", "cffi"}.intersection(loaded) == set()
    assert [name for name in loaded if name.startswith("tazza.engines.")] == []


def test_a_mixture_with_an_old_torch_is_refused(tmp_path: Path) -> None:
    """Its extension beside these modules: a message, no mixture."""
    mixed = tmp_path / "caffe2" / "python"
    mixed.mkdir(parents=True)
    (tmp_path / "caffe2" / "__init__.py").touch()
    (mixed / "__init__.py").write_text((SOURCE / "caffe2" / "python" / "__init__.py").read_text())
    (mixed / "caffe2_pybind11_state.cpython-311-x86_64-linux-gnu.so").touch()
    program = "import caffe2.python"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env={})
    assert done.returncode == 1
    assert "two frameworks lie in one folder" in done.stderr
