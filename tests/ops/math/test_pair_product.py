"""ConcatBatchMatMulBatchGatherOp: against a dot product for each pair; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, SchemaError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
TYPE = "ConcatBatchMatMulBatchGatherOp"
PAIRS = np.array([0, 5, 7, 5], "i")
MANY = np.random.default_rng(5).permutation(19 * 19).astype("i")


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers of that shape."""
    return np.random.default_rng(seed).standard_normal(shape).astype("f")


VECTORS = [values(2, 5, seed=i) for i in range(3)]


def dots(pairs: Array, *X: Array) -> Array:
    """Return one dot product in float64 for each row and pair."""
    Y = np.zeros((len(X[0]), pairs.size))
    for b, i in np.ndindex(*Y.shape):
        j, k = divmod(int(pairs[i]), len(X))
        Y[b, i] = np.dot(X[j][b].astype("d").ravel(), X[k][b].ravel())
    return Y


CASES = [
    Case(TYPE, [PAIRS, *VECTORS], dots),
    Case(TYPE, [PAIRS[:1], VECTORS[0]], dots, id="one blob"),
    Case(TYPE, [np.array([1, 2], "i"), values(2, 3, 4), values(2, 3, 4, seed=1)], dots, id="rank 3"),
    Case(TYPE, [np.array([1, 2], "i"), values(4), values(4, seed=1)], dots, id="rank 1"),
    Case(TYPE, [PAIRS.astype("q"), *VECTORS], dots, id="int64"),
    Case(TYPE, [PAIRS.reshape(2, 2), *VECTORS], dots(PAIRS, *VECTORS).reshape(2, 2, 2), id="pairs of rank 2"),
    Case(TYPE, [MANY, *np.rint(values(19, 3, 37))], dots, batched=(*range(1, 20),), id="all pairs"),
    Case(TYPE, [PAIRS[:0], *VECTORS], np.zeros((2, 0)), id="no pairs"),
    Case(TYPE, [PAIRS, *(x[:0] for x in VECTORS)], np.zeros((0, 4)), id="no rows"),
    Case(TYPE, [PAIRS, *(x[:, :0] for x in VECTORS)], np.zeros((2, 4)), id="no elements"),
]


@on_all_engines(CASES)
def test_pair_product(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[list[Any], type[Exception], str]] = [
    # Caffe2 reads foreign memory.
    ([np.array([0, 9], "i"), *VECTORS], NumericError, r"pairs\[1\] is 9, not in \[0, 9\)"),
    ([np.array([-1], "i"), *VECTORS], NumericError, r"pairs\[0\] is -1, not in \[0, 9\)"),
    ([PAIRS, VECTORS[0], values(2, 4)], ShapeError, r"S is \(4\) in X and \(5\) in X"),
    ([PAIRS, VECTORS[0], VECTORS[1].astype("d")], DTypeError, "X is float64, it must be float32"),
    ([PAIRS.astype("f"), *VECTORS], DTypeError, "pairs is float32"),
    ([PAIRS], SchemaError, "1 inputs"),
]


@pytest.mark.parametrize(("inputs", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(TYPE, *inputs)
