"""SumRelu: against sums of Python numbers; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, GradientError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
A, B = (np.random.default_rng(seed).standard_normal((2, 3, 5)).astype("f") for seed in (0, 1))
WHOLE = np.arange(15, dtype="i").reshape(3, 5) - 7


def rectified(*blobs: Array) -> Array:
    """Return the sums, one after the other."""
    rows = zip(*(blob.ravel().tolist() for blob in blobs), strict=True)
    return np.array([max(sum(row), 0) for row in rows]).reshape(blobs[0].shape)


CASES = [
    Case("SumRelu", [A, B], rectified),
    Case("SumRelu", [A, B, A], rectified, id="three"),
    Case("SumRelu", [A], rectified, id="one"),
    Case("SumRelu", [A.astype("d"), B.astype("d")], rectified, id="float64"),
    Case("SumRelu", [WHOLE, WHOLE * 2], rectified, id="int32"),
    Case("SumRelu", [A[:0], B[:0]], rectified, id="empty"),
]


@on_all_engines(CASES)
def test_sum_relu(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_refused() -> None:
    with pytest.raises(ShapeError, match=r"X1 has the shape \(3, 5\), X0 has \(2, 3, 5\)"):
        run_op("SumRelu", A, B[0])
    with pytest.raises(DTypeError, match="X is int64"):
        run_op("SumRelu", WHOLE.astype("q"), WHOLE.astype("q"))
    with pytest.raises(GradientError, match="Caffe2 has none"):
        gradient_for_op(find_schema("SumRelu").view(operator_def("SumRelu", ["a", "b"], ["y"])), ["dy"])
