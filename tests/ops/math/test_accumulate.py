"""Accumulate: recorded from a sum that is fed, and by hand from nothing, from another size, from no tensor."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import DTypeError, SchemaError
from tazza.operator import find_schema, operator_def, run_op
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences, recorded

X = np.array([1, 2, 3], np.float32)
ADD = operator_def("Accumulate", ["x"], ["y"])
HALF = operator_def("Accumulate", ["x"], ["y"], gamma=0.5)
CASES = [
    recorded("accumulated", stored=True),
    Sequence(
        "from nothing",
        (
            Step(ADD, {"y": X}, {"x": X}),
            Step(HALF, {"y": 1.5 * X}),
            Step(ADD, {"y": X[:2]}, {"x": X[:2]}),
            Step(HALF, {"y": X[:2]}, {"y": np.array([7, 8])}),
            Step(HALF, {"y": X[:2]}, {"y": "a text"}),
        ),
        stored=True,
    ),
]


@on_sequences(CASES)
def test_sums(case: Sequence) -> None:
    check_op(case)


def test_refused() -> None:
    with pytest.raises(DTypeError, match="X is float64"):
        run_op("Accumulate", np.arange(3.0))
    with pytest.raises(SchemaError, match="in place"):
        find_schema("Accumulate").view(operator_def("Accumulate", ["x"], ["x"]))
