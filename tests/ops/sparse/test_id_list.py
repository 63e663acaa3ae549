"""MergeIdLists and KeySplit: by sets and by looking for each key; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, NumericError, SchemaError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def whole(*numbers: Any) -> Array:
    """Return int32 numbers."""
    return np.array(numbers, np.int32)


def united(seed: int, lists: int, dtype: Any, more: int = 0) -> Case:
    """Return random lists of 6 examples; `more` ids of each belong to none."""
    rng = np.random.default_rng(seed)
    sets: list[set[int]] = [set() for _ in range(6)]
    inputs: list[Array] = []
    for _ in range(lists):
        own = [rng.integers(-9, 9, rng.integers(0, 5)).tolist() for _ in sets]
        for found, ids in zip(sets, own, strict=True):
            found.update(ids)
        flat = [id for ids in own for id in ids] + [3] * more
        inputs += [whole(*map(len, own)), np.array(flat, dtype)]
    wanted = [id for found in sets for id in sorted(found)]
    expected = (whole(*map(len, sets)), np.array(wanted, dtype))
    return Case("MergeIdLists", inputs, expected, outputs=2, id=f"{lists} lists, {more} more")


KEYS = np.array([[2, 0, 3], [0, 2, 2]])
CASES = [
    united(1, 3, np.int64),
    united(2, 2, np.int32, more=2),
    united(3, 1, np.int64),
    Case("MergeIdLists", [whole(), whole()], (whole(), whole()), outputs=2, id="no examples"),
    Case(
        "KeySplit",
        [KEYS.reshape(-1)],
        (whole(1, 3), whole(), whole(0, 4, 5), whole(2)),
        {"categorical_limit": 4},
        outputs=4,
    ),
    Case(
        "KeySplit",
        [KEYS],
        (whole(1, 3), whole(), whole(0, 4, 5), whole(2), whole(), whole()),
        {"categorical_limit": 4},
        outputs=6,
        id="two axes, and outputs more",
    ),
    Case("KeySplit", [KEYS[:0]], (whole(), whole()), {"categorical_limit": 2}, outputs=2, id="none"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("MergeIdLists", [whole(1, 1), whole(5)], {}, NumericError, "lengths0 add up to 2, and ids0 has 1 elements"),
    ("MergeIdLists", [whole(1), whole(5), whole(2, -1), whole(5, 6)], {}, ShapeError, "lengths1 has 2 elements"),
    ("MergeIdLists", [whole(2, -1), whole(5, 6)], {}, NumericError, r"lengths0\[1\] is -1"),
    ("MergeIdLists", [whole(1), whole(5), whole(1), np.array([5])], {}, DTypeError, "ids1 is int64, ids0 is int32"),
    ("MergeIdLists", [whole(1).reshape(1, 1), whole(5)], {}, ShapeError, "rank"),
    ("MergeIdLists", [whole(1), whole(5), whole(1)], {}, SchemaError, "2 lengths and 1 ids do not go in turn"),
    ("KeySplit", [KEYS], {"categorical_limit": 3, "outputs": 3}, NumericError, r"X\[0, 2\] is 3, not in \[0, 3\)"),
    ("KeySplit", [-KEYS], {"categorical_limit": 3, "outputs": 3}, NumericError, r"X\[0, 0\] is -2, not in \[0, 3\)"),
    ("KeySplit", [KEYS], {"categorical_limit": 4, "outputs": 3}, ArgumentError, "= 4 keys for 3 outputs"),
    ("KeySplit", [KEYS], {"categorical_limit": 0, "outputs": 1}, ArgumentError, "categorical_limit"),
    ("KeySplit", [KEYS], {"outputs": 1}, ArgumentError, "needs the argument 'categorical_limit'"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
