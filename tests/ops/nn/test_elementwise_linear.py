"""ElementwiseLinear and its gradient: against one column after the other; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers around 0, the same in every run."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape, np.float32)


X = values(2, 3, 5)
W, B = values(5, seed=1), values(5, seed=2)


def by_column(X: Array, w: Array, b: Array) -> Array:
    """Return Y."""
    Y = X.reshape(-1, len(w)).copy()
    for d in range(len(w)):
        Y[:, d] = Y[:, d] * w[d] + b[d]
    return Y.reshape(X.shape)


def slopes(dY: Array, X: Array, w: Array) -> list[Array]:
    """Return dX, dw and db."""
    x, dy = X.reshape(-1, len(w)), dY.reshape(-1, len(w))
    columns = range(len(w))
    dX = np.stack([dy[:, d] * w[d] for d in columns], axis=1)
    return [dX.reshape(X.shape), np.array([dy[:, d] @ x[:, d] for d in columns]), dy.sum(axis=0)]


LAST = {"axis": 2}
CASES = [
    Case("ElementwiseLinear", [X[0], W, B], by_column, batched=(0,), slack=4),
    Case("ElementwiseLinear", [X, W, B], by_column, LAST, slack=4, id="last axis"),
    Case("ElementwiseLinear", [X, W, B], by_column, {"axis": -1}, slack=4, id="counted from the end"),
    Case("ElementwiseLinear", [X, values(15), values(15, seed=1)], by_column, slack=4, id="two axes of columns"),
    Case("ElementwiseLinear", [W, W, B], by_column, {"axis": 0}, slack=4, id="one row"),
    Case("ElementwiseLinear", [X[:, :0], W, B], X[:, :0], LAST, gradient=False, id="no rows"),
    Case("ElementwiseLinearGradient", [X[1], X[0], W], slopes, outputs=3, slack=4),
    Case("ElementwiseLinearGradient", [X + 1, X, W], slopes, LAST, 3, slack=4, id="last axis"),
    Case("ElementwiseLinearGradient", [X.reshape(6, 5) + 1, X, W], slopes, LAST, 3, slack=4, id="dY of another shape"),
    Case("ElementwiseLinearGradient", [X[:0], X[:0], W], (X[:0], 0 * W, 0 * W), LAST, 3, id="no rows"),
]


@on_all_engines(CASES)
def test_elementwise_linear(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([X, W, B], {}, ShapeError, "w has 5 elements, X has D = 15 columns"),
    ([X, W, B[:4]], LAST, ShapeError, r"D is \(4\) in b and \(5\) in w"),
    ([X, W[None], B], LAST, ShapeError, "w has rank 2"),
    ([X, W, B], {"axis": 3}, ShapeError, "axis = 3 is not an axis of X"),
    ([X.astype(np.float64), W, B], LAST, DTypeError, "X is float64"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("ElementwiseLinear", *inputs, **args)
