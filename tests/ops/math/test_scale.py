"""Scale and ScaleBlobs: both float types; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, DTypeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

X = np.array([[-1.5, 0.25, 3.0], [2.0, -0.5, -4.0]], np.float32)

CASES = [
    Case("Scale", [X], np.array([[-3.75, 0.625, 7.5], [5, -1.25, -10]]), {"scale": 2.5}, batched=(0,)),
    Case("Scale", [X], X, id="by 1 unless told"),
    Case("Scale", [X[0, 2]], np.float32(-6), {"scale": -2.0}, id="rank 0"),
    # The argument is stored as float32: 0.1 is a little more.
    Case("Scale", [X.astype("d")], X * np.float64(np.float32(0.1)), {"scale": 0.1}, id="float64"),
    Case("ScaleBlobs", [X, X[0]], (X * 2.5, X[0] * 2.5), {"scale": 2.5}, outputs=2, gradient=False),  # Caffe2 has none
]


@on_all_engines(CASES)
def test_scale(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (X, {"scale": 2}, ArgumentError, "argument 'scale' wants float"),  # behaviours.md row 6
    (X.astype("e"), {}, DTypeError, "X is float16, it must be float32 or float64"),
    (X.astype("i"), {}, DTypeError, "X is int32, it must be float32 or float64"),
    (X.astype("?"), {}, DTypeError, "X is bool, it must be float32 or float64"),
    (np.array(["a"]), {}, DTypeError, "X is string, it must be float32 or float64"),
]


@pytest.mark.parametrize(("value", "args", "error", "text"), REFUSED)
def test_refused(value: Any, args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("Scale", value, **args)
