"""Where segments begin on a device: fewer and more of them than threads, empty ones, wrong lengths."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.device import current_context, device_option
from tazza.engines.cuda.sparse.division import TEAM
from tazza.errors import NumericError
from tazza.operator import run_op
from tazza.tensor import CUDAPlace, Tensor
from tazza.tensor.transfer import to_place

DEVICE = CUDAPlace(0)


def sums(lengths: list[int], rows: int) -> list[float]:
    """Return the sum of each segment of 0, 1, 2 ..., on the device."""
    given = (np.arange(rows, dtype=np.float32)[:, None], np.array(lengths, np.int32))
    inputs = [to_place(Tensor.from_numpy(one), DEVICE) for one in given]
    return np.asarray(run_op("LengthsSum", *inputs, device=device_option(DEVICE))).reshape(-1).tolist()


@pytest.mark.parametrize("count", [0, 1, TEAM - 1, TEAM, 3 * TEAM + 1])
def test_starts(count: int) -> None:
    lengths = np.random.default_rng(count).integers(0, 4, count)
    ends = np.cumsum(lengths)
    wanted = [float(sum(range(end - length, end))) for length, end in zip(lengths.tolist(), ends.tolist(), strict=True)]
    assert sums(lengths.tolist(), int(lengths.sum())) == wanted


@pytest.mark.parametrize("lengths", [[1, 1], [2, 2], [-1, 4], [1, 2**31 - 1, 2**31 - 1]])
def test_lengths_of_other_rows_are_told(lengths: list[int]) -> None:
    with pytest.raises(NumericError, match="LENGTHS that do not add up to the number of rows"):
        sums(lengths, 3)
    stream = current_context(DEVICE).stream
    assert stream is not None
    stream.recover()


@pytest.mark.parametrize(
    ("type", "ids", "complaint"),
    [
        ("SortedSegmentSumGradient", [0, 2, 2], "not sorted"),
        ("SortedSegmentSumGradient", [1, 1, 2], "not sorted"),
        ("SortedSegmentSumGradient", [0, 1, 1], "other segments than there are"),
        ("UnsortedSegmentSumGradient", [0, 3, 1], "those of no segment"),
        ("UnsortedSegmentSumGradient", [0, -1, 1], "those of no segment"),
    ],
)
def test_ids_of_other_segments_are_told(type: str, ids: list[int], complaint: str) -> None:
    given = (np.ones((3, 2), np.float32), np.array(ids, np.int32))
    inputs = [to_place(Tensor.from_numpy(one), DEVICE) for one in given]
    with pytest.raises(NumericError, match=complaint):
        run_op(type, *inputs, device=device_option(DEVICE))
    stream = current_context(DEVICE).stream
    assert stream is not None
    stream.recover()
