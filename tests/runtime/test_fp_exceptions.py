"""Runs that fail where arithmetic does what Caffe2's flags ask about."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import NumericError
from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.runtime.fp_exceptions import THROW, THROW_OVERFLOW
from tazza.workspace import Workspace

INF, NAN = float("inf"), float("nan")
RAISED = {
    "Div": [(1, 0), (0, 0)],
    "Sub": [(INF, INF)],
    "Sqrt": [(-1,)],
    "Log": [(0,), (-1,)],
}
"""Operator -> inputs at which genuine Caffe2 1.8.1 raised, with the first flag."""
PASSED = {"Exp": [(1000,), (-1000,)], "Mul": [(1e30, 1e30), (1e-30, 1e-30)], "Add": [(NAN, 1)], "Copy": [(INF,)]}


def run(type: str, values: tuple[float, ...]) -> float:
    """Return what a net of one operator makes of scalars, in its second run."""
    workspace = Workspace()
    for number, value in enumerate(values):
        workspace.feed(f"x{number}", np.array([value], np.float32))
    net = workspace.create_net(NetDef(op=[operator_def(type, [f"x{n}" for n in range(len(values))], ["y"])]))
    net.run()
    net.run()
    return float(workspace.fetch("y")[0])


@pytest.mark.parametrize(("type", "values"), [(type, values) for type, all in RAISED.items() for values in all])
def test_what_divides_by_zero_or_is_invalid_fails_where_that_is_asked_for(type: str, values: tuple[float, ...]) -> None:
    assert not np.isfinite(run(type, values))
    with THROW.override(True), pytest.raises(NumericError, match=r"zero|invalid"):
        run(type, values)


@pytest.mark.parametrize(("type", "values"), [(type, values) for type, all in PASSED.items() for values in all])
def test_other_arithmetic_passes(type: str, values: tuple[float, ...]) -> None:
    with THROW.override(True):
        told = run(type, values)
    np.testing.assert_equal(told, run(type, values))


def test_an_overflow_has_a_flag_of_its_own() -> None:
    with THROW_OVERFLOW.override(True):
        assert run("Div", (1, 0)) == INF
        with pytest.raises(NumericError, match="overflow"):
            run("Exp", (1000,))


def test_a_net_that_is_there_follows_the_flag() -> None:
    workspace = Workspace()
    for name, value in {"x": 1, "zero": 0}.items():
        workspace.feed(name, np.array([value], np.float32))
    net = workspace.create_net(NetDef(op=[operator_def("Div", ["x", "zero"], ["y"])]))
    for _ in range(3):
        net.run()
    with THROW.override(True), pytest.raises(NumericError):
        net.run()
    net.run()
    assert workspace.fetch("y")[0] == INF
