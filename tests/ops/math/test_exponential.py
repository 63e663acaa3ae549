"""Exp, Log, Sqrt, Rsqrt, Sqr, Cube, Pow and their gradients: against Python's functions in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, GradientError, SchemaError, ShapeError
from tazza.graph import backward_pass
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.check import Case, check_op, on_all_engines, run

Array = NDArray[Any]

X = np.array([[-1.5, 0.25, 3.0], [2.25, -0.5, -4.0]], np.float32)
POSITIVE, DY = np.abs(X), X + 10
ODD = np.array([-np.inf, -1, 0, np.inf, np.nan], "f")
INF, NAN = np.inf, np.nan
BASES = np.random.default_rng(5).uniform(0.5, 2, (2, 3, 5)).astype(np.float32)
POWERS = np.random.default_rng(3).uniform(-2, 3, (3,)).astype(np.float32)
UNDER = {"broadcast": 1, "axis": 1}


def each(of: Callable[[float], float]) -> Callable[[Array], Array]:
    """Return a function that computes `of` number by number."""
    return lambda x: np.array([of(v) for v in x.reshape(-1).tolist()]).reshape(x.shape)


def powers(A: Array, B: Array) -> Array:
    """Return A[n, c, s] ^ B[c]."""
    return np.array([[[v ** B.item(c) for v in row] for c, row in enumerate(image)] for image in A.tolist()])


CASES = [
    Case("Exp", [X], each(math.exp), batched=(0,)),
    Case("Exp", [X[0, 0]], each(math.exp), id="rank 0"),
    # There is no slope at infinity or at the end of a domain.
    Case("Exp", [ODD], np.array([0, 1 / math.e, 1, INF, NAN]), gradient=False, id="odd"),
    Case("Log", [POSITIVE], each(math.log), batched=(0,), slack=2),
    Case("Log", [ODD], np.array([NAN, NAN, -INF, INF, NAN]), gradient=False, id="odd"),
    Case("Sqrt", [POSITIVE], each(math.sqrt), batched=(0,)),
    Case("Sqrt", [ODD], np.array([NAN, NAN, 0, INF, NAN]), gradient=False, id="odd"),
    # Scale, which the gradient needs, works on float64 too.
    Case("Sqrt", [POSITIVE.astype("d")], each(math.sqrt), slack=1e3, id="float64"),
    Case("Rsqrt", [POSITIVE], each(lambda v: v**-0.5), batched=(0,), slack=2),
    Case("Rsqrt", [ODD], np.array([NAN, NAN, INF, 0, NAN]), gradient=False, id="odd"),
    Case("RsqrtGradient", [DY, POSITIVE**-0.5], DY * -0.5 * POSITIVE**-1.5, batched=(0, 1), slack=2),
    Case("Sqr", [X], each(lambda v: v * v), batched=(0,)),
    Case("Cube", [X], each(lambda v: v**3), batched=(0,)),
    Case("Cube", [np.array([-(2**20), 3])], np.array([-(2**60), 27]), gradient=False, id="int64"),
    Case("Cube", [np.array([-3, 2], "i")], np.array([-27, 8]), gradient=False, id="int32"),
    Case("Cube", [X.astype("d")], each(lambda v: v**3), id="float64"),
    Case("CubeGradient", [DY, X], DY * 3 * X * X, batched=(0, 1)),
    Case("Pow", [POSITIVE], each(lambda v: v**2.5), {"exponent": 2.5}, batched=(0,), slack=2),
    Case("Pow", [X], each(lambda v: v**3), {"exponent": 3.0}, slack=2, id="negative"),
    Case("Pow", [POSITIVE], each(lambda v: v**-0.5), {"exponent": -0.5}, slack=2, id="root"),
    Case("Pow", [POSITIVE, DY / 4], POSITIVE.astype("d") ** (DY / 4), batched=(0, 1), slack=10, id="both"),
    Case("Pow", [BASES, POWERS], powers, UNDER, slack=5, id="axis"),
    Case("Pow", [BASES, POWERS[:1]], BASES.astype("d") ** POWERS.item(0), {"broadcast": 1}, slack=5, id="one"),
    Case(
        "Pow",
        [np.array([-2, 0, 0, -8, 0], "f"), np.array([3, 0, -1, 0.5, 2], "f")],
        np.array([-8, 1, INF, NAN, 0]),
        gradient=False,
        slack=2,
        id="odd",
    ),
]


@on_all_engines(CASES)
def test_exponential(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_the_gradient_of_sqr_leaves_dy_alone() -> None:
    """Where two operators get the same dY, Caffe2's gradient would double it for the other one."""
    op = find_schema("Sqr").view(operator_def("Sqr", ["x"], ["y"]))
    emitted, names = gradient_for_op(op, ["dy"])
    assert names == ["x_grad"]
    assert {name for step in emitted for name in step.output} == {"x_grad"}


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("Pow", [X], {}, ArgumentError, "neither an input B nor the argument 'exponent'"),
    ("Pow", [X], {"exponent": 2}, ArgumentError, "argument 'exponent' wants float"),
    ("Pow", [BASES, POWERS], {"axis": 1}, ArgumentError, "axis = 1, axis_str = '' without broadcast"),
    ("Pow", [BASES, BASES], {"axis_str": "C"}, ArgumentError, "axis_str = 'C' without broadcast"),
    ("Pow", [BASES, POWERS], {**UNDER, "axis_str": "C"}, ArgumentError, "axis = 1 and axis_str = 'C'"),
    ("Pow", [BASES, BASES[:, :, :1]], {}, ShapeError, r"(?s)B has \(2, 3, 1\).*broadcast=1"),
    ("Pow", [BASES, POWERS], {"broadcast": 1}, ShapeError, "dimension 0 of B is 3, dimension 2 of A is 5"),
    ("Pow", [BASES.astype("d")], {"exponent": 2.0}, DTypeError, "A is float64"),
    ("Exp", [X.astype("d")], {}, DTypeError, "X is float64, it must be float32"),
    ("Sqrt", [np.arange(3)], {}, DTypeError, "X is int64, it must be float32 or float64"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


@pytest.mark.parametrize(("exponent", "warns"), [(2.0, True), (3.0, False), (0.5, False), (-1.5, False), (-2.0, True)])
def test_gradient_of_pow_in_place(exponent: float, warns: bool, caplog: pytest.LogCaptureFixture) -> None:
    """From what it left, where what it overwrote was positive; NaN or a warning tells where that is not known."""
    ws = Workspace()
    ws.feed("given", POSITIVE)
    ws.feed("dx", DY)
    ops = [operator_def("Copy", ["given"], ["x"]), operator_def("Pow", ["x"], ["x"], exponent=exponent)]
    backward, gradients = backward_pass(ops, {"x": "dx"})
    assert any("taken for positive" in message for message in caplog.messages) == warns
    ws.run_net_once(NetDef(op=[*ops, *backward]))
    wanted = DY * exponent * POSITIVE.astype(np.float64) ** (exponent - 1)
    np.testing.assert_allclose(ws.fetch(str(gradients["given"])), wanted, rtol=1e-5)


def test_gradient_of_pow_in_place_that_forgets_all() -> None:
    with pytest.raises(GradientError, match="overwrites in place"):
        backward_pass([operator_def("Pow", ["x"], ["x"], exponent=0.0)], {"x": "dx"})


def test_cube_is_not_in_place() -> None:
    with pytest.raises(SchemaError, match="Cube cannot write Y in place of X"):
        run(operator_def("Cube", ["x"], ["x"]), [X])
