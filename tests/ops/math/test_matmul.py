"""MatMul and BatchMatMul: against einsum; gradients by the harness, for every transposition and axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, GradientError, SchemaError, ShapeError, TazzaError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

FLAGS = [{"trans_a": a, "trans_b": b} for a in (0, 1) for b in (0, 1)]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def summed(rule: str, A: Array, B: Array) -> Array:
    """Return the sum of products that a rule of einsum says, in float64."""
    return np.einsum(rule, A.astype(np.float64), B.astype(np.float64))


def sides(flags: dict[str, int], *batch: int) -> list[Array]:
    """Return A and B for M = 2, K = 5 and N = 3."""
    A = values(*batch, *((5, 2) if flags["trans_a"] else (2, 5)))
    return [A, values(*batch, *((3, 5) if flags["trans_b"] else (5, 3)))]


def rule(flags: dict[str, int], batch: str = "") -> str:
    """Return the rule of einsum for these transpositions."""
    A, B = "km" if flags["trans_a"] else "mk", "nk" if flags["trans_b"] else "kn"
    return f"{batch}{A},{batch}{B}->{batch}mn"


def matrices(flags: dict[str, int]) -> Case:
    """Return the case of MatMul with these transpositions."""
    A, B = sides(flags)
    return Case("MatMul", [A, B], summed(rule(flags), A, B), flags, id=f"matrices {flags}")


def batches(flags: dict[str, int]) -> Case:
    """Return the case of BatchMatMul with these transpositions."""
    A, B = sides(flags, 4)
    return Case("BatchMatMul", [A, B], summed(rule(flags, "b"), A, B), flags, batched=(0, 1), id=f"batches {flags}")


def broadcast(A: Array, B: Array, rule: str) -> Case:
    """Return the case of BatchMatMul with batches that differ."""
    return Case("BatchMatMul", [A, B], summed(rule, A, B), {"broadcast": 1}, gradient=False, id=f"broadcast {rule}")


def vector(A: Array, B: Array, rule: str, **flags: int) -> Case:
    """Return the case of BatchMatMul with a vector, whose flag has no effect."""
    return Case("BatchMatMul", [A, B], np.atleast_1d(summed(rule, A, B)), flags, gradient=False, id=f"vector {rule}")


A4, B3 = values(2, 3, 5, 7), values(5, 7, 4)
C4, D3 = values(5, 7, 2, 3), values(4, 5, 7)
CASES = [
    *map(matrices, FLAGS),
    *map(batches, FLAGS),
    Case(
        "MatMul",
        [A4, B3],
        summed("mk,kn->mn", A4.reshape(6, 35), B3.reshape(35, 4)),
        {"axis_a": 2, "axis_b": 2},
        id="axes inside, where the gradient of Caffe2 takes 1",
    ),
    Case(
        "MatMul",
        [C4, D3],
        summed("km,nk->mn", C4.reshape(35, 6), D3.reshape(4, 35)),
        {"axis_a": -2, "axis_b": -2, "trans_a": 1, "trans_b": 1},
        id="negative axes, both transposed",
    ),
    Case("MatMul", [values(5), values(5, 3)], (values(5) @ values(5, 3))[None], {"axis_a": 0}, id="axis 0"),
    Case(
        "MatMul",
        [values(2, 5), values(5, 6), values(3, 4)],
        (values(2, 5) @ values(5, 6)).reshape(3, 4),
        gradient=False,  # that of Y in another shape is the caller's to bring back
        id="in the shape of a third blob",
    ),
    Case("MatMul", [values(2, 0), values(0, 3)], np.zeros((2, 3)), gradient=False, id="no K"),
    Case("MatMul", [values(4, 5), values(5, 3)], values(4, 5) @ values(5, 3), batched=(0,), id="no rows"),
    Case(
        "BatchMatMul",
        [values(2, 4, 3, 5), values(2, 4, 5, 6)],
        summed("bcmk,bckn->bcmn", values(2, 4, 3, 5), values(2, 4, 5, 6)),
        id="two batch dimensions",
    ),
    Case(
        "BatchMatMul",
        [values(4, 2, 0), values(4, 0, 3)],
        np.zeros((4, 2, 3)),
        id="no K in batches",
    ),
    broadcast(values(4, 2, 3), values(3, 5), "bmk,kn->bmn"),
    broadcast(values(2, 3), values(4, 3, 5), "mk,bkn->bmn"),
    broadcast(values(4, 7, 2, 3), values(7, 3, 5), "bcmk,ckn->bcmn"),
    Case(
        "BatchMatMul",
        [values(4, 1, 2, 3), values(7, 3, 5)],
        summed("bmk,ckn->bcmn", values(4, 1, 2, 3)[:, 0], values(7, 3, 5)),
        {"broadcast": 1},
        gradient=False,
        id="both batches grow",
    ),
    vector(values(3), values(3) * 2, "k,k->", trans_a=1),
    vector(values(4, 2, 3), values(3), "bmk,k->bm", trans_b=1),
    vector(values(3), values(4, 3, 2), "k,bkn->bn", trans_a=1),
    vector(values(3), values(2, 3), "k,nk->n", trans_b=1),
]
"""The gradient operators of a product with a vector, which Caffe2 emits, do not fit the shapes, so those go without."""


@on_all_engines(CASES)
def test_matmul(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_no_gradient_with_broadcast() -> None:
    definition = operator_def("BatchMatMul", ["A", "B"], ["Y"], broadcast=1)
    with pytest.raises(GradientError, match="BatchMatMul has no gradient with broadcast = 1"):
        gradient_for_op(find_schema("BatchMatMul").view(definition), ["Y_grad"])


REFUSED: list[tuple[str, list[Array], dict[str, Any], type[TazzaError], str]] = [
    ("MatMul", [values(2, 3), values(4, 5)], {}, ShapeError, r"A \(2, 3\) has K = 3, B \(4, 5\) has K = 4"),
    ("MatMul", [values(3), values(3, 5)], {}, ShapeError, "axis_a = 1 is not an axis of A"),
    ("MatMul", [values(2, 3), values(3, 5)], {"axis_b": 2}, ShapeError, "axis_b = 2 is not an axis of B"),
    ("MatMul", [values(2, 3), values(3, 5), values(3)], {}, ShapeError, r"like has the shape \(3\), Y is \(2, 5\)"),
    ("MatMul", [values(2, 3), values(3, 5).astype("d")], {}, DTypeError, "B is float64"),
    ("MatMul", [values(2, 3)], {}, SchemaError, "1 inputs"),
    ("BatchMatMul", [values(4, 2, 3), values(4, 2, 3)], {}, ShapeError, "A has K = 3, B has K = 2"),
    ("BatchMatMul", [values(4, 2, 3), values(3, 5)], {}, ShapeError, r"the batches \(4\) and \(\) differ"),
    ("BatchMatMul", [values(4, 2, 3), values(1, 3, 5)], {}, ShapeError, r"the batches \(4\) and \(1\) differ"),
    ("BatchMatMul", [values(4, 2, 3), values(6, 3, 5)], {"broadcast": 1}, ShapeError, "do not broadcast"),
    ("BatchMatMul", [np.array(1.0, "f"), values(3)], {}, ShapeError, "A has rank 0"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Array], args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
