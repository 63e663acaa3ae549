"""AsyncNetBarrier, DataCouple: what several operators made passes it together, and unchanged."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import SchemaError
from tazza.operator import Cost, find_schema, operator_def
from tazza.ops.control.barrier import barriers
from tazza.tensor import DataType, TensorSpec
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
    ),
    Sequence(
        "the first of two",
        (Step(operator_def("DataCouple", ["x", "text"], ["x"]), {"x": X, "text": b"a"}, {"x": X, "text": "a"}),),
        stored=True,
    ),
]


@on_sequences(CASES)
def test_barriers(case: Sequence) -> None:
    check_op(case)


WRONG = [("AsyncNetBarrier", ["x"]), *((type, two) for type in barriers for two in (["x", "y"], ["z", "x"]))]


@pytest.mark.parametrize(("type", "outputs"), WRONG)
def test_each_passes_in_place(type: str, outputs: list[str]) -> None:
    with pytest.raises(SchemaError, match=type):
        find_schema(type).view(operator_def(type, ["x", "z"], outputs))


@pytest.mark.parametrize("type", barriers)
def test_nothing_is_done(type: str) -> None:
    view = find_schema(type).view(operator_def(type, ["x"], ["x"]))
    specs = (TensorSpec((2, 3), DataType.FLOAT),)
    assert find_schema(type).infer_cost(view, specs, specs) == Cost()
    assert find_schema(type).infer_specs(view, specs).specs == specs
