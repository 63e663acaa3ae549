"""Files of engines and of the code generator have a test of their own name: what breaks turns a small one red."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGE, TESTS = ROOT / "src" / "tazza", ROOT / "tests"
MIRRORED = ("engines", "codegen")


def _places(file: PurePosixPath) -> list[PurePosixPath]:
    """Return where the test of a file of the package may lie; kernels of a family have theirs where the family has it.

    >>> [str(place) for place in _places(PurePosixPath("codegen/loop.py"))]
    ['codegen/test_loop.py']
    >>> [str(place) for place in _places(PurePosixPath("engines/onednn/nn/pool.py"))]
    ['engines/onednn/nn/test_pool.py', 'ops/nn/test_pool.py']
    """
    name = f"test_{file.name}"
    own = [file.with_name(name)]
    _, *folders = file.parts[:-1]
    return [*own, PurePosixPath("ops", *folders[1:], name)] if len(folders) > 1 else own


def _without_a_test(files: Iterable[PurePosixPath], tests: set[PurePosixPath]) -> list[str]:
    """Name the files that have none; `__init__` and what is generated, `_declarations`, need none."""
    asked = (file for file in files if not file.name.startswith("_"))
    return [str(file) for file in asked if not tests.intersection(_places(file))]


def _below(folder: Path, pattern: str) -> set[PurePosixPath]:
    return {PurePosixPath(path.relative_to(folder).as_posix()) for path in folder.rglob(pattern)}


def test_every_file_has_a_test_of_its_own_name() -> None:
    files = sorted(file for file in _below(PACKAGE, "*.py") if file.parts[0] in MIRRORED)
    assert len(files) > 100
    assert _without_a_test(files, _below(TESTS, "test_*.py")) == []


TESTED = {
    "engines/native/test_lazy.py",
    "engines/native/winograd/test_code.py",
    "ops/nn/test_conv.py",
    "ops/math/test_fold.py",
    "ops/test_pool.py",
}


@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("engines/native/lazy.py", True),
        ("engines/native/direct.py", False),
        ("engines/native/winograd/code.py", True),
        ("engines/native/few_channels/code.py", False),
        ("engines/gemm/nn/conv.py", True),
        ("engines/gemm/math/conv.py", False),
        ("engines/onednn/conv.py", False),
        ("engines/onednn/pool.py", False),
        ("codegen/lazy.py", False),
        ("codegen/fold.py", False),
        ("engines/native/__init__.py", True),
        ("engines/onednn/_declarations.py", True),
    ],
)
def test_files_without_one_are_noticed(file: str, found: bool) -> None:
    """The name alone does not do: the test lies in the same folder, or in the field of the family."""
    missing = _without_a_test([PurePosixPath(file)], {PurePosixPath(test) for test in TESTED})
    assert missing == ([] if found else [file])
