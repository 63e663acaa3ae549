"""Copy, CopyOnDeviceLike and StopGradient: all element types, in place where allowed, and where gradients end."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import BlobTypeError, GradientError, SchemaError
from tazza.graph import backward_pass
from tazza.operator import SCHEMAS, find_schema, gradient_for_op, operator_def, run_op
from tazza.workspace import Workspace
from tests.check import Case, check_op, on_all_engines, run

X = np.array([[-1.5, 0.25, 3.0], [2.0, -0.5, -4.0]], np.float32)
TEXT = np.array([[b"a", b"bc"], [b"", b"d"]], object)

CASES = [
    Case("Copy", [X], X, batched=(0,)),
    Case("Copy", [X[0, 0]], X[0, 0], id="rank 0"),
    Case("Copy", [X > 0], X > 0, gradient=False, id="bool"),  # integers have no derivative
    Case("Copy", [np.arange(5)], np.arange(5), gradient=False, id="int64"),
    Case("Copy", [TEXT], TEXT, gradient=False, id="text"),
    Case("CopyOnDeviceLike", [X, np.zeros(5, "i")], X, batched=(0, 1)),
    *(Case(type, [X], X, batched=(0,)) for type in ("CopyFromCPUInput", "EnsureCPUOutput")),
    *(Case(type, [X], X, batched=(0,)) for type in ("CopyCPUToGPU", "CopyGPUToCPU")),
    *(Case(type, [TEXT], TEXT, gradient=False, id="text") for type in ("CopyFromCPUInput", "EnsureCPUOutput")),
    Case("StopGradient", [X], X, batched=(0,)),
    Case("StopGradient", [TEXT], TEXT, id="text"),
]


@on_all_engines(CASES)
def test_copy(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_the_copy_has_memory_of_its_own() -> None:
    workspace = Workspace()
    for type in ("Copy", "StopGradient"):
        workspace.feed("x", X)
        workspace.run_operator(operator_def(type, ["x"], ["y"]))
        workspace.run_operator(operator_def("Scale", ["x"], ["x"], scale=2.0))
        np.testing.assert_array_equal(workspace.fetch("y"), X)


@pytest.mark.parametrize(("type", "inputs"), [("Copy", "a"), ("CopyOnDeviceLike", "ab"), ("CopyOnDeviceLike", "ba")])
def test_not_in_place(type: str, inputs: str) -> None:
    with pytest.raises(SchemaError, match=f"{type} cannot write Y in place of"):
        run(operator_def(type, list(inputs), ["a"]), [X] * len(inputs))


@pytest.mark.parametrize("type", ["Copy", "StopGradient"])
def test_only_tensors_are_copied(type: str) -> None:
    with pytest.raises(BlobTypeError, match="blob 'in0' holds a"):
        run_op(type, "text")


def test_stop_gradient_cuts_the_path_through_it() -> None:
    """behaviours.md row 13: inputs behind it get no gradient, others do."""
    net = [
        operator_def("FC", ["x", "w", "b"], ["y"]),
        operator_def("StopGradient", ["y"], ["y"]),
        operator_def("FC", ["y", "w2", "b2"], ["z"]),
        operator_def("AveragedLoss", ["z"], ["l"]),
    ]
    assert sorted(backward_pass(net, ["l"])[1]) == ["b2", "l", "w2", "z"]
    assert gradient_for_op(find_schema("StopGradient").view(net[1]), ["y_grad"]) == ([], [None])


def test_copying_to_another_device_has_no_gradient() -> None:
    op = find_schema("CopyOnDeviceLike").view(operator_def("CopyOnDeviceLike", ["x", "d"], ["y"]))
    with pytest.raises(GradientError, match="CopyOnDeviceLike has no gradient yet"):
        gradient_for_op(op, ["y_grad"])


def test_whoever_crosses_places_says_that_it_copies() -> None:
    """Then a thread and streams of copies have it, beside what computes."""
    found = [SCHEMAS[type] for type in SCHEMAS]
    crossing = [
        one
        for one in found
        if len(one.inputs) == len(one.outputs) == 1
        and one.outputs[0].like == one.inputs[0].name
        and one.inputs[0].host != one.outputs[0].host
    ]
    assert len(crossing) >= 4
    assert [one.type for one in crossing if not one.copying] == []


@pytest.mark.parametrize("type", [type for type in SCHEMAS if SCHEMAS[type].copying])
def test_what_says_that_it_copies_does(type: str) -> None:
    X = np.arange(15, dtype=np.int64).reshape(3, 5) << 40
    Y = run_op(type, *[X] * len(find_schema(type).inputs))
    np.testing.assert_array_equal(Y, X)
