"""The types of a file are checked again where something that it imports changed, and of no other file."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tools import check_types
from tools.check_types import ROOT, all_from, imported, keys, modules


def by_syntax(source: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.mark.slow
def test_no_import_is_overlooked() -> None:
    """What is found by the look of lines holds all modules of ours that the syntax tells."""
    places = modules(check_types.files())
    for path in check_types.files()[::5]:
        source = path.read_text(encoding="utf-8")
        assert by_syntax(source) & places.keys() <= set(imported(source)), path


def test_who_imports_what_changed_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_types, "ROOT", tmp_path)
    texts = {"a": "x = 1\n", "b": "from tests import a\n", "c": "import tests.b\n", "d": "y = 2\n"}
    (tmp_path / "tests").mkdir()
    paths = {name: tmp_path / "tests" / f"{name}.py" for name in texts}
    for name, text in texts.items():
        paths[name].write_text(text)
    before = keys(paths.values())
    paths["a"].write_text("x = ''\n")
    after = keys(paths.values())
    assert {name for name, path in paths.items() if before[path] != after[path]} == {"a", "b", "c"}


@pytest.mark.slow
@pytest.mark.delivery
def test_all_types_are_right() -> None:
    """Minutes where nothing is known; `make check` looks at the package alone then."""
    command = [sys.executable, "-m", "tools.check_types", "--whole"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout[-4000:] + checked.stderr[-4000:]


def test_what_differs_from_the_last_commit_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_types, "ROOT", tmp_path)
    assert check_types.changed() == set(), "there is no git"
    git = ["git", "-c", "user.name=a", "-c", "user.email=b"]
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text("x = 1\n")
    for words in (["init", "--quiet"], ["add", "a.py", "b.py"], ["commit", "--quiet", "--message=c"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    (tmp_path / "b.py").write_text("x = 2\n")
    assert check_types.changed() == {"b.py", "c.py"}


def test_circles_end() -> None:
    a, b = ROOT / "a.py", ROOT / "b.py"
    assert all_from(a, {a: {b}, b: {a}}) == {a, b}
