"""Wrong indices and lengths, for every operator that takes some: an error that names them, from every engine.

Problems are drawn from the schemas, and one element of an input with the role INDEX is made another one: below 0, very
large, an extent of something else, one more than the largest. What is refused changes nothing, tables that an operator
updates neither. No engine may read or write outside of what there is, which pages around every tensor show; so this
runs in a process of its own (`tests/operator/spoiled.py`).
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tazza.operator import Role, find_schema
from tests.judge.draw import draw, drawable
from tests.operator.groups import GROUPS, in_groups
from tests.operator.spoiled import WRONG, Answer, Wrong, differs, wrong_indices

ROOT = Path(__file__).parents[2]


PICKING = [type for type in drawable() if any(spec.role is Role.INDEX for spec in find_schema(type).inputs)]
"""The operators that take indices, as far as problems can be drawn."""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python on some arguments."""
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def assert_right(types: Sequence[str]) -> None:
    """Assert that a process which judges operators lives, and finds nothing wrong."""
    found = run("-m", "tests.operator.spoiled", *types)
    lines = found.stdout.splitlines()
    assert found.returncode == 0, f"{lines[-1:]} ended it by {found.returncode}: {found.stderr[-2000:]}"
    assert lines == list(types), "\n".join(line for line in lines if line.startswith(WRONG))


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_wrong_indices_are_named_and_not_followed(group: int) -> None:
    assert_right(in_groups(PICKING)[group])


# -- the law itself ----------------------------------------------------------------------------------------------------

OUTSIDE = """
import sys
import numpy as np
from tests.operator.groups import GROUPS, in_groups
from tests.fence import between_pages
x = between_pages(np.arange(6.0), at_end={at_end})
print(x.sum(), flush=True)
np.lib.stride_tricks.as_strided(x, (9,), ({step},)).sum()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("at_end", "step"), [(True, 8), (False, -8)])
def test_what_reads_outside_ends_the_process(at_end: bool, step: int) -> None:
    found = run("-c", OUTSIDE.format(at_end=at_end, step=step))
    assert (found.stdout, found.returncode) == ("15.0\n", -signal.SIGSEGV)


def test_what_is_spoiled() -> None:
    problem = draw("SparseLengthsSum", 0)
    found = list(wrong_indices(problem))
    assert {one.letter for one in found} == {"INDICES", "LENGTHS"}
    for one in found:
        changed = {name for name, array in one.problem.inputs.items() if (array != problem.inputs[name]).any()}
        assert changed <= {one.name}
    assert {-1, np.iinfo(np.int32).min, np.iinfo(np.int32).max} <= {
        each.value for each in found if each.name == "LENGTHS"
    }


def test_what_an_error_has_to_say() -> None:
    problem = draw("Gather", 0)
    one = Wrong(
        replace(problem, inputs={**problem.inputs, "INDICES": np.zeros((4, 5), int)}), "INDICES", "INDICES", 7, -3
    )
    assert one.unnamed(Answer(None, "NumericError", "INDICES[1, 2] is -3, not in [0, 9)"), below_zero=False) == ""
    assert "which" in one.unnamed(Answer(None, "NumericError", "INDICES holds -3, not in [0, 9)"), below_zero=False)
    assert "looked" in one.unnamed(Answer(None, "KernelError", "INDICES[1, 2] is -3"), below_zero=False)
    assert one.unnamed(Answer(None, "ShapeError", "2 rows, there are 3"), below_zero=True) == ""
    assert "which" in replace(one, value=30).unnamed(Answer(None, "ShapeError", "too far"), below_zero=False)


def test_answers_that_differ() -> None:
    refusal, result = Answer(None, "NumericError", "I[3] is -1, not in [0, 2)"), Answer((np.ones(2),))
    assert differs(refusal, refusal) == differs(result, result) == ""
    assert differs(replace(refusal, text="I[2] is -1"), refusal)
    assert differs(replace(refusal, error="KernelError"), refusal)
    assert "W is another one" in differs(replace(refusal, changed="W"), refusal)
    assert differs(result, refusal)
    assert differs(Answer((np.ones(3),)), result)
    assert differs(Answer((np.zeros(2),)), result)
