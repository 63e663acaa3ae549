"""Tables of rows that indices pick: a plan knows which inputs are indices, and reads tables where they lie."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from examples.dlrm import ClickLog, feed
from tazza.interop.table import with_tables_in
from tazza.models import adagrad
from tazza.models.zoo.dlrm import Dlrm
from tazza.nets import create_net
from tazza.nets.plan.net import PlanNet
from tazza.nets.plan.rewrite import constants_of, rewrite_net
from tazza.operator import LocalBlobs, Role, find_schema, make_argument
from tazza.proto import NetDef
from tazza.tensor import Tensor
from tazza.testing.value import tensor_of
from tazza.workspace import Workspace
from tests.judge.draw import Problem, draw, drawable
from tests.sampled import sampled
from tests.traced import at_most

PICKING = [type for type in drawable() if any(spec.role is Role.INDEX for spec in find_schema(type).inputs)]
SIZES = Dlrm((65_536,), numbers=5, width=64, bottom=(16,), top=(16,))
TABLE, TABLE_BYTES = "table0_w", 65_536 * 64 * 4


def names_with(problem: Problem, *roles: Role) -> list[str]:
    """Return the inputs of these roles, but those that the operator writes."""
    op = problem.schema.view(problem.definition)
    pairs = zip(op.input_letters, problem.definition.input, strict=True)
    written = set(problem.definition.output)
    return [n for letter, n in pairs if problem.schema.inputs_by_letter[letter].role in roles and n not in written]


def weights_of(problem: Problem) -> set[str]:
    """Return the parameters whose rows stand for an extent of the data, such as those of a product: none is picked."""
    op = problem.schema.view(problem.definition)
    specs = [problem.schema.inputs_by_letter[letter] for letter in op.input_letters]
    words = {word for spec in specs if spec.role is Role.DATA for word in (spec.dims or "").split()}
    names = zip(specs, problem.definition.input, strict=True)
    return {name for spec, name in names if spec.role is Role.PARAMETER and (spec.dims or "*").split()[0] in words}


def owner_of(problem: Problem) -> LocalBlobs:
    """Return the blobs of a problem, of which nobody else has a view."""
    blobs = LocalBlobs()
    for name, array in problem.inputs.items():
        plain = array.dtype.kind != "O" and name not in problem.meanings
        blobs.create_blob(name).set(Tensor.from_numpy(array) if plain else tensor_of(problem.value(name)))
    return blobs


@pytest.mark.parametrize("type", sampled(PICKING))
def test_indices_are_no_constants(type: str) -> None:
    """Nobody said which blobs are inputs: what is computed once hangs on no index."""
    problem = draw(type, 1)
    net, blobs = NetDef(op=[problem.definition], type="plan"), owner_of(problem)
    indices = set(names_with(problem, Role.INDEX))
    assert not indices & constants_of(net, blobs, ())
    rewritten = rewrite_net(net, blobs, ())
    assert not indices & {name for op in rewritten.result.prelude.op for name in op.input}


@pytest.mark.parametrize("type", sampled(PICKING))
def test_neither_indices_nor_what_they_pick_from_are_copied(type: str) -> None:
    problem = draw(type, 2)
    net, blobs = NetDef(op=[problem.definition], type="plan"), owner_of(problem)
    tables = names_with(problem, Role.PARAMETER, Role.STATE)
    net.arg.append(make_argument("inputs", [name for name in problem.inputs if name not in tables]))
    made = create_net(net, blobs)
    assert isinstance(made, PlanNet)
    for _ in range(2):
        made.run()
    held = {id(blobs.blobs[name].tensor().storage): name for name in problem.inputs if blobs.blobs[name].is_tensor}
    known = made._instances.values()  # pyright: ignore[reportPrivateUsage] -- nothing else knows of them
    copies = [copy for instances in known for instance in instances for copy in instance.held.values()]
    sources = {id(copy.made_from[0]) for copy in copies if copy.made_from}
    assert {name for storage, name in held.items() if storage in sources} <= weights_of(problem)
    made.close()


def test_rows_of_a_product_are_not_picked() -> None:
    assert weights_of(draw("FusedLSTMUnit", 2)) == {"W", "b"}
    assert weights_of(draw("SparseLengthsWeightedSum", 2)) == set()


# -- a net with a large table ------------------------------------------------------------------------------------------


def run_planned(workspace: Workspace, net: NetDef) -> None:
    """Make a net, run it some times and drop it, in far less memory than a table takes."""
    for limit in (np.inf, TABLE_BYTES / 4):  # at first modules are loaded
        with at_most(limit), closing(create_net(net, workspace)) as made:
            for _ in range(3):
                made.run()


@pytest.mark.slow
def test_a_step_of_training_takes_no_memory_of_a_table() -> None:
    model, workspace = SIZES.training(), Workspace()
    adagrad(model, 0.01, row_wise=True)
    model.net.proto.type = "plan"
    workspace.run_net_once(model.init_net.proto)
    feed(workspace, ClickLog(SIZES, bag=3).draw(32)[0])
    address = workspace.blob(TABLE).tensor().storage.address
    before = workspace.fetch(TABLE)
    run_planned(workspace, model.net.proto)
    assert workspace.blob(TABLE).tensor().storage.address == address
    assert (workspace.fetch(TABLE) != before).any()


@pytest.mark.slow
@pytest.mark.parametrize("bits", [32, 8, 4])
def test_inference_takes_no_memory_of_a_table(bits: int) -> None:
    workspace, model = Workspace(), SIZES.inference()
    workspace.run_net_once(model.init_net.proto)
    feed(workspace, ClickLog(SIZES, bag=3).draw(32)[0])
    net = model.net.proto
    if bits < 32:
        net, tables = with_tables_in(bits, net, {TABLE: workspace.fetch(TABLE)})
        feed(workspace, tables)
    net.type = "plan"
    run_planned(workspace, net)


def test_the_measure_sees_a_copy() -> None:
    with pytest.raises(AssertionError, match="are the most"), at_most(TABLE_BYTES / 4):
        Tensor.from_numpy(np.zeros(TABLE_BYTES // 4, np.float32)).plain()
