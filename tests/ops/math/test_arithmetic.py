"""Add, Sub, Mul, Div, their gradients, and SumReduceLike: against loops over indices; integers; what is refused."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, NumericError, SchemaError, ShapeError
from tazza.operator import find_schema, operator_def, run_op
from tazza.tensor import DataType, TensorSpec
from tests.check import Case, check_op, on_all_engines, run

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers in [0.5, 2) of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).uniform(0.5, 2, shape).astype(np.float32)


def ratio(a: float, b: float) -> float:
    """Return a / b."""
    return a / b


def each(of: Callable[[Any, Any], Any], *under: int) -> Callable[[Array, Array], Array]:
    """Return a function that computes `of` at every index of A; B is indexed by the dimensions `under` of A."""

    def compute(A: Array, B: Array) -> Array:
        found = [of(A[at], B[tuple(at[i] for i in under)]) for at in np.ndindex(A.shape)]
        return np.array(found).reshape(A.shape)

    return compute


A, ROW, COLUMN, MIDDLE, CHANNEL = values(2, 3, 5, 7), values(7), values(5, 1), values(3, 5), values(3)
UNDER_1, LETTER, LAST = {"broadcast": 1, "axis": 1}, {"broadcast": 1, "axis_str": "C"}, {"broadcast": 1}
WHOLES, BY = np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])
ADD, SUB, MUL = operator.add, operator.sub, operator.mul

FORWARD = [
    Case("Add", [A, A[::-1].copy()], np.stack([A, A[::-1]]).sum(axis=0), batched=(0, 1)),
    Case("Add", [A, ROW], each(ADD, 3), id="row"),
    Case("Add", [ROW, A], each(ADD, 3)(A, ROW), id="row first"),
    Case("Add", [COLUMN, ROW], np.stack([COLUMN[:, 0]] * 7, 1) + np.stack([ROW] * 5), id="both"),
    Case("Add", [A, values(2)[0]], each(ADD), id="rank 0"),
    Case("Add", [A, MIDDLE], each(ADD, 1, 2), UNDER_1, id="axis"),
    Case("Add", [A, CHANNEL], each(ADD, 1), LETTER, id="letter"),
    Case("Add", [A, ROW], each(ADD, 3), {**LETTER, "order": "NHWC"}, id="letter of another order"),
    Case("Add", [A, values(1, 5, 1)], each(ADD, 2)(A, values(1, 5, 1)[0, :, 0]), UNDER_1, id="ones at the ends"),
    Case("Add", [A, ROW], each(ADD, 3), {"axis": 0}, id="axis without broadcast"),
    Case("Sub", [A, MIDDLE], each(SUB, 1, 2), UNDER_1, batched=(0,)),
    Case("Sub", [ROW, COLUMN], np.stack([ROW] * 5) - np.stack([COLUMN[:, 0]] * 7, 1), slack=2, id="both"),
    Case("Mul", [A, MIDDLE], each(MUL, 1, 2), UNDER_1, batched=(0,)),
    Case("Mul", [A, A], each(MUL, 0, 1, 2, 3), id="whole"),
    Case("Mul", [ROW, COLUMN], np.outer(COLUMN, ROW), id="both"),
    Case("Div", [A, MIDDLE], each(ratio, 1, 2), UNDER_1, batched=(0,), slack=2),
    Case("Div", [ROW, COLUMN], np.outer(1 / COLUMN, ROW), slack=2, id="both"),
    Case(
        "Div", [np.array([1, -1, 0], "f"), np.zeros(3, "f")], [np.array([np.inf, -np.inf, np.nan], "f")], gradient=False
    ),
    Case("Add", [A.astype("d"), ROW.astype("d")], each(ADD, 3), id="float64"),
    # Integers have no derivative.
    Case("Add", [WHOLES, WHOLES[:1]], WHOLES + 7, gradient=False, id="int64"),
    Case("Sub", [WHOLES.astype("i"), BY.astype("i")], np.array([5, -9, 9, -5]), gradient=False, id="int32"),
    Case("Mul", [WHOLES, BY], np.array([14, -14, -14, 14]), gradient=False, id="int64"),
    Case("Div", [WHOLES, BY], np.array([3, -3, -3, 3]), gradient=False, id="int64"),
    Case("Div", [WHOLES[:0], BY[:0]], BY[:0], gradient=False, id="nothing"),
]


def gradients(of: Callable[[Any, Any, Any], tuple[Any, Any]], *under: int) -> Callable[..., tuple[Array, Array]]:
    """Return a function that adds up the parts `of` dC, a, b at every index; B lies `under` these dimensions of A."""

    def compute(dC: Array, A: Array, B: Array, *_: Array) -> tuple[Array, Array]:
        dA, dB = np.zeros(A.shape), np.zeros(B.shape)
        for at in np.ndindex(A.shape):
            below = tuple(at[i] for i in under)
            part_a, part_b = of(float(dC[at]), float(A[at]), float(B[below]))
            dA[at] += part_a
            dB[below] += part_b
        return dA, dB

    return compute


DC, WHOLE = values(2, 3, 5, 7)[::-1].copy(), (0, 1, 2, 3)
QUOTIENT = (A / MIDDLE[None, ..., None]).astype("f")
OVER_J = (np.array([6, 8], "i"), np.array([7, 9], "i"), np.array([2, 3], "i"))

BACKWARD = [
    Case("AddGradient", [DC, A, MIDDLE], gradients(lambda g, a, b: (g, g), 1, 2), UNDER_1, batched=(0, 1), slack=2),
    Case("SubGradient", [DC, A, MIDDLE], gradients(lambda g, a, b: (g, -g), 1, 2), UNDER_1, batched=(0, 1), slack=2),
    Case("MulGradient", [DC, A, MIDDLE], gradients(lambda g, a, b: (g * b, g * a), 1, 2), UNDER_1, slack=2),
    Case("AddGradient", [DC, A, A], gradients(lambda g, a, b: (g, g), *WHOLE), id="whole"),
    Case("SubGradient", [DC, A, A], gradients(lambda g, a, b: (g, -g), *WHOLE), id="whole"),
    Case("MulGradient", [DC, A, A], gradients(lambda g, a, b: (g * b, g * a), *WHOLE), id="whole"),
    Case("MulGradient", [WHOLES, WHOLES, BY], (WHOLES * BY, WHOLES * WHOLES), id="int64"),
    Case(
        "SumReduceLike",
        [A, MIDDLE],
        gradients(lambda g, a, b: (g, g), 1, 2)(A, A, MIDDLE)[1],
        {"axis": 1},
    ),
    Case("SumReduceLike", [A, CHANNEL], A.sum(axis=(0, 2, 3)), {"axis_str": "C"}, slack=2, id="letter"),
    Case("SumReduceLike", [A, CHANNEL[0]], A.astype("d").sum(), slack=2, id="rank 0"),
    Case("SumReduceLike", [A.astype("d"), A.astype("d")], A, id="float64"),
]
DIVISION = [
    Case(
        "DivGradient",
        [DC, A, MIDDLE, QUOTIENT],
        gradients(lambda g, a, b: (g / b, -g * a / b**2), 1, 2),
        UNDER_1,
        slack=3,
    ),
    Case("DivGradient", [ROW, ROW * 2, ROW], (ROW * 0 + 1, -ROW * 2), id="three inputs"),
    Case("DivGradient", [*OVER_J, np.array([3, 3], "i")], np.array([[3, 2], [-9, -8]]).tolist(), id="int32"),
]


@on_all_engines([*FORWARD, *BACKWARD, *DIVISION])
def test_arithmetic(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("Add", [A, CHANNEL], {}, ShapeError, r"A has the shape \(2, 3, 5, 7\), B has \(3\): 7 and 3 do not broadcast"),
    ("Add", [A, CHANNEL], {"axis": 1}, ShapeError, "(?s)7 and 3 do not broadcast.*broadcast=1"),  # behaviours.md row 26
    ("Add", [A, CHANNEL], {**LAST, "axis": 2}, ShapeError, "dimension 0 of B is 3, dimension 2 of A is 5"),
    ("Add", [A, MIDDLE], {**LAST, "axis": 3}, ShapeError, "(?s)B cannot begin at axis = 3 of A.*axis is 0 to 2"),
    ("Add", [A, ROW], {**LAST, "axis": -2}, ShapeError, "B cannot begin at axis = -2 of A"),
    ("Add", [ROW, A], LAST, ShapeError, "B has more dimensions"),
    ("Add", [A, values(3, 1, 7)], LAST, ShapeError, "dimension 1 of B is 1, dimension 2 of A is 5"),
    ("Add", [A, A[:1, :2]], LAST, ShapeError, "dimension 1 of B is 2, dimension 1 of A is 3"),
    ("Add", [A, CHANNEL], {**LETTER, "axis": 1}, ArgumentError, "axis = 1 and axis_str = 'C'"),
    ("Add", [A, CHANNEL], {**LAST, "axis_str": "X"}, ArgumentError, "'X' is no letter of order = 'NCHW'"),
    ("Add", [A, CHANNEL], {**LAST, "axis_str": "CH"}, ArgumentError, "'CH' is no letter"),
    ("Add", [A, WHOLES], {}, DTypeError, "B is int64, it must be float32"),
    ("Mul", [A.astype("e")] * 2, {}, DTypeError, "A is float16, it must be"),
    ("Sub", [A > 1, A > 1], {}, DTypeError, "A is bool"),
    ("Div", [WHOLES, WHOLES * 0], {}, NumericError, "B holds 0, and integers cannot be divided by 0"),
    ("MulGradient", [A[:1], A, ROW], {}, ShapeError, r"dC has the shape \(1, 3, 5, 7\), C has \(2, 3, 5, 7\)"),
    ("DivGradient", [A, A, ROW, A[:1]], {}, ShapeError, r"C has \(1, 3, 5, 7\)"),
    ("DivGradient", [A, A], {}, SchemaError, "DivGradient has 2 inputs, it takes 3 to 4"),
    ("SumReduceLike", [A, CHANNEL], {}, ShapeError, "dimension 0 of B is 3"),
    ("SumReduceLike", [WHOLES, WHOLES], {}, DTypeError, "A is int64"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


def test_a_quotient_is_not_written_over_b() -> None:
    with pytest.raises(SchemaError, match="Div cannot write C in place of B"):
        run(operator_def("Div", ["a", "b"], ["b"]), [ROW, ROW])


def test_a_blob_may_meet_itself_in_place() -> None:
    results, _ = run(operator_def("Mul", ["a", "a"], ["a"]), [ROW.copy(), ROW.copy()])
    np.testing.assert_allclose(results[0], ROW**2, rtol=1e-6)


@pytest.mark.parametrize(
    ("first", "second", "args", "joint"),
    [
        ((2, None), (2, 3), {}, (2, 3)),
        ((None, 5), (7, 1), {}, (7, 5)),
        ((None,), (1,), {}, (None,)),
        (None, (2, 3), {}, None),
        ((2, None, 5), (3,), UNDER_1, (2, None, 5)),
    ],
)
def test_unknown_dimensions(first: Any, second: Any, args: dict[str, Any], joint: Any) -> None:
    schema = find_schema("Add")
    specs = [TensorSpec(first, DataType.FLOAT), TensorSpec(second, DataType.FLOAT)]
    op = schema.view(operator_def("Add", ["a", "b"], ["c"], **args))
    assert schema.infer_specs(op, specs).specs == (TensorSpec(joint, DataType.FLOAT),)


def test_costs() -> None:
    big, small = TensorSpec((2, 3), DataType.FLOAT), TensorSpec((3,), DataType.FLOAT)
    add, back = find_schema("Add"), find_schema("AddGradient")
    cost = add.infer_cost(add.view(operator_def("Add", ["a", "b"], ["c"])), [big, small], [big])
    assert (cost.flops, cost.bytes_read, cost.bytes_written) == (6, math.prod((2, 3)) * 4 + 12, 24)
    op = back.view(operator_def("AddGradient", ["g", "a", "b"], ["x", "y"]))
    assert back.infer_cost(op, [big, big, small], [big, small]).bytes_read == 24
