"""Which indices stand somewhere for the first time: rows that are updated several times, and wrong ones."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.device import current_context, device_option
from tazza.errors import NumericError
from tazza.operator import run_op
from tazza.tensor import CUDAPlace, Tensor
from tazza.tensor.transfer import to_place

DEVICE = CUDAPlace(0)


def there(values: object) -> Tensor:
    """Return a copy on the device."""
    return to_place(Tensor.from_numpy(np.asarray(values)), DEVICE)


@pytest.mark.parametrize("indices", [[], [2], [1, 1, 1], [4, 0, 4, 2, 0, 4]])
def test_each_occurrence_in_turn(indices: list[int]) -> None:
    random, K = np.random.default_rng(len(indices)), len(indices)
    W, M = random.standard_normal((5, 3)).astype(np.float32), np.abs(random.standard_normal((5, 3))).astype(np.float32)
    given = (
        W,
        M,
        np.array(indices, np.int64),
        random.standard_normal((K, 3)).astype(np.float32),
        np.array([0.1], np.float32),
    )
    wanted = run_op("SparseAdagrad", *(one.copy() for one in given), outputs=2)
    found = run_op("SparseAdagrad", *map(there, given), outputs=2, device=device_option(DEVICE))
    for one, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-6)


@pytest.mark.parametrize("wrong", [-1, 5])
def test_an_index_of_no_row_is_told(wrong: int) -> None:
    rows = np.zeros((5, 3), np.float32)
    given = (rows, rows, np.array([0, wrong], np.int32), np.ones((2, 3), np.float32), np.array([0.1], np.float32))
    with pytest.raises(NumericError, match="indices that are those of no row"):
        run_op("SparseAdagrad", *map(there, given), outputs=2, device=device_option(DEVICE))
    stream = current_context(DEVICE).stream
    assert stream is not None
    stream.recover()
