"""What arguments of recurrent nets say is read and written by one place."""

from __future__ import annotations

import pytest

from tazza.operator import find_schema, operator_def
from tazza.ops.recurrent.recurrence import Recurrence
from tazza.proto import OperatorDef
from tests.ops.recurrent.cells import SUM, cell
from tests.ops.recurrent.recorded import CASES, recorded


def check_format(op: OperatorDef) -> None:
    """Assert that what is read of an operator is written, and read again; text is read as the net that it says."""
    view = find_schema(op.type).view(op)
    inputs = op.input[len(view.outputs_with_grads) if op.type.endswith("Gradient") else 0 :]
    read = Recurrence.read(view, inputs)
    again = operator_def(op.type, list(op.input), list(op.output), **read.arguments())
    assert Recurrence.read(view.schema.view(again), inputs) == read
    written = {argument.name: argument for argument in again.arg}
    assert written.keys() >= {argument.name for argument in op.arg}
    for argument in op.arg:
        if not argument.name.endswith("step_net"):  # its type becomes one that runs in order
            assert written[argument.name] == argument


@pytest.mark.parametrize("name", CASES)
def test_what_is_read_is_written(name: str) -> None:
    for op in recorded(name).net.op:
        if op.type.startswith("RecurrentNetwork"):
            check_format(op)


def test_what_is_rarely_said_is_written_too() -> None:
    given = {"states_grad.rename": "g", "num_workspaces": 3, "link_window": [1, 1, 2], "timestep": "t"}
    check_format(cell(SUM, **given))
    check_format(cell(SUM, outputs_with_grads=[0, 1], param=[2], recompute_blobs_on_backward=["m"]))
