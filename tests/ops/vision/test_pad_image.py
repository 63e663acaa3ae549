"""PadImage: against NumPy's pad; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.operator import find_schema, operator_def, run_op
from tazza.tensor import DataType, TensorSpec
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def padded(top: int, left: int, bottom: int, right: int, mode: Any = "constant", value: float = 0) -> Any:
    """Return NumPy's padding of images, and of what is left of them where pads are negative."""

    def function(X: Array) -> Array:
        H, W = X.shape[2:]
        inner = X[:, :, max(-top, 0) : H - max(-bottom, 0), max(-left, 0) : W - max(-right, 0)]
        widths = [(0, 0), (0, 0), (max(top, 0), max(bottom, 0)), (max(left, 0), max(right, 0))]
        more: dict[str, Any] = {"constant_values": value} if mode == "constant" else {}
        return np.pad(inner, widths, mode=mode, **more)

    return function


X = values(2, 3, 5, 4)
LAST = np.moveaxis(X, 1, -1).copy()
SIDES = {"pad_t": 1, "pad_l": 2, "pad_b": 0, "pad_r": 3}

CASES = [
    Case("PadImage", [X], X, batched=(0,), id="no pad"),
    Case("PadImage", [X], padded(1, 1, 1, 1), {"pad": 1}, batched=(0,)),
    Case("PadImage", [X], padded(1, 2, 0, 3, value=2.5), {**SIDES, "value": 2.5}, batched=(0,), id="value"),
    Case("PadImage", [X], padded(1, 2, 0, 3, "reflect"), {**SIDES, "mode": "reflect"}, id="reflect"),
    Case("PadImage", [X], padded(1, 2, 0, 3, "edge"), {**SIDES, "mode": "edge"}, batched=(0,), id="edge"),
    Case("PadImage", [X], padded(-1, 2, 1, -2), {"pads": [-1, 2, 1, -2]}, id="cut off"),
    Case("PadImage", [X], padded(0, 9, 7, 0, "edge"), {"pads": [0, 9, 7, 0], "mode": "edge"}, id="a wide edge"),
    Case(
        "PadImage",
        [LAST],
        np.moveaxis(padded(1, 2, 0, 3, "reflect")(X), 1, -1),
        {**SIDES, "mode": "reflect", "order": "NHWC"},
        batched=(0,),
        id="nhwc",
    ),
]


@on_all_engines(CASES)
def test_pad_image(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_what_is_cut_off_may_be_mirrored() -> None:
    """As in Caffe2: the mirror stands at the outermost element of the whole image."""
    Y = run_op("PadImage", np.arange(1, 4, dtype="f").reshape(1, 1, 1, 3), pads=[0, -1, 0, 1], mode="reflect")
    np.testing.assert_array_equal(Y.ravel(), [2, 3, 2])


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("PadImage", [X[0]], {}, ShapeError, r"X has 3 dimensions \(3, 5, 4\), images have 4"),
    ("PadImage", [X], {"pads": [1, 2, 3]}, ArgumentError, "has 3 elements, it needs pad_t, pad_l, pad_b, pad_r"),
    ("PadImage", [X], {"pads": [0, 4, 0, 0], "mode": "reflect"}, ShapeError, "mirror more than the 3 elements"),
    ("PadImage", [X], {"pads": [-3, 0, -2, 0]}, ShapeError, "pads -3 and -2 leave nothing of 5 elements"),
    ("PadImage", [X[:, :, :0]], {"pad": 1, "mode": "edge"}, ShapeError, "an image without elements has no edge"),
    ("PadImage", [X], {"pad": 1, "mode": "wrap"}, ArgumentError, "'mode' = 'wrap' is not one of"),
    ("PadImage", [X], {"pad": 1, "value": 5}, ArgumentError, "argument 'value' wants float"),
    ("PadImage", [X], {"pad_t": 1}, ArgumentError, "without effect here: 'pad_t'"),
    ("PadImage", [X], {"pad": 1, "stride": 2}, ArgumentError, "no argument 'stride'"),
    ("PadImage", [X.astype("d")], {}, DTypeError, "X is float64, it must be float32"),
    ("PadImageGradient", [X], {"pad": 3}, ShapeError, "dY has 5 elements in a dimension that pads 3 and 3"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


@pytest.mark.parametrize(("type", "height"), [("PadImage", 7), ("PadImageGradient", 3)])
def test_unknown_dimensions(type: str, height: int) -> None:
    schema, nothing = find_schema(type), TensorSpec(None, DataType.FLOAT)
    op = schema.view(operator_def(type, ["x"], ["y"], pad=1))
    partly = TensorSpec((None, 3, 5, None), DataType.FLOAT)
    assert schema.infer_specs(op, [partly]).specs == (TensorSpec((None, 3, height, None), DataType.FLOAT),)
    assert schema.infer_specs(op, [nothing]).specs == (nothing,)
