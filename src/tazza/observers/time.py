"""Time: how long runs of a net and of each of its operators take, on the clock of the wall."""

from __future__ import annotations

import time
from typing import Generic, TypeVar

from tazza.nets import NetBase
from tazza.observers.cost import require_operators
from tazza.operator import Observable, Observer, Operator

T = TypeVar("T", bound=Observable)


class TimeObserver(Observer[T], Generic[T]):
    """Measures every run of what it is attached to.

    >>> from tazza.operator import LocalBlobs, Operator, operator_def
    >>> fill = Operator(operator_def("ConstantFill", [], ["x"], shape=[2]), LocalBlobs())
    >>> observer = TimeObserver[Operator]()
    >>> fill.attach(observer) is observer, fill.run(), observer.count
    (True, None, 1)
    """

    def __init__(self) -> None:
        """Start with no run."""
        self.count = 0
        """Runs that ended, failed ones too."""
        self.total_s = 0.0
        """Seconds of all runs together."""
        self.last_s = 0.0
        """Seconds of the last run."""
        self._started: float | None = None

    @property
    def mean_s(self) -> float:
        """Seconds of a run on average; 0 before the first one."""
        return self.total_s / self.count if self.count else 0.0

    def start(self) -> None:
        """Note when the run starts."""
        self._started = time.perf_counter()

    def stop(self) -> None:
        """Count the run; one that started before the observer was attached does not count."""
        now = time.perf_counter()
        if self._started is None:
            return
        self.last_s = now - self._started
        self.total_s += self.last_s
        self.count += 1
        self._started = None

    def reset(self) -> None:
        """Forget all runs, such as the first ones, which prepare kernels."""
        self.count = 0
        self.total_s = self.last_s = 0.0


class NetTimes:
    """The observers of a net and of each of its operators; made by `observe_times`."""

    def __init__(self, net: NetBase) -> None:
        """Attach an observer to the net and one to each operator.

        Raises:
            NetError: the net runs no operators of its definition.
        """
        require_operators(net)
        self.net: TimeObserver[NetBase] = TimeObserver()
        self.operators: list[TimeObserver[Operator]] = [TimeObserver() for _ in net.operators]
        for operator, observer in zip(net.operators, self.operators, strict=True):
            operator.attach(observer)  # pyright: ignore[reportArgumentType] -- an operator's observers see that operator
        net.attach(self.net)  # pyright: ignore[reportArgumentType] -- as above

    def slowest(self) -> list[TimeObserver[Operator]]:
        """Return the observers of the operators, that of the longest total first."""
        return sorted(self.operators, key=lambda observer: -observer.total_s)

    def by_type(self) -> dict[str, float]:
        """Return the seconds of all runs for each operator type, the longest first."""
        totals: dict[str, float] = {}
        for observer in self.operators:
            type = observer.subject.definition.type
            totals[type] = totals.get(type, 0.0) + observer.total_s
        return dict(sorted(totals.items(), key=lambda item: -item[1]))

    def reset(self) -> None:
        """Forget all runs so far."""
        for observer in (self.net, *self.operators):
            observer.reset()

    def detach(self) -> None:
        """Stop observing; what was measured stays."""
        for observer in (self.net, *self.operators):
            observer.subject.detach(observer)  # pyright: ignore[reportArgumentType] -- as in __init__


def observe_times(net: NetBase) -> NetTimes:
    """Measure every run of a net and of its operators from now on.

    Raises:
        NetError: the net runs no operators of its definition.
    """
    return NetTimes(net)
