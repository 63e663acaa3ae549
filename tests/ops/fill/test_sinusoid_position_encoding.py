"""SinusoidPositionEncoding: by its formula, one element after the other; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import DTypeError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

X = np.array([[3, 3], [0, 0], [-7, -7]], np.int32)
ARGS: dict[str, Any] = {"embedding_size": 5, "alpha": 100.0, "amplitude": 2.0}


def waves(X: Any) -> Any:
    """Return the sine or cosine of each element."""
    Y = np.zeros((*X.shape, 5))
    for n, k, i in np.ndindex(Y.shape):
        Y[n, k, i] = 2 * (np.cos if i % 2 else np.sin)(X[n, k] / 100 ** (i / 5))
    return Y


CASES = [
    Case("SinusoidPositionEncoding", [X], waves, ARGS),
    Case("SinusoidPositionEncoding", [X.astype(np.int64)[:, :1]], waves, ARGS, id="int64"),
    Case("SinusoidPositionEncoding", [X[:, :0]], np.zeros((3, 0, 5)), ARGS, id="nothing"),
    Case("SinusoidPositionEncoding", [np.array([[3, 8]])], waves(X[:1]), ARGS, id="the first of a row counts"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_refused() -> None:
    with pytest.raises(ShapeError, match="X"):
        run_op("SinusoidPositionEncoding", X[0])
    with pytest.raises(DTypeError, match="float32"):
        run_op("SinusoidPositionEncoding", X.astype("f"))
