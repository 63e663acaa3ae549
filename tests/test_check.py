"""The harness of operator tests itself: what it must not let pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.operator import KERNELS, Operator, OpView, Unsupported, find_schema, launcher, operator_def
from tests import check
from tests.check import Case, check_engine, check_gradient, check_op, run
from tests.declared import LEDGER

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
    monkeypatch.setitem(LEDGER.declared, "onednn", {"Relu": {"float32[2, 3]": "it is Monday"}})
    with pytest.raises(AssertionError, match=r"onednn takes Relu float32\[2, 3\], which is declared as refused"):
        check_op(relu(X), "onednn")


def test_a_selective_engine_takes_what_is_declared_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LEDGER, "writes", False)
    operator = run(operator_def("Relu", ["X"], ["Y"]), [X])[1]
    monkeypatch.setitem(LEDGER.declared, "winograd", {})
    with pytest.raises(AssertionError, match=r"winograd takes Relu float32\[2, 3\], which is not declared"):
        LEDGER.settle(operator, "winograd", None)
    LEDGER.seen.clear()
    monkeypatch.setitem(LEDGER.declared, "winograd", {"Relu": {"float32[2, 3]": ""}})
    with pytest.raises(AssertionError, match="winograd refuses Relu"):
        LEDGER.settle(operator, "winograd", "it is Monday")


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
    evaluate = check.evaluate

    def counted(op: OpView, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        count.append(1)
        return evaluate(op, inputs)

    with monkeypatch.context() as patch:
        patch.setattr(check, "evaluate", counted)
        check_gradient(case, "reference", seed=seed)
    return len(count)


def test_a_direction_that_crosses_a_kink_is_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a step from 0 every direction longer than that crosses it; away from 0 none does."""
    near = relu(np.array([check.STEP / 2], np.float32))
    assert evaluations(monkeypatch, relu(X), 0) == 3
    assert evaluations(monkeypatch, near, CROSSES_ONCE) == 5


def test_a_kink_itself_has_no_gradient() -> None:
    with pytest.raises(AssertionError, match="input 0"):
        check_gradient(relu(np.zeros(3, np.float32)), "reference")
