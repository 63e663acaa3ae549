"""Gradients that a function gives: of types that nobody declares, or whose family file has none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tazza.errors import GradientError, UnknownOperatorError
from tazza.graph import backward_pass
from tazza.operator import Gradient, forget_gradient, operator_def, register_gradient
from tazza.proto import OperatorDef


@pytest.fixture
def direct() -> Iterator[None]:
    """Register the gradient of an operator Direct, which reads the gradients alone, and of one that reads its input."""

    def give(op: OperatorDef, gradients: Sequence[Gradient]) -> tuple[list[OperatorDef], list[Gradient]]:
        read = [str(one) for one in gradients] + ([op.input[0]] if op.type == "TestReads" else [])
        made: list[Gradient] = [f"{name}_grad" for name in op.input]
        return [operator_def(f"{op.type}Gradient", read, [str(one) for one in made])], made

    register_gradient("TestDirect", give)
    register_gradient("TestReads", give)
    yield
    forget_gradient("TestDirect")
    forget_gradient("TestReads")


def ops_of(ops: Sequence[OperatorDef]) -> list[tuple[str, list[str], list[str]]]:
    return [(op.type, list(op.input), list(op.output)) for op in ops]


@pytest.mark.usefixtures("direct")
def test_types_need_no_schema() -> None:
    ops, gradients = backward_pass(
        [operator_def("TestDirect", ["x"], ["h"]), operator_def("TestDirect", ["h"], ["y"])], {"y": "y_grad"}
    )
    assert ops_of(ops) == [
        ("TestDirectGradient", ["y_grad"], ["h_grad"]),
        ("TestDirectGradient", ["h_grad"], ["x_grad"]),
    ]
    assert gradients["x"] == "x_grad"


@pytest.mark.usefixtures("direct")
def test_contributions_are_added_as_those_of_families() -> None:
    forward = [
        operator_def("TestDirect", ["x"], ["a"]),
        operator_def("TestDirect", ["x"], ["b"]),
        operator_def("Sum", ["a", "b"], ["y"]),
    ]
    assert ops_of(backward_pass(forward, {"y": "y_grad"})[0])[-1] == (
        "Sum",
        ["x_grad", "_x_grad_autosplit_0"],
        ["x_grad"],
    )


@pytest.mark.usefixtures("direct")
def test_what_it_reads_must_still_be_there() -> None:
    with pytest.raises(GradientError, match="needs 'x' as it was"):
        backward_pass([operator_def("TestReads", ["x"], ["y"]), operator_def("TestDirect", ["q"], ["x"])], {"y": "g"})


def test_a_gradient_for_each_input() -> None:
    register_gradient("TestShort", lambda op, gradients: ([], []))
    with pytest.raises(GradientError, match="gives 0 gradients for 1 inputs"):
        backward_pass([operator_def("TestShort", ["x"], ["y"])], ["y"])
    forget_gradient("TestShort")


def test_families_come_first() -> None:
    register_gradient("Relu", lambda op, gradients: ([], [None]))
    assert backward_pass([operator_def("Relu", ["x"], ["y"])], ["y"])[0][-1].type == "ReluGradient"
    forget_gradient("Relu")
    with pytest.raises(UnknownOperatorError):
        backward_pass([operator_def("TestDirect", ["x"], ["y"])], ["y"])
