"""Which indices stand somewhere for the first time: rows that are updated several times, and wrong ones."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.device import current_context, device_option
from tazza.errors import NumericError
from tazza.operator import run_op
from tazza.proto import OperatorDef
from tazza.tensor import CUDAPlace, Tensor
from tazza.tensor.transfer import to_place
from tests.check import run
from tests.cuda_grid import backwards
from tests.engines.cuda.updates import TYPES, problem

DEVICE = CUDAPlace(0)


@pytest.mark.parametrize("type", TYPES)
def test_rows_are_updated_as_often_as_their_index_stands_there(type: str) -> None:
    op, inputs = problem(type)
    wanted, _ = run(op, [one.copy() for one in inputs], "reference")
    there = OperatorDef.FromString(op.SerializeToString())
    there.device_option.CopyFrom(device_option(DEVICE))
    with backwards():
        found, _ = run(there, inputs, "cuda")
    for one, expected, before in zip(found, wanted, inputs, strict=False):
        np.testing.assert_allclose(one, expected, rtol=2e-5, atol=1e-6)
        assert not np.array_equal(expected, before), "something changed"


@pytest.mark.parametrize("indices", [[], [2], [1, 1, 1]])
def test_few_indices(indices: list[int]) -> None:
    rows = np.ones((5, 3), np.float32)
    given = (rows, rows, np.array(indices, np.int64), np.ones((len(indices), 3), np.float32), np.ones(1, np.float32))
    wanted = run_op("SparseAdagrad", *(one.copy() for one in given), outputs=2)
    found = run_op("SparseAdagrad", *map(there, given), outputs=2, device=device_option(DEVICE))
    for one, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-6)


def there(values: object) -> Tensor:
    """Return a copy on the device."""
    return to_place(Tensor.from_numpy(np.asarray(values)), DEVICE)


@pytest.mark.parametrize("wrong", [-1, 5])
def test_an_index_of_no_row_is_told(wrong: int) -> None:
    rows = np.zeros((5, 3), np.float32)
    given = (rows, rows, np.array([0, wrong], np.int32), np.ones((2, 3), np.float32), np.ones(1, np.float32))
    with pytest.raises(NumericError, match="indices that are those of no row"):
        run_op("SparseAdagrad", *map(there, given), outputs=2, device=device_option(DEVICE))
    stream = current_context(DEVICE).stream
    assert stream is not None
    stream.recover()
