"""AffineChannel and its gradient: against one channel after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, SchemaError, ShapeError, TazzaError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

NHWC = {"order": "NHWC"}
LEARNABLE = {"is_learnable": 1}
X = np.random.default_rng(0).standard_normal((2, 3, 5, 7)).astype(np.float32)
DY = np.random.default_rng(1).standard_normal((2, 3, 5, 7)).astype(np.float32)
SCALE, BIAS = np.array([2.0, -0.5, 0.25], np.float32), np.array([1.0, 10.0, -3.0], np.float32)


def last(X: Array) -> Array:
    """Return (N, C, S...) as (N, S..., C)."""
    return np.ascontiguousarray(np.moveaxis(X, 1, -1))


def by_channel(X: Array, scale: Array, bias: Array) -> Array:
    """Return Y of NCHW."""
    channels = [X[:, c] * scale.ravel()[c] + bias.ravel()[c] for c in range(X.shape[1])]
    return np.stack(channels, axis=1)


DX = by_channel(DY, SCALE, 0 * BIAS)
GRADIENTS = [(DY[:, c] * X[:, c]).sum() for c in range(3)], [DY[:, c].sum() for c in range(3)]
CASES = [
    Case("AffineChannel", [X, SCALE, BIAS], by_channel, LEARNABLE, batched=(0,), slack=4),
    Case("AffineChannel", [X, SCALE, BIAS], by_channel, slack=4, id="frozen"),
    Case("AffineChannel", [X, SCALE.reshape(1, 3), BIAS], by_channel, slack=4, id="vectors of another shape"),
    Case("AffineChannel", [last(X), SCALE, BIAS], last(by_channel(X, SCALE, BIAS)), NHWC, slack=4, id="NHWC"),
    Case("AffineChannel", [X[:, :, 0, 0], SCALE, BIAS], by_channel, slack=4, id="rank 2"),
    Case("AffineChannelGradient", [DY, SCALE], DX, batched=(0,)),
    Case("AffineChannelGradient", [last(DY), SCALE], last(DX), NHWC, id="NHWC"),
    Case("AffineChannelGradient", [DY, X, SCALE], (DX, *GRADIENTS), LEARNABLE, 3, (0, 1), slack=4, id="learnable"),
    Case(
        "AffineChannelGradient",
        [last(DY), last(X), SCALE],
        (last(DX), *GRADIENTS),
        {**LEARNABLE, **NHWC},
        3,
        slack=4,
        id="learnable, NHWC",
    ),
]


@on_all_engines(CASES)
def test_affine_channel(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize(("learnable", "inputs", "count"), [(0, ["dY", "s"], 1), (1, ["dY", "X", "s"], 3)])
def test_the_gradient(learnable: int, inputs: list[str], count: int) -> None:
    definition = operator_def("AffineChannel", ["X", "s", "b"], ["Y"], is_learnable=learnable)
    emitted, gradients = gradient_for_op(find_schema("AffineChannel").view(definition), ["dY"])
    assert list(emitted[0].input) == inputs
    assert [name for name in gradients if name is not None] == ["X_grad", "s_grad", "b_grad"][:count]


REFUSED: list[tuple[str, list[Array], dict[str, Any], type[TazzaError], str]] = [
    ("AffineChannel", [X, SCALE[:2], BIAS], {}, ShapeError, r"scale has the shape \(2\), X has 3 channels"),
    ("AffineChannel", [X, SCALE, BIAS[:2]], {}, ShapeError, r"bias has the shape \(2\)"),
    ("AffineChannel", [SCALE] * 3, {}, ShapeError, "X has 1 dimensions"),
    ("AffineChannel", [X, SCALE, BIAS.astype("d")], {}, DTypeError, "bias is float64"),
    ("AffineChannelGradient", [DY, SCALE], LEARNABLE, SchemaError, "2 inputs and 1 outputs with is_learnable = 1"),
    ("AffineChannelGradient", [DY, X, SCALE], {}, SchemaError, "3 inputs and 1 outputs with is_learnable = 0"),
    ("AffineChannelGradient", [DY, X[:1], SCALE], {**LEARNABLE, "outputs": 3}, ShapeError, "dY has the shape"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Array], args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
