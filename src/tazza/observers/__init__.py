"""How a net is seen: what its operators take in time, how often they run, what they cost, and pictures of a training.

    times = observe_times(net)
    net.run()
    for row in times.slowest():
        print(row.subject, row.mean_s)

Observers themselves (`Observer`, `Observable`) belong to `tazza.operator`: nets and operators are observable.
"""

from tazza.observers.cost import CostObserver, OperatorCost, operator_costs
from tazza.observers.run_count import RunCountObserver, count_runs
from tazza.observers.time import NetTimes, TimeObserver, observe_times
from tazza.operator import Observable, Observer

__all__ = [
    "CostObserver",
    "NetTimes",
    "Observable",
    "Observer",
    "OperatorCost",
    "RunCountObserver",
    "TimeObserver",
    "count_runs",
    "observe_times",
    "operator_costs",
]
