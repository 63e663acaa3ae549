"""Pairs of operators that a simple net runs as one: the same bits, no trace, and none where somebody looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.nets.pair import paired
from tazza.operator import operator_def, prefer_engines
from tazza.operator.choice import takes_epilogue
from tazza.operator.observable import Observer
from tazza.proto import NetDef, OperatorDef
from tazza.tensor.expression import Expression
from tazza.workspace import Workspace

pytestmark = pytest.mark.skipif(
    not takes_epilogue("FusedConv", Expression.parse("relu(y)"), "cpu"), reason="no engine here has fused convolutions"
)

CONV = operator_def("Conv", ["x", "W", "b"], ["y"], kernel=3)
RELU = operator_def("Relu", ["y"], ["y"])


def net(*ops: OperatorDef) -> NetDef:
    return NetDef(name="pairs", op=ops)


def workspace() -> Workspace:
    random = np.random.default_rng(3)
    made = Workspace()
    for name, shape in {"x": (2, 3, 8, 9), "W": (5, 3, 3, 3), "b": (5,)}.items():
        made.feed(name, random.standard_normal(shape).astype(np.float32))
    return made


def outputs(ops: Sequence[OperatorDef], *, apart: bool = False) -> tuple[NDArray[Any], list[str]]:
    made = workspace()
    created = made.create_net(net(*ops))
    if apart:
        created.operators[0].attach(Observer())
    created.run()
    return made.fetch("y"), [row.operator for row in created.explain().rows]


def test_a_pair_runs_as_one_with_the_same_bits() -> None:
    fused, rows = outputs([CONV, RELU])
    plain, apart = outputs([CONV, RELU], apart=True)
    assert rows == ["FusedConv"]
    assert apart == ["Conv", "Relu"]
    np.testing.assert_array_equal(fused, plain)
    assert (fused == 0).any()


def test_observers_that_come_later_see_both() -> None:
    created = workspace().create_net(net(CONV, RELU))
    created.run()
    created.operators[1].attach(Observer())
    created.run()
    assert [row.operator for row in created.explain().rows] == ["Conv", "Relu"]


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(operator_def("Relu", ["y"], ["z"]), id="another blob keeps the first result"),
        pytest.param(operator_def("Relu", ["y"], ["y"], engine="reference"), id="asked for an engine"),
        pytest.param(operator_def("Sigmoid", ["y"], ["y"]), id="rounds"),
        pytest.param(operator_def("Softmax", ["y"], ["y"]), id="no formula"),
        pytest.param(operator_def("Relu", ["x"], ["x"]), id="another blob"),
    ],
)
def test_what_stays_apart(second: OperatorDef) -> None:
    assert paired(CONV, second) is None


def test_reads_of_its_own_result_stay_apart() -> None:
    assert paired(operator_def("FC", ["y", "W", "b"], ["y"]), RELU) is None


def test_preferences_of_the_user_hold_for_pairs() -> None:
    prefer_engines(["reference"])
    try:
        preferred, _ = outputs([CONV, RELU])
    finally:
        prefer_engines([])
    plain, _ = outputs([CONV, RELU], apart=True)
    np.testing.assert_allclose(preferred, plain, rtol=1e-5, atol=1e-5)
