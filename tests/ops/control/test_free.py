"""Free: blobs are there and hold nothing; recorded, and in nets that go on."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import SchemaError, TazzaError
from tazza.nets import NETS
from tazza.operator import find_schema, operator_def
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences

FREE = operator_def("Free", ["a", "b"], ["a", "b"])
CASES = [
    Sequence(
        "emptied",
        (
            Step(FREE, {}, {"a": np.arange(3), "b": "a text"}),
            Step(operator_def("Free", ["a"], ["a"])),
            Step(operator_def("Relu", ["a"], ["c"]), fails=TazzaError),
            Step(operator_def("Copy", ["z"], ["a"]), {"a": np.arange(2)}, {"z": np.arange(2)}),
        ),
        stored=True,
    )
]


@on_sequences(CASES)
def test_emptied(case: Sequence) -> None:
    check_op(case)


@pytest.mark.parametrize("kind", sorted(NETS))
def test_what_is_freed_was_read_before(kind: str) -> None:
    ops = [
        operator_def("Scale", ["x"], ["y"], scale=2.0),
        operator_def("Relu", ["y"], ["z"]),
        operator_def("Free", ["y"], ["y"]),
    ]
    home = Workspace()
    x = np.array([-1, 2, 3], np.float32)
    home.feed("x", x)
    net = home.create_net(NetDef(name="n", type=kind, num_workers=2, op=ops, external_output=["z"]))
    for _ in range(2):
        net.run()
        np.testing.assert_array_equal(home.fetch("z"), [0, 4, 6])
        assert not home.has_blob("y") or home.blob("y").is_empty or kind == "plan"
    home.delete_net("n")


@pytest.mark.parametrize("outputs", [["b", "a"], ["a"], ["a", "c"]])
def test_in_place_alone(outputs: list[str]) -> None:
    with pytest.raises(SchemaError):
        find_schema("Free").view(operator_def("Free", ["a", "b"], outputs))
