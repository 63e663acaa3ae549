"""Which indices stand somewhere for the first time: rows that are updated several times, and wrong ones."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

from tazza.device import current_context, device_option
from tazza.engines.cuda import occurrence
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


@pytest.mark.slow
@pytest.mark.parametrize("count", [5, 40, 3000])
@pytest.mark.parametrize("bits", [32, 64])
def test_many_indices_find_each_other_by_hashing(count: int, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes first: sums and updates in their order give the numbers of the CPU, to the last bit."""
    monkeypatch.setattr(occurrence, "FEW", 4)
    random = np.random.default_rng(count)
    indices = np.minimum(random.zipf(1.5, count), 1999).astype(f"int{bits}")
    rows, w = random.standard_normal((2000, 2), np.float32), np.ones(1, np.float32)
    given = (rows, w, indices, random.standard_normal((count, 2), np.float32), w)
    wanted = run_op("ScatterWeightedSum", *(one.copy() for one in given), engine="reference")
    for order in (nullcontext(), backwards()):
        with order:
            found = run_op("ScatterWeightedSum", *map(there, given), device=device_option(DEVICE))
        np.testing.assert_array_equal(found, wanted)


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


@pytest.mark.parametrize(("wrong", "few"), [(-1, 9), (5, 9), (5, 1)])
def test_an_index_of_no_row_is_told(wrong: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(occurrence, "FEW", few)
    rows = np.zeros((5, 3), np.float32)
    given = (rows, rows, np.array([0, wrong], np.int32), np.ones((2, 3), np.float32), np.ones(1, np.float32))
    with pytest.raises(NumericError, match="indices that are those of no row"):
        run_op("SparseAdagrad", *map(there, given), outputs=2, device=device_option(DEVICE))
    stream = current_context(DEVICE).stream
    assert stream is not None
    stream.recover()


@pytest.mark.parametrize("equal", [1, 31, 33, 1100, 2500])
def test_equal_indices_are_sorted_not_compared(equal: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums in the order of the CPU, to the last bit, of lists as long as one likes, beside short ones."""
    monkeypatch.setattr(occurrence, "FEW", 4)
    random = np.random.default_rng(equal)
    indices = random.permutation(np.r_[np.full(equal, 3), np.repeat([0, 5], 40), [1, 1, 2, 9, 4]]).astype(np.int32)
    rows, w = random.standard_normal((10, 2), np.float32), np.ones(1, np.float32)
    given = (rows, w, indices, random.standard_normal((indices.size, 2), np.float32), w)
    wanted = run_op("ScatterWeightedSum", *(one.copy() for one in given), engine="reference")
    for order in (nullcontext(), backwards()):
        with order:
            found = run_op("ScatterWeightedSum", *map(there, given), device=device_option(DEVICE))
        np.testing.assert_array_equal(found, wanted)
