"""What Caffe2 put into step nets at run time, in nets that were written down with it: links, sums of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ShapeError, TazzaError
from tazza.operator import operator_def
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences

STATES = np.arange(10, dtype=np.float32).reshape(5, 2)


STEP = np.array([1], np.int32)
LINK = operator_def("rnn_internal_apply_link", ["timestep", "states"], ["inner", "states"], offset=1, window=2)
ADD = operator_def(
    "rnn_internal_accumulate_gradient_input", ["timestep", "given", "gradients"], ["gradients"], offset=2
)
ADDED = STATES.copy()
ADDED[3] += 2
CASES = [
    Sequence(
        "rows",
        (
            Step(LINK, {"inner": STATES[2:4], "states": STATES}, {"timestep": STEP, "states": STATES}),
            Step(ADD, {"gradients": ADDED}, {"given": np.full((3, 2), 2, np.float32), "gradients": STATES}),
            Step(LINK, feeds={"timestep": STEP + 3}, fails=ShapeError, text=r"rows \[5, 7\)"),
        ),
        stored=True,
    )
]


@on_sequences(CASES)
def test_cases(case: Sequence) -> None:
    check_op(case)


def linked(step: int, **arguments: Any) -> Workspace:
    """Return a workspace after a link at a step of states (5, 2)."""
    ws = Workspace()
    ws.feed("timestep", np.array([step], np.int32))
    ws.feed("states", STATES)
    op = operator_def("rnn_internal_apply_link", ["timestep", "states"], ["inner", "states"], **arguments)
    ws.run_operator(op)
    return ws


@pytest.mark.parametrize(("step", "offset", "window"), [(0, 0, 1), (2, 1, 1), (1, 0, 3), (3, 0, 2)])
def test_a_link_is_a_view(step: int, offset: int, window: int) -> None:
    ws = linked(step, offset=offset, window=window)
    rows = slice(step + offset, step + offset + window)
    np.testing.assert_array_equal(ws.fetch("inner"), STATES[rows])
    ws.run_operator(operator_def("Scale", ["inner"], ["inner"], scale=-1.0))
    np.testing.assert_array_equal(ws.fetch("states")[rows], -STATES[rows])


def test_a_link_behind_the_last_row_is_refused() -> None:
    with pytest.raises(ShapeError):
        linked(4, offset=1, window=1)


@pytest.mark.parametrize("steps", [[], [0, 1]])
def test_a_step_that_is_no_single_number_is_refused(steps: list[int]) -> None:
    ws = Workspace()
    ws.feed("timestep", np.array(steps, np.int32))
    ws.feed("states", STATES)
    with pytest.raises(ShapeError):
        ws.run_operator(
            operator_def("rnn_internal_apply_link", ["timestep", "states"], ["inner", "states"], offset=0, window=1)
        )


def test_gradients_of_a_step_are_added() -> None:
    ws = Workspace()
    ws.feed("timestep", np.array([1], np.int32))
    ws.feed("given", np.full((3, 2), 2, np.float32))
    ws.feed("gradients", STATES)
    names = ["timestep", "given", "gradients"], ["gradients"]
    ws.run_operator(operator_def("rnn_internal_accumulate_gradient_input", *names, offset=2))
    expected = STATES.copy()
    expected[3] += 2
    np.testing.assert_array_equal(ws.fetch("gradients"), expected)
    ws.feed("timestep", np.array([4], np.int32))
    with pytest.raises(TazzaError):
        ws.run_operator(operator_def("rnn_internal_accumulate_gradient_input", *names, offset=2))
