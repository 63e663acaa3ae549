"""The harness of operator tests itself: what it must not let pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.operator import Operator, OpView, operator_def
from tazza.tensor import Tensor
from tests import check
from tests.check import Case, check_engine, check_gradient, check_op, run

CROSSES_ONCE = 1
"""A seed whose first direction goes further than half a step, and the second does not."""

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)


def relu(values: NDArray[Any]) -> Case:
    return Case("Relu", [values], np.maximum(values, 0))


def test_another_engine_is_noticed() -> None:
    with pytest.raises(AssertionError, match="asked for gemm, ran"):
        check_op(relu(X), "gemm")


def ran_on_reference() -> Operator:
    return run(operator_def("Relu", ["X"], ["Y"]), [X])[1]


def test_an_engine_that_has_no_kernel_did_not_refuse() -> None:
    with pytest.raises(AssertionError, match="gemm was"):
        check_engine(ran_on_reference(), "gemm", may_refuse=True)
    with pytest.raises(AssertionError, match="cuda was passed over without a reason"):
        check_engine(ran_on_reference(), "cuda", may_refuse=True)


def test_a_refusal_is_a_pass_only_where_it_may_be() -> None:
    definition = operator_def("Conv", ["X", "W"], ["Y"], kernel=2)
    channels_last = Tensor.from_numpy(np.ones((2, 5, 4, 3), np.float32))
    strided = [channels_last.view((2, 3, 5, 4), strides=(60, 1, 12, 3)), np.ones((6, 3, 2, 2), np.float32)]
    with pytest.raises(AssertionError, match="asked for gemm, ran"):
        run(definition, strided, "gemm")
    operator = run(definition, strided, "gemm", may_refuse=True)[1]
    assert operator.choices[-1].engine == "reference"


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
