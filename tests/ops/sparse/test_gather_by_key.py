"""GatherByKey: row after row, the opposite of Partition, its gradient, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, ShapeError, TazzaError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
KEYS = np.array([4, -1, 0, 7, -6, 5], np.int32)


def row_after_row(keys: Array, *X: Array) -> Array:
    """Take the next row of the part of each key."""
    left = [iter(part) for part in X]
    return np.array([next(left[int(key) % len(X)]) for key in keys], X[0].dtype)


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng([sum(shape), seed]).standard_normal(shape).astype(np.float32)


CASES = [
    Case("GatherByKey", [KEYS, values(3, 2), values(3, 2, seed=1)], row_after_row),
    Case("GatherByKey", [KEYS, values(2, 3, 2), values(2, 3, 2, seed=1), values(2, 3, 2, seed=2)], row_after_row),
    Case("GatherByKey", [KEYS.astype(np.int64), values(6)], row_after_row, id="one part"),
    Case("GatherByKey", [2 * KEYS, values(6), values(0)], row_after_row, id="a part without rows"),
    Case("GatherByKey", [KEYS[:0], values(0, 4), values(0, 4)], values(0, 4), id="no keys"),
    Case(
        "GatherByKey",
        [np.array([1, 0]), np.array([b"a"], object), np.array([b"bc"], object)],
        np.array([b"bc", b"a"], object),
        gradient=False,
        id="text",
    ),
]


@on_all_engines(CASES)
def test_rows(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_it_is_the_opposite_of_partition(parts: int) -> None:
    keys, X = np.random.default_rng(parts).integers(-20, 20, 17), values(17, 3)
    divided = run_op("Partition", keys, X, outputs=2 * parts)
    np.testing.assert_array_equal(run_op("GatherByKey", keys, *divided[1::2]), X)


def test_gradient_divides() -> None:
    op = find_schema("GatherByKey").view(operator_def("GatherByKey", ["k", "a", "b"], ["y"]))
    (emitted,), given = gradient_for_op(op, ["dy"])
    assert (emitted.type, list(emitted.input)) == ("Partition", ["k", "dy"])
    assert list(emitted.output) == ["_a_grad_keys", "a_grad", "_b_grad_keys", "b_grad"]
    assert [(one.name, one.i) for one in emitted.arg] == [("pack_first_input", 0)]
    assert given == [None, "a_grad", "b_grad"]


REFUSED: list[tuple[list[Any], type[TazzaError], str]] = [
    ([KEYS, values(2), values(3)], NumericError, "3 keys belong to X0, which has 2 rows"),
    ([KEYS, values(3), values(4)], NumericError, "3 keys belong to X1, which has 4 rows"),
    ([KEYS, values(3), np.arange(3)], DTypeError, "X1 is int64, X0 is float32"),
    ([KEYS, values(3, 2), values(3, 4)], ShapeError, r"X1 has the shape \(3, 4\), X0 \(3, 2\)"),
    ([KEYS.reshape(2, 3), values(3), values(3)], ShapeError, "rank"),
    ([KEYS.astype(np.float32), values(3), values(3)], DTypeError, "keys is float32"),
]


@pytest.mark.parametrize(("inputs", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("GatherByKey", *inputs)
