"""SpatialNarrowAs and its gradient: cut out, and padded again; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError
from tazza.graph import backward_pass
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
TYPE = "SpatialNarrowAs"

A = np.random.default_rng(0).standard_normal((2, 3, 5, 7)).astype(np.float32)
B = np.zeros((2, 3, 4, 6), "f")
WHOLE = np.arange(210, dtype="i").reshape(A.shape)


def padded(A: Array, B: Array, dY: Array) -> Array:
    """Return dY with zeros on the right and below."""
    sides = [(0, a - b) for a, b in zip(A.shape, dY.shape, strict=True)]
    return np.pad(dY, sides)


CASES = [
    Case(TYPE, [A, B], A[..., :-1, :-1], batched=(0, 1)),
    Case(TYPE, [A, B[:, 0, :2, :1].astype("q")], A[..., :2, :1], id="labels"),
    Case(TYPE, [WHOLE, B], WHOLE[..., :4, :6], gradient=False, id="whole numbers"),
    Case(TYPE, [A, A], A, id="all of it"),
    Case(TYPE, [A, B[..., :0]], A[..., :4, :0], id="nothing"),
    Case(f"{TYPE}Gradient", [A, B, 1 + B], padded, batched=(0, 1, 2)),
    Case(f"{TYPE}Gradient", [WHOLE, B[:, 0], WHOLE[..., :4, :6].copy()], padded, id="whole numbers"),
]


@on_all_engines(CASES)
def test_spatial_narrow_as(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], type[Exception], str]] = [
    (TYPE, [A, np.zeros((2, 3, 6, 6))], ShapeError, r"A has the shape \(2, 3, 5, 7\), B has \(2, 3, 6, 6\)"),
    (TYPE, [A, np.zeros((2, 5, 8))], ShapeError, r"B has \(2, 5, 8\)"),
    (TYPE, [A, B[:1]], ShapeError, r"B has \(1, 3, 4, 6\)"),
    (TYPE, [A, B[:, :2]], ShapeError, r"B has \(2, 2, 4, 6\)"),
    (TYPE, [A, B[0, 0]], ShapeError, r"B has \(4, 6\)"),
    (TYPE, [A.astype("d"), B], DTypeError, "A is float64"),
    (f"{TYPE}Gradient", [A, B, B[:1]], ShapeError, r"dY has the shape \(1, 3, 4, 6\), Y has \(2, 3, 4, 6\)"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)


def test_emitted_gradient() -> None:
    (step,), _ = backward_pass([operator_def(TYPE, ["a", "b"], ["c"])], {"c": "c_grad"})
    assert (step.type, list(step.input)) == (f"{TYPE}Gradient", ["a", "b", "c_grad"])
