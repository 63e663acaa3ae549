"""Nets with nets inside give what the genuine Caffe2 gave, and have the gradient operators that its Python appends.

Caffe2 lists what a net touches in the order of a Python set, another one in each process: lists of names are compared
as sets, but for what has a place of its own (the condition, the stack of scopes).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.graph import backward_pass
from tazza.nets import NETS
from tazza.operator import find_argument
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import Tensor
from tazza.workspace import Workspace
from tests.recorded_nets import Recorded, read_recorded
from tests.sampled import sampled

FOLDER = Path(__file__).parents[2] / "data" / "golden" / "nets"
CASES = sorted(path.stem for path in FOLDER.glob("*.npz"))


def recorded(name: str) -> Recorded:
    """Return a recording."""
    return read_recorded(FOLDER / f"{name}.npz")


def plain(op: OperatorDef) -> Any:
    """Return what an operator says, less the orders that Caffe2 leaves to chance."""
    if op.type not in ("If", "While", "Do"):
        return op.type, list(op.input), list(op.output), [argument.SerializeToString() for argument in op.arg]
    nets = {argument.name: [plain(one) for one in argument.n.op] for argument in op.arg if argument.HasField("n")}
    names = {argument.name: argument.n.name for argument in op.arg if argument.HasField("n")}
    if op.type != "Do":
        return op.type, op.input[0], sorted(op.input[1:]), sorted(op.output), nets, names, op.is_gradient_op
    outer = [*op.input[:-1], *op.output[:-1]]
    inner, places, saved = (find_argument(op, name) for name in ("inner_blobs", "outer_blobs_idx", "saved_fwd_blobs"))
    assert inner is not None
    assert places is not None
    bound = {name: outer[index] for name, index in zip(inner.strings, places.ints, strict=True)}
    kept = [] if saved is None else sorted(saved.strings)
    ends = op.input[-1], op.output[-1]
    return op.type, ends, sorted(op.input), sorted(op.output), bound, kept, nets, names, op.is_gradient_op


@pytest.mark.parametrize("name", CASES)
def test_gradient_operators(name: str) -> None:
    case = recorded(name)
    forward = case.net.op[: case.forward]
    emitted, _ = backward_pass(forward, case.targets) if case.targets else ([], {})
    assert [plain(op) for op in emitted] == [plain(op) for op in case.net.op[case.forward :]]


@pytest.mark.parametrize("kind", sorted(NETS))
@pytest.mark.parametrize("name", sampled(CASES))
def test_results(name: str, kind: str) -> None:
    case = recorded(name)
    home = Workspace()
    for blob, value in case.fed.items():
        home.feed(blob, value)
    net = NetDef()
    net.CopyFrom(case.net)
    net.type, net.num_workers = kind, 2
    kept = [blob for blob in case.left if blob not in case.fed]
    del net.external_input[:], net.external_output[:]
    net.external_output.extend(blob for blob in case.left if blob not in case.fed)
    made = home.create_net(net)
    for _ in range(2):
        for blob, value in case.fed.items():
            home.feed(blob, value)
        made.run()
        for blob in kept:
            value = home.blob(blob).value
            assert isinstance(value, Tensor)
            np.testing.assert_allclose(value.plain(), case.left[blob], rtol=1e-6, atol=1e-7, err_msg=blob)
    home.delete_net(net.name)
