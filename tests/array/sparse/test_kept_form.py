"""What products of a COO matrix keep: sorted once, and never used when the matrix has become another."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tazza.array.sparse import COO
from tazza.tensor import Tensor

ROWS, COLUMNS = np.array([4, 0, 2, 4, 1], np.int32), np.array([1, 2, 0, 1, 2], np.int32)
VALUES = np.array([1, 2, 3, 4, 5], np.float32)
D = np.array([[1, 2], [10, 20], [100, 200]], np.float32)


def matrix_of(copied: bool) -> COO:
    """Return a matrix whose memory is its own, or shared with whoever made it."""
    return COO((5, 3), ROWS.copy(), COLUMNS.copy(), VALUES.copy(), copy=copied)


def product_of(S: COO) -> np.ndarray[Any, Any]:
    dense = np.zeros((5, 3), np.float32)
    np.add.at(dense, (S.rows.plain(), S.columns.plain()), S.values.plain())
    return dense @ D


@pytest.fixture
def sorts(monkeypatch: pytest.MonkeyPatch) -> list[COO]:
    """Return the matrices that were sorted, as they come."""
    found: list[COO] = []
    whole = COO.sorting

    def sorting(self: COO) -> Any:
        found.append(self)
        return whole(self)

    monkeypatch.setattr(COO, "sorting", sorting)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("copied", [True, False])
def test_a_matrix_is_sorted_once(copied: bool, sorts: list[COO]) -> None:
    S = matrix_of(copied)
    for _ in range(3):
        assert np.array_equal((S @ D).plain(), product_of(S))
        assert np.array_equal((D.T @ matrix_of(copied).T).plain(), product_of(S).T)
    assert sorts.count(S) == 1
    assert copy.copy(S).kept is None, "nor does a pickle carry it"


def _values(S: COO) -> None:
    S.values.numpy()[1] = -7


def _values_within(S: COO) -> None:
    S.values.array[1] = -7
    S.values.mark_written()


def _not_a_number(S: COO) -> None:
    S.values.numpy()[...] = [0.0, -0.0, 1, 2, 3]


def _rows(S: COO) -> None:
    S.rows.numpy()[0] = 3


def _columns(S: COO) -> None:
    S.columns.array[2] = 2
    S.columns.mark_written()


def _other_values(S: COO) -> None:
    S.values = Tensor.from_numpy(np.array([5, 4, 3, 2, 1], np.float32))


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("change", [_values, _values_within, _not_a_number, _rows, _columns, _other_values])
def test_what_changed_is_seen(change: Callable[[COO], None], copied: bool, sorts: list[COO]) -> None:
    S = matrix_of(copied)
    assert np.array_equal((S @ D).plain(), product_of(S))
    change(S)
    assert np.array_equal((S @ D).plain(), product_of(S))
    change(S)
    assert np.array_equal((S @ D).plain(), product_of(S))
    moved = change in (_rows, _columns)
    assert moved or len(sorts) <= 2, "other values have the same order"


def test_a_form_that_is_handed_out_is_not_the_kept_one() -> None:
    S = matrix_of(copied=True)
    _ = S @ D
    S.to_csr().values.numpy()[...] = 0
    S.coalesce().values.numpy()[...] = 0
    assert np.array_equal((S @ D).plain(), product_of(S))
