"""Counting runs."""

from __future__ import annotations

from tazza.nets import NetBase
from tazza.observers.cost import require_operators
from tazza.operator import Observable, Observer


class RunCountObserver(Observer[Observable]):
    """Counts the runs of what it is attached to, failed ones too."""

    def __init__(self) -> None:
        """Start at 0."""
        self.count = 0

    def stop(self) -> None:
        """Count one."""
        self.count += 1


def count_runs(net: NetBase) -> list[RunCountObserver]:
    """Attach a counter to each operator of a net, and return them in the order of the operators.

    Raises:
        NetError: the net runs no operators of its definition.
    """
    require_operators(net)
    counters = [RunCountObserver() for _ in net.operators]
    for operator, counter in zip(net.operators, counters, strict=True):
        operator.attach(counter)  # pyright: ignore[reportArgumentType] -- a counter sees anything that can be observed
    return counters
