"""LayerNorm and its gradient: against one row after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, SchemaError, ShapeError, TazzaError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

AFFINE = {"elementwise_affine": 1}


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng((sum(shape), seed)).standard_normal(shape).astype(np.float32)


def by_row(lead: int, epsilon: float = 1e-5) -> Any:
    """Return the function that gives Y, mean and std of one row after the other; `lead` dimensions are rows."""

    def function(X: Array, *vectors: Array) -> tuple[Array, Array, Array]:
        Y, mean, std = np.zeros(X.shape), np.zeros((*X.shape[:lead], 1)), np.zeros((*X.shape[:lead], 1))
        for place in np.ndindex(*X.shape[:lead]):
            row = X[place].astype(np.float64)
            mean[place], std[place] = row.mean(), np.sqrt(row.var() + epsilon)
            Y[place] = (row - mean[place]) / std[place]
            if vectors:
                Y[place] = Y[place] * vectors[0].reshape(row.shape) + vectors[1].reshape(row.shape)
        return Y, mean, std

    return function


def through_matrix(dY: Array, Y: Array, mean: Array, std: Array, X: Array, *gamma: Array) -> Any:
    """Return dX of a matrix by the full matrix of derivatives of each row, and with gamma dgamma and dbeta."""
    dX, Z = np.zeros(X.shape), (X.astype(np.float64) - mean) / std
    for i, z in enumerate(Z):
        matrix = (np.eye(z.size) - 1 / z.size - np.outer(z, z) / z.size) / std[i]
        dX[i] = matrix @ (dY[i] * gamma[0] if gamma else dY[i])
    return (dX, (dY * Z).sum(0), dY.sum(0)) if gamma else dX


def backward(X: Array) -> list[Array]:
    """Return dY, Y, mean, std and X of a matrix."""
    outputs: tuple[Array, Array, Array] = by_row(1)(X)
    return [values(*X.shape, seed=1), *(one.astype(np.float32) for one in outputs), X]


CASES = [
    Case("LayerNorm", [values(3, 7)], by_row(1), batched=(0,), gradient=False),
    Case("C10LayerNorm_DontUseThisOpYet", [values(3, 7)], by_row(1), batched=(0,), gradient=False),
    Case(
        "C10LayerNorm_DontUseThisOpYet",
        [values(2, 3, 5), values(15), values(3, 5)],
        by_row(1),
        AFFINE,
        gradient=False,
        id="affine",
    ),
    Case("LayerNorm", [values(2, 3, 5)], by_row(0, 0.1), {"axis": 0, "epsilon": 0.1}, gradient=False, id="axis 0"),
    Case("LayerNorm", [values(2, 3, 5, 7)], by_row(2), {"axis": -2}, gradient=False, id="axis -2"),
    Case("LayerNorm", [values(2, 3, 5), values(15), values(3, 5)], by_row(1), AFFINE, gradient=False, id="affine"),
    Case(
        "LayerNorm",
        [values(2, 3, 5), values(15), values(3, 5)],
        by_row(1)(values(2, 3, 5)),
        gradient=False,
        id="vectors that are not read",
    ),
    Case("LayerNorm", [values(5)], by_row(0), {"axis": 0}, gradient=False, id="rank 1"),
    Case(
        "LayerNorm",
        [values(2, 3, 5).astype("d"), values(15).astype("d"), values(3, 5).astype("d")],
        by_row(1, float(np.float32(1e-5))),
        AFFINE,
        gradient=False,
        id="float64",
    ),
    Case(
        "LayerNorm",
        [values(2, 0)],
        (values(2, 0), [[0]] * 2, [[1e-5**0.5]] * 2),
        gradient=False,
        id="empty rows",
    ),
    Case("LayerNormGradient", backward(values(3, 7)), through_matrix, batched=(0, 1, 2, 3, 4)),
    Case("LayerNormGradient", [*backward(values(3, 7)), values(7)], through_matrix, AFFINE, 3, id="affine"),
    Case(
        "LayerNormGradient",
        [one.astype("d") for one in backward(values(3, 7))],
        through_matrix,
        id="float64",
    ),
]
"""mean and std have no gradient of their own, so the forward cases go without a central difference."""


@on_all_engines(CASES)
def test_layer_norm(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_the_gradient_takes_the_outputs() -> None:
    definition = operator_def("LayerNorm", ["X", "g", "b"], ["Y", "m", "s"], elementwise_affine=1, axis=2)
    emitted, gradients = gradient_for_op(find_schema("LayerNorm").view(definition), ["dY", None, None])
    assert list(emitted[0].input) == ["dY", "Y", "m", "s", "X", "g"]
    assert gradients == ["X_grad", "g_grad", "b_grad"]


X, V = values(3, 7), values(7)
BACK = backward(X)
REFUSED: list[tuple[str, list[Array], dict[str, Any], type[TazzaError], str]] = [
    ("LayerNorm", [X], AFFINE, SchemaError, "1 input with elementwise_affine = 1, it takes 3"),
    ("LayerNorm", [X, V], {}, SchemaError, "2 inputs"),
    ("LayerNorm", [X], {"axis": 2}, ShapeError, "axis = 2 is not an axis of X"),
    ("LayerNorm", [X, V[:3], V], AFFINE, ShapeError, r"gamma has the shape \(3\), a row of X from axis 1 on has 7"),
    ("LayerNorm", [X, V, V[:3]], AFFINE, ShapeError, r"beta has the shape \(3\)"),
    ("LayerNorm", [X], {"epsilon": -1.0}, ArgumentError, "'epsilon' = -1.0 is below its minimum 0"),
    ("LayerNorm", [X.astype("e")], {}, DTypeError, "X is float16"),
    ("LayerNorm", [X.astype("d"), V, V], AFFINE, DTypeError, "gamma is float32, it must be float64"),
    ("LayerNormGradient", BACK, AFFINE, ArgumentError, "5 inputs and 1 outputs with elementwise_affine = 1"),
    ("LayerNormGradient", [X[:2], *BACK[1:]], {}, ShapeError, r"dY has the shape \(2, 7\), X has \(3, 7\)"),
    ("LayerNormGradient", [X, X, V, V, X], {}, ShapeError, "mean has 7 elements, X has 3 rows"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Array], args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
