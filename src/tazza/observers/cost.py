"""Cost: operations and bytes of each operator, by the rule of its schema and the shapes that its blobs have."""

from __future__ import annotations

from tazza.data_class import dataclass
from tazza.errors import NetError, TazzaError
from tazza.nets import NetBase
from tazza.operator import Cost, Observer, Operator
from tazza.operator.estimate import operator_cost


def require_operators(net: NetBase) -> None:
    """Check that a run of a net is one of its operators, so that who looks at these sees all.

    Raises:
        NetError: its steps stand for several operators each.
    """
    if not net.runs_operators:
        raise NetError(
            f"net {net.name!r} runs steps of its own ({net.definition.type}), no operators that could be observed",
            hint="Recorder and profile_net see these steps, explain(times=True) lists them",
        )


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """What one run of an operator costs; None where its blobs have no values yet or hold no tensors."""

    operator: Operator
    cost: Cost | None


def operator_costs(net: NetBase) -> list[OperatorCost]:
    """Return the cost of one run of each operator with the shapes of the last one; run the net before.

    Raises:
        NetError: the net runs no operators of its definition.
    """
    require_operators(net)
    return [OperatorCost(operator, operator_cost(operator)) for operator in net.operators]


class CostObserver(Observer[Operator]):
    """Adds up the cost of the runs of an operator, with the shapes that each run had."""

    def __init__(self) -> None:
        """Start at nothing."""
        self.total = Cost()
        self.count = 0
        """Runs whose cost is known; that of a run which failed may not be."""

    def stop(self) -> None:
        """Add the cost of the run that ended."""
        try:
            cost = operator_cost(self.subject)
        except TazzaError:  # a run that failed may leave shapes that do not fit each other
            return
        if cost is not None:
            self.total += cost
            self.count += 1
