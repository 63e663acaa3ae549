"""What recurrent nets cost is what their steps cost, one by one, by the shapes that they have when they run."""

from __future__ import annotations

import pytest

from tazza.observers.cost import operator_cost
from tests.ops.recurrent.recorded import CASES, recorded, workspace_with


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_cost_is_that_of_all_steps(name: str) -> None:
    """The other sum is over the operators of the nets within, one for each step, with the blobs that a run left."""
    case = recorded(name)
    home = workspace_with(case.fed)
    net = home.create_net(case.net)
    net.run()
    checked = 0
    for operator in net.operators:
        if operator.op.type.startswith("RecurrentNetwork"):
            inner = [operator_cost(each) for within in operator.nets for each in within.operators]
            assert None not in inner
            flops, read, written = (
                sum(getattr(one, part) for one in inner) for part in ("flops", "bytes_read", "bytes_written")
            )
            found = operator_cost(operator)
            assert found is not None
            assert (found.flops, found.bytes_read, found.bytes_written) == (flops, read, written)
            assert flops > 0
            checked += 1
    assert checked
    home.delete_net(net.name)
