"""Strings in planned nets: references to Python's objects never lie in raw memory, whatever the operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import TazzaError
from tazza.operator import SCHEMAS, OpSchema, operator_def
from tazza.proto import NetDef
from tazza.tensor import DataType
from tazza.workspace import Workspace

TEXTS = np.array([[b"ab", b"", b"abc"], [b"d", b"e", b"f"]], object)
ARGUMENTS: dict[str, dict[str, Any]] = {
    "ExpandDims": {"dims": [0]},
    "Squeeze": {"dims": [1]},
    "Tile": {"tiles": 2, "axis": 0},
}


def takes_strings(schema: OpSchema) -> bool:
    """Whether an operator may take one tensor of strings, as far as its schema says."""
    needed = [spec for spec in schema.inputs if not spec.optional]
    if len(needed) != 1 or needed[0].type_name is not None:
        return False
    dtypes = needed[0].dtypes
    return dtypes is None or dtypes is DataType.STRING or (isinstance(dtypes, frozenset) and DataType.STRING in dtypes)


TYPES = sorted(type for type in SCHEMAS if takes_strings(SCHEMAS[type]))


def outcome(type: str, net_type: str) -> list[object] | str:
    """Run the operator twice in a row, and twice over; what comes out, or the class of the error."""
    outputs = [f"y{i}" for i in range(sum(not spec.optional for spec in SCHEMAS[type].outputs))]
    first = operator_def(type, ["x"], outputs, **ARGUMENTS.get(type, {}))
    second = operator_def(type, outputs[:1], [f"z{i}" for i in range(len(outputs))], **ARGUMENTS.get(type, {}))
    for ops in ([first, second], [first]):
        net = NetDef(name="n", op=ops, type=net_type, external_input=["x"], external_output=[ops[-1].output[0]])
        workspace = Workspace()
        workspace.feed("x", TEXTS)
        try:
            workspace.create_net(net)
            workspace.run_net("n")
            workspace.feed("x", TEXTS[::-1])
            workspace.run_net("n")
            return [workspace.fetch(ops[-1].output[0])]
        except TazzaError as error:
            told = error.__class__.__name__
    return told


def test_there_are_such_operators() -> None:
    assert {"Copy", "FlattenToVec", "ExpandDims"} <= set(TYPES)


@pytest.mark.parametrize("type", [type for type in TYPES if SCHEMAS[type].outputs])
def test_plans_give_what_simple_nets_give(type: str) -> None:
    if SCHEMAS[type].outputs[0].type_name is not None:
        return  # a blob of another kind
    simple, planned = outcome(type, "simple"), outcome(type, "plan")
    if isinstance(simple, str):
        assert planned == simple
    else:
        np.testing.assert_array_equal(np.asarray(planned[0]), np.asarray(simple[0]))
