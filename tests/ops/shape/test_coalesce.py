"""UnsafeCoalesce: by hand; what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import DTypeError, SchemaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

X = np.random.default_rng(1).standard_normal((2, 3, 5)).astype(np.float32)
FEW = np.array([7, 8], np.float32)
CASES = [
    Case("UnsafeCoalesce", [X, FEW], lambda x, y: (x, y, np.append(x.ravel(), y)), outputs=3),
    Case("UnsafeCoalesce", [FEW], (FEW, FEW), outputs=2, id="one"),
    Case("UnsafeCoalesce", [X[:0], np.array(3, "f")], (X[:0], np.array(3), np.array([3])), outputs=3, id="of any rank"),
    Case("UnsafeCoalesce", [], np.zeros(0), outputs=1, id="none"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_refused() -> None:
    with pytest.raises(DTypeError, match="X is int64"):
        run_op("UnsafeCoalesce", FEW, np.arange(3), outputs=3)
    with pytest.raises(SchemaError, match="1 Y for 2 X"):
        run_op("UnsafeCoalesce", FEW, FEW, outputs=2)
