"""Shapes of a whole net without running it."""

from __future__ import annotations

import pytest

from tazza.errors import ShapeError, UnknownOperatorError
from tazza.graph.inference import infer_net
from tazza.operator import Spec, operator_def
from tazza.proto import NetDef
from tazza.tensor import DataType, TensorSpec

NET = NetDef(
    name="n",
    op=[
        operator_def("Conv", ["x", "w"], ["y"], kernel=3),
        operator_def("Relu", ["y"], ["y"]),
        operator_def("FC", ["y", "fw", "fb"], ["z"]),
    ],
)
PARAMETERS: dict[str, Spec] = {
    name: TensorSpec(dims, DataType.FLOAT)
    for name, dims in {"w": (5, 2, 3, 3), "fw": (7, 5 * 4 * 6), "fb": (7,)}.items()
}


def test_shapes_follow_from_the_inputs() -> None:
    found = infer_net(NET, {**PARAMETERS, "x": TensorSpec((3, 2, 6, 8), DataType.FLOAT)})
    assert [str(each.outputs[0]) for each in found] == ["float32[3, 5, 4, 6]", "float32[3, 5, 4, 6]", "float32[3, 7]"]
    assert found[0].cost is not None
    assert found[0].cost.flops >= 2 * (3 * 5 * 4 * 6) * (2 * 3 * 3)


def test_what_is_not_known_stays_unknown() -> None:
    found = infer_net(NET, PARAMETERS)
    assert found[0].outputs == (None,)
    assert found[0].cost is None


def test_errors_name_the_operator() -> None:
    with pytest.raises(ShapeError, match=r"in operator 0 \(Conv\) of net 'n'"):
        infer_net(NET, {**PARAMETERS, "x": TensorSpec((3, 4, 6, 8), DataType.FLOAT)})
    with pytest.raises(UnknownOperatorError, match=r"in operator 0 \(Cnov\)"):
        infer_net(NetDef(name="n", op=[operator_def("Cnov", ["x"], ["y"])]), {})
