"""Collective operators of GPUs: nets that name them are read, and a run says why it ends."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import SchemaError, UnavailableError
from tazza.operator import find_schema, operator_def
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences

X = {name: np.arange(4, dtype=np.float32) for name in "ab"}
STEPS = {
    "NCCLAllreduce": ["a", "c"],
    "NCCLBroadcast": ["a", "b"],
    "NCCLReduce": ["b"],
    "NCCLAllGather": ["c", "d"],
    "NCCLReduceScatter": ["c", "d"],
}
CASES = [
    Sequence(
        type, (Step(operator_def(type, ["a", "b"], out), {}, X, UnavailableError, f"{type}: it needs the library"),)
    )
    for type, out in STEPS.items()
]


@on_sequences(CASES)
def test_why(case: Sequence) -> None:
    check_op(case)


@pytest.mark.parametrize(
    ("type", "outputs"),
    [
        ("NCCLBroadcast", ["a", "c"]),
        ("NCCLAllGather", ["a", "c"]),
        ("NCCLReduce", ["c", "d"]),
        ("NCCLAllreduce", ["c"]),
    ],
)
def test_refused(type: str, outputs: list[str]) -> None:
    with pytest.raises(SchemaError):
        find_schema(type).view(operator_def(type, ["a", "b"], outputs))
