"""FC, FCTransposed: against one dot product for each output, at all axes; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, SchemaError, ShapeError
from tazza.operator import find_schema, operator_def, run_op
from tazza.tensor import DataType, TensorSpec
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def dots(lead: int, features: int) -> Any:
    """Return FC as one float64 dot product for each output; `lead` and `features` dimensions of X and W are kept."""

    def function(X: Array, W: Array, b: Array) -> Array:
        rows, kernels = X.astype(np.float64), W.astype(np.float64)
        Y = np.zeros((*X.shape[:lead], b.size))
        for place in np.ndindex(*X.shape[:lead]):
            for m, which in enumerate(np.ndindex(*W.shape[:features])):
                Y[(*place, m)] = np.dot(rows[place].ravel(), kernels[which].ravel()) + b[m]
        return Y

    return function


def bias_alone(X: Array, W: Array, b: Array) -> Array:
    """Return FC where K is 0."""
    return np.zeros((len(X), len(W))) + b


def gradients(lead: int, features: int) -> Any:
    """Return dW, db and dX as sums of outer products, one for each output."""

    def function(X: Array, W: Array, dY: Array) -> tuple[Array, Array, Array]:
        dW, dX, db = np.zeros(W.shape), np.zeros(X.shape), np.zeros(int(np.prod(W.shape[:features])))
        x, w = X.reshape(*X.shape[:lead], -1), W.reshape(*W.shape[:features], -1)
        dy = dY.reshape(*X.shape[:lead], -1)
        for place in np.ndindex(*X.shape[:lead]):
            for m, which in enumerate(np.ndindex(*W.shape[:features])):
                dW[which] += (dy[(*place, m)] * x[place]).reshape(W.shape[features:])
                dX[place] += (dy[(*place, m)] * w[which]).reshape(X.shape[lead:])
                db[m] += dy[(*place, m)]
        return dW, db, dX

    return function


def turned(W: Array, inner: int) -> Array:
    """Return weights (K..., M...) as (M..., K...), where K are `inner` dimensions."""
    return W.transpose(*range(inner, W.ndim), *range(inner))


def b_alone(X: Array, W: Array, b: Array) -> Array:
    """Return FCTransposed of one row where K is 0."""
    del X, W
    return b


def transposed(lead: int, inner: int, features: int) -> Any:
    """Return FCTransposed by way of FC."""

    def function(X: Array, W: Array, b: Array) -> Array:
        return dots(lead, features)(X, turned(W, inner), b)

    return function


def transposed_gradients(lead: int, inner: int, features: int) -> Any:
    """Return dW, db and dX of FCTransposed by way of FC."""

    def function(X: Array, W: Array, dY: Array) -> tuple[Array, Array, Array]:
        dW, db, dX = gradients(lead, features)(X, turned(W, inner), dY)
        return turned(dW, features), db, dX

    return function


def transposed_without_dX(X: Array, W: Array, dY: Array) -> tuple[Array, Array]:
    """Return dW and db of FCTransposed alone."""
    return transposed_gradients(1, 1, 1)(X, W, dY)[:2]


def without_dX(X: Array, W: Array, dY: Array) -> tuple[Array, Array]:
    """Return dW and db alone."""
    return gradients(1, 1)(X, W, dY)[:2]


def tall_gradients(X: Array, W: Array, dY: Array) -> tuple[Array, Array, Array]:
    """Return dW, db and dX as sums over letters."""
    x, w, dy = (each.astype(np.float64) for each in (X, W, dY))
    return np.einsum("nm,nk->mk", dy, x), np.einsum("nm->m", dy), np.einsum("nm,mk->nk", dy, w)


CASES = [
    Case("FC", [values(3, 5), values(7, 5), values(7)], dots(1, 1), batched=(0,)),
    Case("FC", [values(2, 3, 4, 5), values(7, 60), values(7)], dots(1, 1), batched=(0,), slack=4, id="flattens X"),
    Case("FC", [values(2, 3, 4, 5), values(7, 3, 4, 5), values(7)], dots(1, 1), slack=4, id="W like an image"),
    Case("FC", [values(2, 3, 4, 5), values(7, 20), values(7)], dots(2, 1), {"axis": 2}, slack=2, id="axis 2"),
    Case("FC", [values(2, 3, 5), values(7, 5), values(7)], dots(2, 1), {"axis": -1}, id="axis -1"),
    Case("FC", [values(2, 3), values(7, 6), values(7)], dots(0, 1), {"axis": 0}, id="axis 0"),
    Case("FC", [values(5), values(7, 5), values(7)], dots(0, 1), {"axis": 0}, id="rank 1"),
    Case("FC", [values(2, 12), values(3, 5, 4, 3), values(15)], dots(1, 2), {"axis_w": 2}, slack=2, id="axis_w 2"),
    Case("FC", [values(2, 3), values(5, 2, 3), values(10)], dots(1, 2), {"axis_w": -1}, id="axis_w -1"),
    Case("FC", [values(2, 5), values(5), values(1)], dots(1, 0), {"axis_w": 0}, id="axis_w 0"),
    Case("FC", [values(2, 5), values(3, 5), values(3)], dots(1, 1), {"float16_compute": 1}, id="float16_compute"),
    Case("FC", [values(2, 0), values(3, 0), values(3)], bias_alone, id="K 0"),
    Case("FCGradient", [values(3, 5), values(7, 5), values(3, 7)], gradients(1, 1), outputs=3, batched=(0, 2)),
    Case("FCGradient", [values(3, 5), values(7, 5), values(3, 7)], without_dX, id="no dX"),
    Case(
        "FCGradient",
        [values(2, 3, 4, 5), values(7, 2, 10), values(2, 3, 7)],
        gradients(2, 1),
        {"axis": -2},
        outputs=3,
        slack=4,
        id="axes",
    ),
    Case(
        "FCGradient",
        [values(2, 3, 5), values(2, 2, 5), values(6, 4)],
        gradients(2, 2),
        {"axis": 2, "axis_w": 2},
        outputs=3,
        id="rows of dY flattened",
    ),
    Case(
        "FCGradient", [values(520, 5), values(66, 5), values(520, 66)], tall_gradients, outputs=3, slack=20, id="tall"
    ),
    Case("FCTransposed", [values(3, 5), values(5, 7), values(7)], transposed(1, 1, 1), batched=(0,)),
    Case("FCTransposed", [values(0), values(0, 7), values(7)], b_alone, {"axis": 0}, id="K 0, rank 1"),
    Case("FCTransposed", [values(2, 3, 5), values(15, 7), values(7)], transposed(1, 1, 1), slack=4, id="flattens X"),
    Case("FCTransposed", [values(2, 3, 5), values(5, 7), values(7)], transposed(2, 1, 1), {"axis": -1}, id="axis -1"),
    Case(
        "FCTransposed",
        [values(3, 20), values(5, 4, 2, 3), values(6)],
        transposed(1, 2, 2),
        {"axis_w": 2},
        slack=4,
        id="axis_w 2",
    ),
    Case("FCTransposed", [values(2, 0), values(0, 3), values(3)], np.tile(values(3), (2, 1)), id="K 0"),
    Case(
        "FCTransposedGradient",
        [values(3, 5), values(5, 7), values(3, 7)],
        transposed_gradients(1, 1, 1),
        outputs=3,
        batched=(0, 2),
    ),
    Case(
        "FCTransposedGradient",
        [values(3, 5), values(5, 7), values(3, 7)],
        transposed_without_dX,
        id="no dX",
    ),
    Case(
        "FCTransposedGradient",
        [values(2, 3, 20), values(5, 4, 2, 3), values(6, 6)],
        transposed_gradients(2, 2, 2),
        {"axis": 2, "axis_w": 2},
        outputs=3,
        slack=4,
        id="axes",
    ),
]


@on_all_engines(CASES)
def test_fc(case: Case, engine: str) -> None:
    check_op(case, engine)


X, W, b = values(2, 5), values(7, 5), values(7)

REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("FC", [X[:, :4], W, b], {}, ShapeError, r"X \(2, 4\) has K = 4 from axis 1 on, W \(7, 5\) takes 5"),
    ("FC", [X, values(7, 3, 5), b], {}, ShapeError, r"W \(7, 3, 5\) takes 15"),
    ("FC", [X[0], W, b], {}, ShapeError, r"axis = 1 is not an axis of X, which has 1 dimensions \(5\)"),
    ("FC", [X, W, b], {"axis": 2}, ShapeError, "axis = 2 is not an axis of X"),
    ("FC", [X, W, b], {"axis": -3}, ShapeError, "axis = -3 is not an axis of X"),
    ("FC", [X, W[0], b[:1]], {}, ShapeError, "axis_w = 1 is not an axis of W"),
    ("FC", [np.array(2.0, "f"), W, b], {"axis": 0}, ShapeError, "X must have at least one dimension"),
    ("FC", [X, W, b[:3]], {}, ShapeError, "b has 3 elements, W has M = 7 output features"),
    ("FC", [X, W, b[:, np.newaxis]], {}, ShapeError, r"b has rank 2 \(7, 1\), it must have 1 dimension"),
    ("FC", [X.astype("d"), W, b], {}, DTypeError, "X is float64, it must be float32"),
    ("FC", [X.astype("i"), W, b], {}, DTypeError, "X is int32, it must be float32"),
    ("FC", [X, W.astype("e"), b], {}, DTypeError, "W is float16, it must be float32"),
    ("FC", [X, W], {}, SchemaError, "FC has 2 inputs, it takes 3"),
    ("FCGradient", [X, W[:, :4], values(2, 7)], {}, ShapeError, r"X \(2, 5\) has K = 5 from axis 1 on, W \(7, 4\)"),
    ("FCGradient", [X, W, values(2, 6)], {}, ShapeError, r"dY has the shape \(2, 6\), Y has \(2, 7\)"),
    ("FCGradient", [X, W, values(7, 2)], {}, ShapeError, r"dY has the shape \(7, 2\), Y has \(2, 7\)"),
    ("FCGradient", [X, W, np.array(1.0, "f")], {}, ShapeError, r"dY has the shape \(\), Y has \(2, 7\)"),
    ("FCTransposed", [X, W, b], {}, ShapeError, r"X \(2, 5\) has K = 5 from axis 1 on, W \(7, 5\) takes 7"),
    ("FCTransposed", [X, W.T, b[:5]], {}, ShapeError, "b has 5 elements, W has M = 7 output features"),
    ("FCTransposedGradient", [X, W.T, values(2, 6)], {}, ShapeError, r"dY has the shape \(2, 6\), Y has \(2, 7\)"),
    ("FCGradient", [X, W, values(2, 7)], {"outputs": 1}, SchemaError, "FCGradient has 1 outputs, it takes 2 to 3"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


def test_shapes_of_fc() -> None:
    """behaviours.md row 20."""

    def shape(x: tuple[int, ...], w: tuple[int, ...], **arguments: Any) -> tuple[int, ...]:
        return run_op("FC", np.ones(x, "f"), np.ones(w, "f"), np.ones(7, "f"), **arguments).shape

    assert shape((2, 3, 4, 5), (7, 60)) == (2, 7)
    assert shape((2, 3, 4, 5), (7, 20), axis=2) == (2, 3, 7)
    assert shape((2, 3, 4, 5), (7, 3, 4, 5)) == (2, 7)
    assert shape((2, 3, 5), (7, 5), axis=-1) == (2, 3, 7)
    assert shape((0, 5), (7, 5)) == (0, 7)
    for x in ((5,), (2, 4)):
        with pytest.raises(RuntimeError):
            shape(x, (7, 5))


def test_unknown_dimensions() -> None:
    schema = find_schema("FC")
    op = schema.view(operator_def("FC", ["x", "w", "b"], ["y"]))
    W, b = TensorSpec((7, 5), DataType.FLOAT), TensorSpec((7,), DataType.FLOAT)
    for dims, expected in (((None, 5), (None, 7)), ((2, None), (2, 7)), (None, (None, 7))):
        assert schema.infer_specs(op, [TensorSpec(dims, DataType.FLOAT), W, b]).specs == (
            TensorSpec(expected, DataType.FLOAT),
        )


def test_cost() -> None:
    schema = find_schema("FC")
    op = schema.view(operator_def("FC", ["x", "w", "b"], ["y"]))
    specs = [TensorSpec(dims, DataType.FLOAT) for dims in ((2, 3, 5), (7, 15), (7,), (2, 7))]
    cost = schema.infer_cost(op, specs[:3], specs[3:])
    assert (cost.flops, cost.parameter_bytes) == (2 * 7 * (2 * 15 + 1), 4 * (7 * 15 + 7))
    assert (cost.bytes_read, cost.bytes_written) == (4 * (30 + 7 * 15 + 7), 4 * 14)
