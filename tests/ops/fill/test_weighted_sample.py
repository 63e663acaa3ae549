"""WeightedSample and WeightedMultiSampling: what Caffe2 drew; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, NumericError, SchemaError, ShapeError, TazzaError
from tazza.operator import operator_def, run_op
from tazza.proto import DeviceOption
from tests.check import run

W = np.array([[1, 2, 3], [0, 0, 5]], np.float32)
CDF = np.array([0.1, 0.3, 0.6, 1.0], np.float32)


def drawn(type: str, *inputs: Any, outputs: int = 1, **arguments: Any) -> list[Any]:
    """Return what comes with the seed 7."""
    names, out = [f"in{i}" for i in range(len(inputs))], [f"out{i}" for i in range(outputs)]
    device = DeviceOption(random_seed=7)
    return list(run(operator_def(type, names, out, device=device, **arguments), list(inputs))[0])


def test_rows_equal_to_caffe2() -> None:
    (ten,) = drawn("WeightedSample", np.ones((6, 10), np.float32))
    assert ten.tolist() == [[5], [1], [6], [6], [2], [4]]
    place, value = drawn("WeightedSample", W, W * 10, outputs=2)
    assert (place.tolist(), value.tolist()) == ([[2], [2]], [[30], [50]])
    assert drawn("WeightedSample", W * 0)[0].tolist() == [[0], [0]]
    assert [drawn("WeightedSample", w)[0].shape for w in (W[:0], W[:, :0])] == [(0,), (0,)]


def test_many_equal_to_caffe2() -> None:
    for scale in (1, 5):
        (Y,) = drawn("WeightedMultiSampling", CDF * np.float32(scale), num_samples=6)
        assert Y.tolist() == [2, 1, 3, 3, 1, 2]
    assert drawn("WeightedMultiSampling", CDF, W)[0].tolist() == [[2, 1, 3], [3, 1, 2]]
    assert drawn("WeightedMultiSampling", CDF)[0].shape == (0,)
    assert drawn("WeightedMultiSampling", CDF[:0], num_samples=6)[0].shape == (0,)


REFUSED: list[tuple[str, list[Any], int, dict[str, Any], type[TazzaError], str]] = [
    ("WeightedSample", [W, W[:1]], 2, {}, ShapeError, "v"),
    ("WeightedSample", [W, W], 1, {}, SchemaError, "2 inputs and 1 outputs"),
    ("WeightedSample", [-W], 1, {}, NumericError, "row 0 of w adds up to -6"),
    ("WeightedMultiSampling", [CDF, W], 1, {"num_samples": 3}, ArgumentError, "drop one of them"),
    ("WeightedMultiSampling", [CDF], 1, {"num_samples": -1}, ArgumentError, "num_samples"),
    ("WeightedMultiSampling", [-CDF], 1, {"num_samples": 3}, NumericError, "cdf adds up to -1"),
]


@pytest.mark.parametrize(("type", "inputs", "outputs", "arguments", "error", "text"), REFUSED)
def test_refused(
    type: str, inputs: list[Any], outputs: int, arguments: dict[str, Any], error: type[TazzaError], text: str
) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, outputs=outputs, **arguments)
