"""Inputs without elements along any axis, for every operator and engine; nothing is touched beside what there is.

Problems are drawn from the schemas; each of their extents is made 0, in all inputs that have it and in one alone. What
the reference takes gives the same on every engine and in a plan, and errors have a type. Pages around every tensor show
who reads or writes elsewhere; so this runs in a process of its own (`tests/operator/hollow.py`).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.judge.draw import draw, drawable
from tests.operator.groups import GROUPS, in_groups
from tests.operator.hollow import hollow
from tests.operator.spoiled import WRONG

ROOT = Path(__file__).parents[2]


def assert_right(kinds: Sequence[str]) -> None:
    """Assert that a process which judges operators lives, and finds nothing wrong."""
    command = [sys.executable, "-m", "tests.operator.hollow", *kinds]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = found.stdout.splitlines()
    assert found.returncode == 0, f"{lines[-1:]} ended it by {found.returncode}: {found.stderr[-2000:]}"
    assert lines == list(kinds), "\n".join(line for line in lines if line.startswith(WRONG))


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_inputs_without_elements(group: int) -> None:
    assert_right(in_groups(drawable())[group])


def test_what_is_hollow() -> None:
    problem = draw("FC", 0)
    found = list(hollow(problem))
    assert all(any(array.size == 0 for array in one.inputs.values()) for _, one in found)
    extents = {extent for array in problem.inputs.values() for extent in array.shape}
    for extent in extents:
        together = next(one for told, one in found if told.startswith(f"{extent} -> 0"))
        assert not any(extent in np.shape(array) for array in together.inputs.values())
