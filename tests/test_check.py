"""The harness of operator tests itself: what it must not let pass."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Several
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ShapeError, TazzaError
from tazza.operator import (
    KERNELS,
    Effects,
    Operator,
    OpView,
    Unsupported,
    blob,
    find_schema,
    forget_function,
    host_kernel,
    kernel,
    launcher,
    operator_def,
    schema,
)
from tazza.operator.touches import Touched
from tazza.proto import NetDef
from tazza.tensor import Blob, CUDAPlace
from tazza.testing import gradient, judge
from tazza.workspace import Workspace
from tests import nested_case
from tests.check import Case, check_engine, check_gradient, check_op, run
from tests.declared import LEDGER
from tests.nested_case import Nested
from tests.sequences import Sequence, Step

CROSSES_ONCE = 1
"""A seed whose first direction goes further than half a step, and the second does not."""

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)


def relu(values: NDArray[Any]) -> Case:
    return Case("Relu", [values], np.maximum(values, 0))


def test_another_engine_is_noticed() -> None:
    with pytest.raises(AssertionError, match="gemm was not there to refuse"):
        check_op(relu(X), "gemm")


def ran_on_reference() -> Operator:
    return run(operator_def("Relu", ["X"], ["Y"]), [X])[1]


def test_an_engine_that_has_no_kernel_did_not_refuse() -> None:
    with pytest.raises(AssertionError, match="gemm was"):
        check_engine(ran_on_reference(), "gemm", refusable=True)
    with pytest.raises(AssertionError, match="cuda was passed over without a reason"):
        check_engine(ran_on_reference(), "cuda", refusable=True)


def test_an_engine_that_takes_what_is_declared_as_refused_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LEDGER, "writes", False)
    monkeypatch.setitem(LEDGER.declared, "native", {"Relu": {"float32[2, 3]": "it is Monday"}})
    with pytest.raises(AssertionError, match=r"native takes Relu float32\[2, 3\], which is declared as refused"):
        check_op(relu(X), "native")


def test_a_selective_engine_takes_what_is_declared_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LEDGER, "writes", False)
    operator = run(operator_def("Relu", ["X"], ["Y"]), [X])[1]
    monkeypatch.setitem(LEDGER.declared, "native/winograd", {})
    with pytest.raises(AssertionError, match=r"winograd takes Relu float32\[2, 3\], which is not declared"):
        LEDGER.settle(operator, "native/winograd", None)
    LEDGER.seen.clear()
    monkeypatch.setitem(LEDGER.declared, "native/winograd", {"Relu": {"float32[2, 3]": ""}})
    with pytest.raises(AssertionError, match="winograd refuses Relu"):
        LEDGER.settle(operator, "native/winograd", "it is Monday")


@pytest.fixture
def gemm_refuses_relu() -> Iterator[None]:
    """Give the engine gemm a kernel of Relu that takes nothing."""

    @launcher(find_schema("Relu"), engine="gemm")
    def prepare(*_: object) -> Unsupported:  # pyright: ignore[reportUnusedFunction] -- registered
        return Unsupported("it is Monday")

    yield
    KERNELS.unregister(("Relu", "cpu", "gemm"))


@pytest.mark.usefixtures("gemm_refuses_relu")
def test_a_refusal_is_a_pass_only_where_it_may_be() -> None:
    definition = operator_def("Relu", ["X"], ["Y"])
    with pytest.raises(AssertionError, match=r"gemm refuses Relu .* against what is declared: it is Monday"):
        run(definition, [X], "gemm")
    _, operator = run(definition, [X], "gemm", refusable=True)
    assert check_engine(operator, "gemm", refusable=True) == "it is Monday"


def evaluations(monkeypatch: pytest.MonkeyPatch, case: Case, seed: int) -> int:
    """Check the gradient and return how often the reference was evaluated: once, and twice in each direction."""
    count: list[int] = []
    evaluate = gradient.evaluate

    def counted(op: OpView, inputs: Several[NDArray[Any]]) -> list[NDArray[Any]]:
        count.append(1)
        return evaluate(op, inputs)

    with monkeypatch.context() as patch:
        patch.setattr(gradient, "evaluate", counted)
        check_gradient(case, "reference", seed=seed)
    return len(count)


def test_a_direction_that_crosses_a_kink_is_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a step from 0 every direction longer than that crosses it; away from 0 none does."""
    near = relu(np.array([gradient.STEP / 2], np.float32))
    assert evaluations(monkeypatch, relu(X), 0) == 3
    assert evaluations(monkeypatch, near, CROSSES_ONCE) == 5


def test_a_kink_itself_has_no_gradient() -> None:
    with pytest.raises(AssertionError, match="gradient of input X"):
        check_gradient(relu(np.zeros(3, np.float32)), "reference")


def test_a_kernel_that_keeps_what_its_output_held_is_noticed() -> None:
    made = schema(
        "TestHolds",
        "Y = |X|.",
        inputs=[blob("X", dims="*S")],
        outputs=[blob("Y", like="X")],
        effects=Effects.PURE,
        no_gradient=None,
    )

    @kernel(made)
    def absolute(X: NDArray[Any], Y: NDArray[Any]) -> None:
        np.copyto(Y, np.abs(X), where=Y != judge.HELD)

    try:
        with pytest.raises(AssertionError, match=f"{judge.HELD}.0 .ACTUAL."):
            check_op(Case(made.type, [X], np.abs(X), gradient=False), "reference")
    finally:
        forget_function(made.type)


# -- operators that keep something, and nets inside --------------------------------------------------------------------


class Harm:
    """What the kernel of a planted operator does wrong, if anything, and how often it ran."""

    def __init__(self, done: str) -> None:
        self.done = done
        self.runs = 0


HARMS = {
    "": "",
    "wrong number": "step 1, TestKeeps: 'y'",
    "another blob": r"changes \['note'\], which it does not declare",
    "an input": r"changes \['x'\], which it does not declare",
    "in the process": "not what the operators alone leave",
    "no error": "DID NOT RAISE",
    "another error": "Regex pattern did not match",
}


def keeps(harm: Harm) -> str:
    """Register an operator that adds x to what y holds."""
    made = schema(
        "TestKeeps",
        "y = y + x, or x where y holds nothing.",
        inputs=[blob("x", dims="*S")],
        outputs=[blob("y", like="x")],
        effects=Effects.STATE,
        no_gradient=None,
    )

    @host_kernel(made)
    def add(workspace: Workspace, x: Blob, y: Blob) -> None:
        harm.runs += 1
        value = x.tensor().plain()
        if value.ndim == 0 and harm.done != "no error":
            raise ShapeError("x is a number" if harm.done == "another error" else "x has rank 0")
        held = y.tensor().plain() if y.is_tensor and y.tensor().allocated else np.zeros_like(value)
        wrong = (harm.done, harm.runs) == ("wrong number", 2) or (harm.done == "in the process" and harm.runs > 3)
        y.tensor().assign(held + value + wrong)
        if harm.done == "another blob":
            workspace.create_blob("note").set("here")
        if harm.done == "an input":
            x.tensor().assign(value + 1)

    return made.type


@pytest.mark.parametrize("done", HARMS)
def test_harm_of_an_operator_that_keeps_something_is_noticed(done: str) -> None:
    op = operator_def(keeps(Harm(done)), ["x"], ["y"])
    steps = (
        Step(op, {"y": X}, {"x": X}),
        Step(op, {"y": 2 * X}, {"x": X}),
        Step(op, feeds={"x": np.array(1, np.float32)}, fails=ShapeError, text="x has rank 0"),
    )
    case = Sequence("adds", steps, stored=True)
    try:
        if done:
            with pytest.raises((AssertionError, pytest.fail.Exception), match=HARMS[done]):
                check_op(case)
        else:
            check_op(case)
            with pytest.raises(AssertionError, match="say so by `stored`"):
                check_op(replace(case, stored=False))
    finally:
        forget_function(op.type)


def test_what_cannot_be_saved_is_not_stored() -> None:
    case = Sequence("queue", (Step(operator_def("CreateBlobsQueue", [], ["q"])),) * 2)
    check_op(case)
    with pytest.raises(AssertionError, match="'q' cannot be saved before step 1"):
        check_op(replace(case, stored=True))


BRANCH = NetDef(name="then", op=[operator_def("Tanh", ["x"], ["y"])])
NESTED = Nested(
    "branch",
    (operator_def("If", ["c"], [], then_net=BRANCH),),
    {"c": np.array([True]), "x": X},
    {"y": np.tanh(X)},
    ("y",),
)


def test_a_nested_net_that_is_right() -> None:
    check_op(NESTED)
    assert NESTED.types() == {"If", "Tanh", "TanhGradient", "ConstantFill"}


def identity(net: NetDef, values: dict[str, NDArray[Any]]) -> None:
    """Evaluate a net wrongly."""
    del net
    values["y"] = values["x"]


WRONG = replace(NESTED, leaves={"y": np.tanh(X) + 0.1}), replace(NESTED, evaluate=identity)


@pytest.mark.parametrize(("case", "words"), list(zip(WRONG, ["Not equal to tolerance", "gradient of x"], strict=True)))
def test_nested_nets_that_are_wrong(case: Nested, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_op(case)


def test_nested_nets_are_run_by_the_host() -> None:
    with pytest.raises(AssertionError, match="run by the host"):
        check_op(NESTED, place=CUDAPlace(0))


@pytest.mark.parametrize(
    ("touched", "words"),
    [
        (Touched(("c", "x"), (), frozenset()), r"\['y'\] are written, undeclared"),
        (Touched(("c", "x"), ("y", "z"), frozenset("z")), r"\['z'\] were not written, declared as certain"),
        (Touched(("c",), ("y",), frozenset("y")), "'x' does not exist"),
    ],
)
def test_what_is_touched_is_held(touched: Touched, words: str, monkeypatch: pytest.MonkeyPatch) -> None:

    def told(net: NetDef) -> Touched:
        del net
        return touched

    monkeypatch.setattr(nested_case, "touched_by", told)
    with pytest.raises((AssertionError, TazzaError), match=words):
        check_op(NESTED)
