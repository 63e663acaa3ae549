"""How a net is seen: profiles, timelines and traces of its runs, what they cost, and pictures of a training.

    profile = profile_net(net, runs=10)
    print(profile)
    profile.timeline().draw("run.png")

Observers themselves (`Observer`, `Observable`) belong to `tazza.operator`: nets and operators are observable.
"""

from tazza.observers.cost import CostObserver, OperatorCost, operator_costs
from tazza.observers.profile import Profile, Summary
from tazza.observers.recorder import Recorder, profile_net
from tazza.observers.run_count import RunCountObserver, count_runs
from tazza.observers.time import NetTimes, TimeObserver, observe_times
from tazza.observers.timeline import Span, SpanKind, Timeline
from tazza.observers.trace import check_trace, trace_document, write_trace
from tazza.operator import Observable, Observer

__all__ = [
    "CostObserver",
    "NetTimes",
    "Observable",
    "Observer",
    "OperatorCost",
    "Profile",
    "Recorder",
    "RunCountObserver",
    "Span",
    "SpanKind",
    "Summary",
    "TimeObserver",
    "Timeline",
    "check_trace",
    "count_runs",
    "observe_times",
    "operator_costs",
    "profile_net",
    "trace_document",
    "write_trace",
]
