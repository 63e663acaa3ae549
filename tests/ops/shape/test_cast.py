"""Cast: from and to every type, odd values, names of types, the gradient, and what is refused."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, GradientError, SchemaError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines, run

Array = NDArray[Any]

NUMBERS = {"f": 1, "i": 2, "?": 5, "u1": 6, "i1": 7, "u2": 8, "i2": 9, "i8": 10, "d": 13}
"""NumPy's letters of the types that are converted both ways, and their numbers in TensorProto.DataType."""

X = np.array([[0, 1, 2], [3, 100, 7]])
ODD = np.array([-1.7, 2.5, 300, -70000, 1e20, np.nan], "f")
LOW32, LOW64 = -(2**31), -(2**63)


CASES = [
    Case("Cast", [X.astype("i2")], X.astype("f"), {"to": 1}, gradient=False, batched=(0,)),
    Case("Cast", [np.array(2.5, "f")], np.array(2, "i"), {"to": "int32"}, gradient=False, id="rank 0"),
    Case("Cast", [X.astype("d")], X.astype("f"), {"to": 1, "from_type": 13}, id="gradient"),
    Case("Cast", [X.astype("f")], X.astype("f"), {"from_type": "float"}, id="float unless told"),
    Case("Cast", [ODD], np.array([-1, 2, 300, -70000, LOW32, LOW32], "i"), {"to": 2}, gradient=False, id="int32"),
    Case("Cast", [ODD], np.array([-1, 2, 300, -70000, LOW64, LOW64]), {"to": 10}, gradient=False, id="int64"),
    Case("Cast", [ODD], np.array([255, 2, 44, 144, 0, 0], "u1"), {"to": 6}, gradient=False, id="uint8"),
    Case("Cast", [ODD], np.array([-1, 2, 44, -112, 0, 0], "i1"), {"to": 7}, gradient=False, id="int8"),
    Case("Cast", [ODD], np.array([-1, 2, 300, -4464, 0, 0], "i2"), {"to": 9}, gradient=False, id="int16"),
    Case("Cast", [ODD * 0 != 0], np.array([0, 0, 0, 0, 0, 1], "f"), gradient=False, id="from bool"),
    Case("Cast", [ODD], np.ones(6, "?"), {"to": 5}, gradient=False, id="bool"),
    *(
        Case(
            "Cast",
            [np.array([[np.finfo(kind).smallest_subnormal, -0.0], [0.0, -1e-300]], kind)],
            np.array([[True, False], [False, kind == "d"]]),
            {"to": 5},
            gradient=False,
            id=f"bool of the least {kind}",
        )
        for kind in "fd"
    ),
    Case(
        "Cast", [np.array([-1, 256, 300], "i")], np.array([255, 0, 44], "u1"), {"to": 6}, gradient=False, id="low bits"
    ),
    Case("Cast", [np.array([2**31, 2**33 + 5])], np.array([LOW32, 5], "i"), {"to": 2}, gradient=False, id="high bits"),
    Case(
        "Cast",
        [np.array([1, 1.5, 1e20, 1e-7, 123456789, np.nan, np.inf], "f")],
        np.array(
            [
                b"1.000000",
                b"1.500000",
                b"100000002004087734272.000000",
                b"0.000000",
                b"123456792.000000",
                b"nan",
                b"inf",
            ],
            object,
        ),
        {"to": "string"},
        gradient=False,
        id="text of floats",
    ),
    Case("Cast", [np.array([[65, 7]], "u1")], np.array([[b"65", b"7"]], object), {"to": 4}, gradient=False, id="text"),
    Case("Cast", [X > 1], np.where(X > 1, b"1", b"0").astype(object), {"to": 4}, gradient=False, id="text of bool"),
]


@on_all_engines(CASES)
def test_cast(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize(("source", "target"), list(product(NUMBERS, NUMBERS)))
def test_every_pair_of_types(source: str, target: str) -> None:
    given = X.astype(source)
    wanted = np.array([[float(value) for value in row] for row in given.tolist()]).astype(target)
    result = run_op("Cast", given, to=NUMBERS[target])
    assert result.dtype == np.dtype(target)
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("name", ["double", "DOUBLE", "Double"])
def test_names_in_any_case(name: str) -> None:
    assert run_op("Cast", X.astype("f"), to=name).dtype == np.float64


REFUSED: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (X, {"to": 0}, ArgumentError, "to = 0 is no element type"),
    (X, {"to": 3}, ArgumentError, "to = 3 is no element type"),
    (X, {"to": 99}, ArgumentError, "to = 99 is no element type"),
    (X, {"to": "flot32"}, ArgumentError, "to = 'flot32' is no element type\n.*\n? *hint: known: 1 float, 2 int32"),
    (X, {"to": "byte"}, ArgumentError, "to = 3 is no element type"),
    (X, {"to": 1.0}, ArgumentError, "argument 'to' wants int"),
    (X, {"to": 1, "from_type": "nonsense"}, ArgumentError, "from_type = 'nonsense' is no element type"),
    (X, {"to": 12}, DTypeError, "to = float16 is not supported"),
    (X.astype("e"), {}, DTypeError, "X is float16, it must be"),
    (np.array(["1"]), {"to": 2}, DTypeError, "X is string, it must be"),
]


@pytest.mark.parametrize(("value", "args", "error", "text"), REFUSED)
def test_refused(value: Any, args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("Cast", value, **args)


def test_not_in_place() -> None:
    with pytest.raises(SchemaError, match="Cast cannot write Y in place of X"):
        run(operator_def("Cast", ["x"], ["x"], to=1), [X])


def test_the_gradient_swaps_the_types_and_drops_all_else() -> None:
    schema = find_schema("Cast")
    both: list[dict[str, Any]] = [{"from_type": "DOUBLE", "other": 3, "to": "float"}, {"to": 1, "from_type": 13}]
    for arguments in both:
        op = schema.view(operator_def("Cast", ["x"], ["y"], **arguments))
        (definition,), gradients = gradient_for_op(op, ["dy"])
        assert [(a.name, a.i) for a in definition.arg] == [("to", 13), ("from_type", 1)]
        assert gradients == ["x_grad"]


@pytest.mark.parametrize("number", [0, 3, 99])
def test_a_number_that_is_no_type_matters_to_the_gradient_alone(number: int) -> None:
    """Caffe2 runs such an operator."""
    assert run_op("Cast", X, to=2, from_type=number).dtype == np.int32
    op = find_schema("Cast").view(operator_def("Cast", ["x"], ["y"], to=1, from_type=number))
    with pytest.raises(ArgumentError, match=f"from_type = {number} is no element type"):
        gradient_for_op(op, ["dy"])


def test_the_gradient_needs_from_type() -> None:
    op = find_schema("Cast").view(operator_def("Cast", ["x"], ["y"], to=1))
    with pytest.raises(GradientError, match="the gradient needs the argument 'from_type'"):
        gradient_for_op(op, ["dy"])
