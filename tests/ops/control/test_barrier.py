"""AsyncNetBarrier: what several operators made passes it together, and unchanged."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import SchemaError
from tazza.operator import find_schema, operator_def
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences

X = np.arange(6, dtype=np.float32).reshape(2, 3)
BARRIER = operator_def("AsyncNetBarrier", ["x", "n", "text"], ["x", "n", "text"], cross_device=1)
CASES = [
    Sequence(
        "three",
        (
            Step(BARRIER, {"x": X, "n": np.arange(2), "text": b"a"}, {"x": X, "n": np.arange(2), "text": "a"}),
            Step(operator_def("AsyncNetBarrier", ["x"], ["x"]), {"x": X}),
        ),
        stored=True,
    )
]


@on_sequences(CASES)
def test_barriers(case: Sequence) -> None:
    check_op(case)


@pytest.mark.parametrize("outputs", [["x"], ["x", "y"], ["z", "x"]])
def test_each_passes_in_place(outputs: list[str]) -> None:
    with pytest.raises(SchemaError):
        find_schema("AsyncNetBarrier").view(operator_def("AsyncNetBarrier", ["x", "z"], outputs))
