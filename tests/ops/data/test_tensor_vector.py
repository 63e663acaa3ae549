"""CreateTensorVector, TensorVectorSize, ConcatTensorVector, CollectTensor: recorded, drawn as Caffe2, and refused."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import ArgumentError, ShapeError
from tazza.nets import create_net
from tazza.operator import operator_def, run_op
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, on_sequences, recorded

CASES = [recorded("vectors")]


@on_sequences(CASES)
def test_vectors(case: Sequence) -> None:
    check_op(case)


REPLACED = {6: 2, 7: 1, 8: 2, 9: 2, 11: 1, 12: 2, 13: 5, 16: 5, 17: 1, 21: 3, 25: 4, 29: 3, 34: 3, 36: 4}
"""Which of 6 places Caffe2 gives the tensor of a run, with seed 17; those of other runs are left out."""


def test_which_are_kept() -> None:
    workspace, seen = Workspace(), np.arange(6)
    workspace.run_operator(operator_def("CreateTensorVector", [], ["v"]))
    workspace.feed("x", np.zeros(1, np.int64))
    collect = operator_def("CollectTensor", ["v", "x"], ["v"], num_to_collect=6)
    collect.device_option.random_seed = 17
    net = create_net(NetDef(name="collects", op=[collect]), workspace)
    for n in range(40):
        workspace.feed("x", np.array([n]))
        net.run()
        workspace.run_operator(operator_def("ConcatTensorVector", ["v"], ["y"]))
        if n in REPLACED:
            seen[REPLACED[n]] = n
        np.testing.assert_array_equal(workspace.fetch("y"), seen[: n + 1])
    net.close()


def test_what_is_refused() -> None:
    vector = run_op("CreateTensorVector")
    with pytest.raises(ShapeError, match="there is no tensor in the row"):
        run_op("ConcatTensorVector", vector)
    with pytest.raises(ArgumentError, match="num_to_collect"):
        run_op("CollectTensor", vector, np.zeros(2))
    assert run_op("TensorVectorSize", vector) == 0
    vector.tensors.append(np.zeros((2, 3)))
    assert run_op("TensorVectorSize", vector) == 1
    vector.tensors.append(np.zeros((2, 2)))
    with pytest.raises(ShapeError, match="tensors differ beyond their first extent"):
        run_op("ConcatTensorVector", vector)
    vector.tensors.append(np.array(3.0))
    with pytest.raises(ShapeError, match="a tensor has rank 0"):
        run_op("ConcatTensorVector", vector)
