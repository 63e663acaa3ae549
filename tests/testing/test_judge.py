"""The judge as others use it: without a table of what engines refuse."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from tazza.errors import CheckError, SchemaError, UnknownOperatorError
from tazza.operator import (
    FLOAT,
    KERNELS,
    Array,
    Effects,
    OpView,
    Unsupported,
    arg,
    blob,
    find_schema,
    forget_function,
    kernel,
    launcher,
    not_written,
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
        no_gradient=not_written("nobody needs it"),
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
    assert done.stdout == (
        "Relu on engine reference breaks the law: output Y agrees with `expected`\nthe shape is (3,), not (2,)\n"
    )


# -- every failure says which operator, engine, law and letter -----------------------------------------------------


def right(X: Array, Y: Array) -> None:
    np.multiply(X, 2, out=Y)


def adds(X: Array, Y: Array) -> None:
    np.add(Y, 2 * X, out=Y)


def wrong_in_place(X: Array, Y: Array) -> None:
    Y[...] = 0
    np.add(Y, 2 * X, out=Y)


def wrong_over_strides(X: Array, Y: Array) -> None:
    np.multiply(X, 2 if X.flags.c_contiguous else 3, out=Y)


def changes_its_input(X: Array, Y: Array) -> None:
    np.multiply(X, 2, out=Y)
    np.add(X, 1, out=X)


@dataclass(frozen=True)
class Wrong:
    """What is wrong with an operator that doubles, and what is said of it."""

    law: str
    kernel: Callable[[Array, Array], None] = right
    factor: float = 2.0
    expected: float = 2.0
    default: float = 2.0
    silent: bool = False
    shown: tuple[str, ...] = field(default=())


WRONG = [
    Wrong("output Y agrees with `expected`", expected=3.0, shown=("ACTUAL",)),
    Wrong("output Y is the same whatever the outputs held before the run", kernel=adds),
    Wrong("output Y in place, with output Y over input X, is that out of place", kernel=wrong_in_place),
    Wrong("output Y is the same for inputs that are not contiguous", kernel=wrong_over_strides),
    Wrong("input X is left as it is", kernel=changes_its_input),
    Wrong("the gradient of input X is the central difference of the reference kernel", factor=1.0),
    Wrong("its gradient operators have its defaults", default=1.0, shown=("'b' is 2.0 in TestWrong, 1.0 in ",)),
    Wrong("an operator has a gradient, or says why not", silent=True),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.law)
def test_a_failure_names_operator_case_engine_law_and_letter(wrong: Wrong) -> None:
    made = schema(
        "TestWrong",
        "Y = 2 X.",
        inputs=[blob("X", FLOAT, "*S")],
        outputs=[blob("Y", like="X")],
        args=[arg("b", float, default=2.0)],
        in_place={"Y": "X"},
        effects=Effects.PURE,
    )
    behind = schema(
        "TestWrongGradient",
        "dX = b dY.",
        inputs=[blob("dY", FLOAT, "*S")],
        outputs=[blob("dX", like="dY")],
        args=[arg("b", float, default=wrong.default)],
        effects=Effects.PURE,
        no_gradient=not_written("nobody needs it"),
    )
    try:
        kernel(made)(wrong.kernel)

        @kernel(behind)
        def pull_back(dY: Array, dX: Array) -> None:  # pyright: ignore[reportUnusedFunction]
            np.multiply(dY, wrong.factor, out=dX)

        if not wrong.silent:
            made.gradient(lambda g: g.emit(behind.type, [g.dY], [g.dX]))
        with pytest.raises(CheckError) as caught:
            check_op(Case(made.type, [X], wrong.expected * X, {"b": 2.0}, id="of two rows"))
    finally:
        forget_function(made.type)
        forget_function(behind.type)
    first, *more = str(caught.value).splitlines()
    assert first == f"TestWrong (case of two rows) on engine reference breaks the law: {wrong.law}"
    assert all(any(text in line for line in more) for text in wrong.shown)


def test_a_type_that_is_none_is_told_with_near_names() -> None:
    with pytest.raises(UnknownOperatorError, match="did you mean Relu"):
        check_op(Case("Reluu", [X], X))
