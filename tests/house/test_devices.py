"""Devices are said once: the host's kind of place is spelt in one file, and no net makes a context of its own kind."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tazza.tensor.place import CPU_KIND
from tests.house.trees import nodes

PACKAGE = Path(__file__).parent.parent.parent / "src" / "tazza"
SPELLS_IT = PACKAGE / "tensor" / "place.py"
BELOW = PACKAGE / "runtime"
"""The floor below places, which knows none: there it is the name of a controller of the kernel's."""

BRINGS_CONTEXTS = PACKAGE / "device"


def spelt(tree: Iterable[ast.AST]) -> list[int]:
    """Return the lines of strings that are the host's kind of place."""
    return [node.lineno for node in tree if isinstance(node, ast.Constant) and node.value == CPU_KIND]


def made(tree: Iterable[ast.AST]) -> list[int]:
    """Return the lines that name the class of the host's contexts."""
    return [node.lineno for node in tree if isinstance(node, ast.Name) and node.id == "CPUContext"]


def _files(*without: Path) -> Iterator[Path]:
    return (path for path in sorted(PACKAGE.rglob("*.py")) if not any(path.is_relative_to(one) for one in without))


def test_one_file_spells_the_kind_of_the_host() -> None:
    assert {str(path): lines for path in _files(SPELLS_IT, BELOW) if (lines := spelt(nodes(path)))} == {}
    assert len(spelt(nodes(SPELLS_IT))) == 1


def test_contexts_are_given_or_made_for_a_place() -> None:
    assert {str(path): lines for path in _files(BRINGS_CONTEXTS) if (lines := made(nodes(path)))} == {}


@pytest.mark.parametrize(
    ("look", "line"),
    [
        (spelt, 'kernels = KERNELS[type, "cpu", "reference"]'),
        (spelt, 'def takes(type: str, device: str = "cpu") -> bool: ...'),
        (spelt, 'if place.kind != "cpu": pass'),
        (made, "program = compile_region(region, specs, CPUContext())"),
    ],
)
def test_the_gate_sees_one_that_is_put_in(look: object, line: str) -> None:
    assert callable(look)
    assert look(ast.walk(ast.parse(f'"""The "cpu"."""\n{line}\n'))) == [2]
