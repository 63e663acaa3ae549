"""The judge as others use it: without a table of what engines refuse."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from tazza.errors import CheckError, SchemaError
from tazza.operator import (
    FLOAT,
    KERNELS,
    Array,
    Effects,
    OpView,
    Unsupported,
    blob,
    find_schema,
    forget_function,
    kernel,
    launcher,
    schema,
)
from tazza.tensor import DataType, TensorSpec
from tazza.testing import Case, check_op, engines_of, trials

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
RELU = Case("Relu", [X], np.maximum(X, 0), batched=(0,))


@pytest.fixture
def refusing() -> Iterator[None]:
    """Give the engine gemm a kernel of Relu that takes nothing."""

    @launcher(find_schema("Relu"), engine="gemm")
    def prepare(*_: object) -> Unsupported:  # pyright: ignore[reportUnusedFunction] -- registered
        return Unsupported("it is Monday")

    yield
    KERNELS.unregister(("Relu", "cpu", "gemm"))


@pytest.mark.usefixtures("refusing")
def test_an_engine_that_is_named_must_run_and_others_may_refuse() -> None:
    with pytest.raises(CheckError, match="gemm refuses Relu : it is Monday"):
        check_op(RELU, "gemm")
    assert set(engines_of("Relu")) - set(check_op(RELU)) == {"gemm"}


def test_an_engine_without_the_operator_is_told() -> None:
    with pytest.raises(CheckError, match="gemm was"):
        check_op(RELU, "gemm")


def test_trials_name_case_and_engine() -> None:
    listed = trials([RELU, Case("Relu", [X], X, id="wrong")])
    assert {one.engine for one in listed} == set(engines_of("Relu"))
    assert {"Relu-0-reference", "Relu-wrong-reference"} <= {one.name for one in listed}


@pytest.fixture
def twice() -> Iterator[str]:
    """An operator whose inference says another type than its kernel writes."""
    made = schema(
        "TestJudged",
        "Y = 2 X.",
        inputs=[blob("X", FLOAT, "*S")],
        outputs=[blob("Y", like="X")],
        effects=Effects.PURE,
        no_gradient=None,
    )

    @kernel(made)
    def double(X: Array, Y: Array) -> None:
        np.multiply(X, 2, out=Y)

    yield made.type
    forget_function(made.type)


def test_a_wrong_shape_rule_and_a_wrong_number_of_outputs_are_told(twice: str) -> None:
    assert check_op(Case(twice, [X], 2 * X)) == ["reference"]
    with pytest.raises(CheckError, match="has 1 outputs, expected are 2"):
        check_op(Case(twice, [X], (2 * X, X)))
    made = find_schema(twice)

    @made.infer
    def wrong(op: OpView, X: TensorSpec) -> tuple[TensorSpec, ...]:  # pyright: ignore[reportUnusedFunction]
        return (TensorSpec(X.shape, DataType.FLOAT),) * 2

    with pytest.raises(SchemaError, match="inference gave 2 outputs, the operator has 1"):
        check_op(Case(twice, [X], 2 * X))


@pytest.mark.slow
def test_it_judges_where_asserts_are_left_out() -> None:
    program = (
        "import numpy as np\nfrom tazza.testing import Case, check_op\nfrom tazza.errors import CheckError\n"
        "try: check_op(Case('Relu', [np.ones(3, np.float32)], np.ones(2, np.float32)), 'reference')\n"
        "except CheckError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "the shape is (3,), not (2,)\n"
