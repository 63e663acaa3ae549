"""The backward step net is that of Caffe2, and made where an operator carries none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tazza.errors import GradientError
from tazza.graph import backward_pass
from tazza.operator import find_schema, operator_def
from tazza.ops.recurrent.backward_step import with_backward
from tazza.ops.recurrent.recurrence import Backward, Recurrence
from tazza.proto import NetDef, OperatorDef
from tests.ops.recurrent.cells import FED, SUM, H, N, T, cell, values
from tests.ops.recurrent.recorded import TRAINED, assert_recorded, recorded, run_twice, with_type, workspace_with


@pytest.mark.parametrize("name", TRAINED)
def test_the_backward_step_is_that_of_caffe2(name: str) -> None:
    for op in recorded(name).net.op:
        if op.type == "RecurrentNetwork":
            read = Recurrence.read(find_schema(op.type).view(op), op.input)
            made = with_backward(
                replace(read, backward=Backward()),
                op.input,
                read.backward.outputs_with_grads,
                read.backward.recompute,
            )
            assert made == read


def without_backward(op: OperatorDef) -> OperatorDef:
    """Return a recurrent net as somebody writes it who does not ask for its gradient."""
    home = find_schema(op.type).view(op)
    forward = replace(Recurrence.read(home, op.input), backward=Backward())
    return operator_def(op.type, list(op.input), list(op.output), **forward.arguments())


@pytest.mark.parametrize("name", TRAINED)
def test_a_net_that_carries_no_backward_step_has_the_same_gradients(name: str) -> None:
    """Caffe2 emits the gradient operator there, which fails when it runs."""
    case = recorded(name)
    forward = [without_backward(op) if op.type == "RecurrentNetwork" else op for op in case.net.op[: case.forward]]
    emitted, gradients = backward_pass(forward, case.targets)
    named = [str(gradient) for gradient in gradients.values() if gradient in case.left]
    _, left = run_twice(with_type(NetDef(name="outer", op=[*forward, *emitted]), "simple", named), case.fed)
    assert {op.input[0] for op in case.net.op if op.type == "RecurrentNetwork"} <= gradients.keys()
    assert_recorded(left, {blob: case.left[blob] for blob in left}, "derived")
    _, recorded_gradients = backward_pass(case.net.op[: case.forward], case.targets)
    assert gradients == recorded_gradients


DROPPED = (
    operator_def("Dropout", ["row"], ["kept", "mask"], is_test=0),
    operator_def("Sum", ["kept", "state"], ["after"]),
)
COUNTED = operator_def("Sum", ["w", "row"], ["w"]), operator_def("Sum", ["w", "state"], ["after"])
HIDDEN = operator_def("Mul", ["row", "hidden"], ["m"]), operator_def("Sum", ["m", "state"], ["after"])
WITHOUT_GRADIENT: list[tuple[tuple[OperatorDef, ...], dict[str, Any], str]] = [
    (DROPPED, {}, "Dropout, operator 0 of net 'step', may do otherwise when it runs again"),
    (COUNTED, {}, "a step changes 'w', which it reads first"),
    (HIDDEN, {}, "a step reads 'hidden', which is no input"),
    ((SUM,), {"link_offset": [0, 1, 1]}, "reads rows of 'x' at 1, 1 long; one of 'x' at 0, 1 long, has a gradient"),
    ((SUM,), {"link_offset": [1, 2, 0]}, "has 'state' at 1, 1 long, 'after' at 2, 1 long of the state 'states'"),
    ((operator_def("Copy", ["state"], ["after"]),), {}, "blob 'row' of a step has no gradient"),
]


@pytest.mark.parametrize(("ops", "changes", "text"), WITHOUT_GRADIENT)
def test_steps_that_no_gradient_is_made_of(ops: tuple[OperatorDef, ...], changes: dict[str, Any], text: str) -> None:
    with pytest.raises(GradientError, match=text):
        backward_pass([cell(*ops, **changes)], {"all": "all_grad"})


@pytest.mark.parametrize("name", ["all", "last"])
def test_a_step_that_passes_gradients_on_needs_no_net(name: str) -> None:
    """Neither for the row nor for the state is there anything to do; Caffe2 keeps two steps and fails on four."""
    given = values(T if name == "all" else 1, N, H, seed=3)
    emitted, _ = backward_pass([cell(SUM)], {name: "given"})
    home = workspace_with(FED | {"given": given})
    home.run_net_once(NetDef(name="outer", op=[cell(SUM), *emitted]))
    each = np.zeros((T, N, H), np.float32)
    each[-len(given) :] = given
    sums = np.cumsum(each[::-1], axis=0)[::-1]
    np.testing.assert_allclose(home.fetch("x_grad"), sums, rtol=1e-6)
    np.testing.assert_allclose(home.fetch("h0_grad"), sums[:1], rtol=1e-6)
