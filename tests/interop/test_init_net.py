"""Loading a model asks for the memory that its init net wants before any of it runs: a law over all operators."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from tazza.errors import OutOfMemoryError
from tazza.interop import init_net
from tazza.interop.export import parameter_fill
from tazza.interop.init_net import run_init_net
from tazza.operator import Effects, effects_of, operator_def
from tazza.proto import NetDef
from tazza.tensor import DataType, Tensor
from tazza.workspace import Workspace
from tests.judge.draw import draw as draw_problem
from tests.judge.draw import drawable

DOUBLINGS = 24


def net_of(type: str) -> NetDef | None:
    """Return an init net with an operator of a type; None where it may not be in one."""
    problem = draw_problem(type, 5)
    if problem.meanings:
        return None  # what is filled is plain
    net = NetDef(name=type)
    for name, value in problem.inputs.items():
        array = np.asarray(value)
        if array.dtype not in [each.numpy for each in DataType] or DataType.of(array) not in FILLED:
            return None
        net.op.append(parameter_fill(name, array))
    net.op.append(problem.definition)
    return net if effects_of(problem.definition) <= Effects.RANDOM else None


FILLED = frozenset({DataType.FLOAT, DataType.INT32, DataType.INT64, DataType.BOOL, DataType.DOUBLE, DataType.UINT8})


def bytes_of(workspace: Workspace) -> int:
    """Return what the tensors of a workspace hold."""
    values = [workspace.blob(name).value for name in workspace.blob_names()]
    return sum(value.nbytes for value in values if isinstance(value, Tensor))


@pytest.mark.slow
@pytest.mark.parametrize("step", [25, pytest.param(3, marks=pytest.mark.slow)])
def test_what_any_operator_makes_is_counted(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = 0
    for type in drawable()[::step]:
        net = net_of(type)
        if net is None:
            continue
        workspace = Workspace()
        workspace.run_net_once(net)
        made = bytes_of(workspace)
        monkeypatch.setattr(init_net, "available_bytes", lambda made=made: made)
        run_init_net(net, Workspace(), source="a file")
        monkeypatch.setattr(init_net, "available_bytes", lambda made=made: made - 1)
        fresh = Workspace()
        with suppress(OutOfMemoryError):
            run_init_net(net, fresh, source="a file")
            continue  # a size that follows from values
        assert fresh.blob_names() == [], f"{type}: something ran before the refusal"
        counted += 1
    assert counted > 100 // step, "those whose sizes follow from values are few"


def test_a_chain_that_doubles_is_refused_before_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    net = NetDef(name="doubling", op=[operator_def("ConstantFill", [], ["x0"], shape=[1024])])
    for number in range(DOUBLINGS):
        name = f"x{number}"
        net.op.append(operator_def("Concat", [name, name], [f"x{number + 1}", f"i{number}"], axis=0))
    monkeypatch.setattr(init_net, "available_bytes", lambda: 1 << 20)
    workspace = Workspace()
    with pytest.raises(OutOfMemoryError, match="net 'doubling' makes"):
        run_init_net(net, workspace, source="a file")
    assert workspace.blob_names() == []
