"""FusedConv, FusedConvTranspose, FusedFC, FusedMatMul, FusedSpatialBN: the layer alone, then the formula by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, SchemaError, ShapeError, TazzaError
from tazza.operator import find_schema, operator_def, run_op
from tazza.ops.nn.fused import FUSED
from tests.check import Case, check_op, engines_of, on_all_engines, run

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


X, W, B = values(2, 3, 7, 6), values(5, 3, 3, 2), values(5)
S = values(2, 5, 5, 5)


def plain_conv(X: Array, W: Array, b: Array | float = 0.0) -> Array:
    """Return a 2-D convolution as a sum over kernel places."""
    height, width = X.shape[2] - W.shape[2] + 1, X.shape[3] - W.shape[3] + 1
    total = np.zeros((X.shape[0], W.shape[0], height, width))
    for i in range(W.shape[2]):
        for j in range(W.shape[3]):
            total += np.einsum(
                "nchw,mc->nmhw", X[:, :, i : i + height, j : j + width].astype(np.float64), W[:, :, i, j]
            )
    return total + np.reshape(b, (-1, 1, 1))


def spread(X: Array, W: Array) -> Array:
    """Return a 1-D transposed convolution whose windows touch, but do not overlap."""
    return np.einsum("ncp,cmk->nmpk", X, W).reshape(X.shape[0], W.shape[1], -1)


KERNEL = {"kernels": [3, 2]}
CASES = [
    Case(
        "FusedConv",
        [X, W, B],
        np.maximum(plain_conv(X, W, B), 0),
        {**KERNEL, "epilogue": "relu(y)"},
        batched=(0,),
        id="relu",
    ),
    Case("FusedConv", [X, W], plain_conv(X, W), KERNEL, id="no epilogue"),
    Case(
        "FusedConv",
        [X, W, B, S],
        np.maximum(plain_conv(X, W, B) + S, 0),
        {**KERNEL, "epilogue": "max(y + s0, 0)", "operands": 1},
        batched=(0, 3),
        id="sum and relu",
    ),
    Case(
        "FusedConv",
        [X, W, S],
        np.maximum(S + plain_conv(X, W), 0),
        {**KERNEL, "epilogue": "relu(s0 + y)", "operands": 1},
        id="sum and relu without bias",
    ),
    Case(
        "FusedConv",
        [X, W, S, 2 * S],
        np.tanh(plain_conv(X, W) + S) * 2 * S,
        {**KERNEL, "epilogue": "tanh(y + s0) * s1", "operands": 2},
        id="two operands",
    ),
    Case(
        "FusedConv",
        [np.moveaxis(X, 1, -1).copy(), np.moveaxis(W, 1, -1).copy(), B, np.moveaxis(S, 1, -1).copy()],
        np.moveaxis(np.maximum(plain_conv(X, W, B) + S, 0), 1, -1),
        {**KERNEL, "epilogue": "relu(y + s0)", "operands": 1, "order": "NHWC"},
        id="NHWC",
    ),
    Case(
        "FusedConvTranspose",
        [values(2, 3, 4), values(3, 5, 2), values(5), values(2, 5, 8)],
        np.maximum(spread(values(2, 3, 4), values(3, 5, 2)) + values(5)[:, None] + values(2, 5, 8), 0),
        {"kernels": [2], "strides": [2], "epilogue": "relu(y + s0)", "operands": 1},
        batched=(0, 3),
        id="sum and relu",
    ),
    Case(
        "FusedFC",
        [values(2, 3), values(5, 3), values(5), values(2, 5)],
        np.maximum(values(2, 3) @ values(5, 3).T + values(5) + values(2, 5), 0),
        {"epilogue": "relu(y + s0)", "operands": 1},
        batched=(0, 3),
        id="sum and relu",
    ),
    Case(
        "FusedFC",
        [values(2, 3), values(5, 3), values(5)],
        1 / (1 + np.exp(-(values(2, 3) @ values(5, 3).T + values(5)))),
        {"epilogue": "sigmoid(y)"},
        id="sigmoid",
    ),
    Case(
        "FusedMatMul",
        [values(2, 3), values(5, 3)],
        np.maximum(values(2, 3) @ values(5, 3).T, 0),
        {"trans_b": 1, "epilogue": "relu(y)"},
        id="relu",
    ),
    Case(
        "FusedMatMul",
        [values(2, 3), values(3, 5), values(2, 5)],
        values(2, 3) @ values(3, 5) * values(2, 5),
        {"epilogue": "y * s0", "operands": 1},
        id="product",
    ),
]


@on_all_engines(CASES)
def test_fused(case: Case, engine: str) -> None:
    check_op(case, engine)


BN_NAMES = ["X", "scale", "bias", "mean", "var"]
TRAINING = ["Y", "mean", "var", "saved_mean", "saved_var"]


def vectors(count: int) -> list[Array]:
    """Return scale, bias, mean and variance."""
    return [values(count), *(values(count, 2).T.copy()), np.abs(values(count, 3)[:, 0]) + 0.5]


@pytest.mark.parametrize("engine", engines_of("FusedSpatialBN"))
@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_normalization_is_both_one_after_the_other(order: str, engine: str) -> None:
    X = values(4, 3, 5) if order == "NCHW" else values(4, 5, 3)
    S = values(*X.shape[::-1]).reshape(X.shape)
    arguments: dict[str, Any] = {"order": order, "epsilon": 0.1, "operands": 1, "epilogue": "relu(y - s0)"}
    definition = operator_def("FusedSpatialBN", [*BN_NAMES, "S"], TRAINING, **arguments)
    fused, _ = run(definition, [X, *vectors(3), S], engine)
    definition = operator_def("SpatialBN", BN_NAMES, TRAINING, is_test=0, order=order, epsilon=0.1)
    plain, _ = run(definition, [X, *vectors(3)], "reference")
    np.testing.assert_allclose(fused[0], np.maximum(plain[0] - S, 0), rtol=1e-5, atol=1e-6)
    assert 0 < np.count_nonzero(fused[0]) < fused[0].size
    for got, wanted in zip(fused[1:], plain[1:], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


REFUSED: list[tuple[str, list[Array], dict[str, Any], type[TazzaError], str]] = [
    ("FusedConv", [X, W, S], {"operands": 1, "epilogue": "y + s1"}, ArgumentError, "names s1, there are s0, y"),
    ("FusedConv", [X, W, S], {"operands": 2}, SchemaError, "of which 2 are operands, leave 1"),
    ("FusedConv", [X, W, B, S, S], {"operands": 1}, SchemaError, "leave 4 for X, W, b"),
    ("FusedConv", [X, W, S[1:]], {"operands": 1}, ShapeError, r"s0 has the shape \(1, 5, 5, 5\), Y has"),
    ("FusedConv", [X, W], {"epilogue": "import os"}, ArgumentError, "cannot be read"),
    ("FusedConvTranspose", [X, W], {"kernel": 2, "pad": -1}, ArgumentError, "cannot be negative"),
    ("FusedFC", [values(2, 3), values(5, 3), values(5), values(5)], {"operands": 1}, ShapeError, "s0 has the shape"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "kind", "text"), REFUSED, ids=lambda value: str(value)[:30])
def test_refused(type: str, inputs: list[Array], arguments: Any, kind: type[TazzaError], text: str) -> None:
    with pytest.raises(kind, match=text):
        run_op(type, *inputs, **(KERNEL if type == "FusedConv" else {}), **arguments)


def test_every_fused_type_takes_what_its_base_takes() -> None:
    for base, fused in FUSED.items():
        assert find_schema(base).args.keys() < find_schema(fused).args.keys()


def test_normalization_refuses() -> None:
    image, given = values(4, 3, 5), vectors(3)
    with pytest.raises(SchemaError, match="has 1 outputs, it takes 5"):
        run_op("FusedSpatialBN", image, *given, outputs=1)
    with pytest.raises(ArgumentError, match="'is_test' = 1"):
        run_op("FusedSpatialBN", image, *given, outputs=5, is_test=1)
    with pytest.raises(ShapeError, match="s0 has the shape"):
        run_op("FusedSpatialBN", image, *given, image[:2], outputs=5, operands=1)
