"""Regions of images of bytes: place after place in plain Python; in what is outside there is the byte 0; refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, NumericError, ShapeError
from tazza.operator import run_op
from tazza.tensor import Int8Tensor
from tests.check import Case, check_op, on_all_engines
from tests.ops.quantized.numbers import octets, quantized
from tests.ops.vision.test_roi_align import UPRIGHT, by_hand

X, OTHER = octets(2, 5, 7, 3), {"Y_scale": 0.075, "Y_zero_point": 90}
ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"pooled_h": 2, "pooled_w": 3},
    {"pooled_h": 3, "pooled_w": 2, "sampling_ratio": 2, "spatial_scale": 0.5},
    {"pooled_h": 2, "sampling_ratio": 3, "aligned": 1},
]


def expected(args: dict[str, Any]) -> Any:
    """Return the formula with these arguments: the means of the bytes, then what they stand for."""

    def formula(X: Int8Tensor, rois: Any) -> Int8Tensor:
        means = np.moveaxis(by_hand(np.moveaxis(X.data, 3, 1), rois, **args), 1, 3)
        return quantized((means - X.zero_point) * np.float64(X.scale), OTHER["Y_scale"], 90)

    return formula


CASES = [
    Case("Int8RoIAlign", [X, UPRIGHT], expected(args), {**args, **OTHER}, id=str(number))
    for number, args in enumerate(ARGUMENTS)
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("zero_point", [0, 120])
def test_outside_there_is_the_byte_0(zero_point: int) -> None:
    x = X._replace(zero_point=zero_point)
    found = run_op("Int8RoIAlign", x, np.array([[0, -9, -8, -5, -4]], "f"), Y_scale=0.05, Y_zero_point=zero_point)
    np.testing.assert_array_equal(found.data, np.zeros((1, 1, 1, 3)))


def test_a_constant_image_is_constant() -> None:
    """A law: whatever the bins, where they lie inside."""
    x = Int8Tensor(np.full((1, 5, 7, 2), 200, np.uint8), 0.05, 120)
    rois = np.array([[0, 0.37, 0.11, 4.9, 3.7]], "f")
    found = run_op("Int8RoIAlign", x, rois, pooled_h=3, pooled_w=2, Y_scale=0.05, Y_zero_point=120)
    np.testing.assert_array_equal(found.data, np.full((1, 3, 2, 2), 200))


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([X, UPRIGHT], {"order": "NCHW"}, ArgumentError, "NCHW"),
    ([octets(5, 7, 3), UPRIGHT], {}, ShapeError, "X has 3 dimensions"),
    ([X, UPRIGHT[:, :3]], {}, ShapeError, r"they must be \(R, 4 or 5\)"),
    ([X, UPRIGHT + np.float32(5)], {}, NumericError, r"rois\[0\] lies in image 5, X has the images \[0, 2\)"),
    ([X, UPRIGHT * np.float32(np.nan)], {}, NumericError, r"rois\[0, 0\] is nan"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("Int8RoIAlign", *inputs, **args)
