"""IsMemberOf: by hand; values of another type."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import ArgumentError, DTypeError
from tazza.operator import run_op
from tazza.tensor import DataType
from tests.check import Case, check_op, on_all_engines

X = np.array([[1, 2, 3], [2, -9, 7]], np.int32)
TEXTS = np.array([b"a", b"bc", b""], object)
CASES = [
    Case("IsMemberOf", [X], np.isin(X, [2, 7]), {"value": [2, 7, 100]}, batched=(0,)),
    Case("IsMemberOf", [X.astype(np.int64)], np.isin(X, [2]), {"value": [2], "dtype": DataType.INT64.proto}),
    Case("IsMemberOf", [X > 1], X <= 1, {"value": [0]}, id="truths"),
    Case("IsMemberOf", [TEXTS], np.array([True, False, True]), {"value": [b"a", b""]}, id="texts"),
    Case("IsMemberOf", [X], np.zeros(X.shape, bool), id="no values"),
    Case("IsMemberOf", [X], np.zeros(X.shape, bool), {"value": [2], "dtype": DataType.INT64.proto}, id="other type"),
    Case("IsMemberOf", [np.array(2)], np.array(True), {"value": [2]}, id="rank 0"),
]


@on_all_engines(CASES)
def test_is_member_of(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_other_types_are_refused() -> None:
    with pytest.raises(DTypeError, match="X is float32"):
        run_op("IsMemberOf", np.ones(2, np.float32), value=[1])
    with pytest.raises(ArgumentError, match="dtype"):
        run_op("IsMemberOf", X, value=[1], dtype=DataType.FLOAT.proto)
