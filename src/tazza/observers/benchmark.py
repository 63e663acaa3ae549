"""How long runs of a net take: warm it up, run it so often, and say the mean."""

from __future__ import annotations

import time
from contextlib import ExitStack

from tazza.errors import ArgumentError
from tazza.nets import NetBase
from tazza.observers.time import observe_times
from tazza.proto import NetDef
from tazza.workspace import Workspace


def benchmark(net: NetBase, *, warm_up: int, runs: int, each: bool = False) -> list[float]:
    """Return the mean milliseconds of a run of a net, then those of each of its operators.

    Args:
        net: what to run.
        warm_up: runs before, which do not count.
        runs: runs that count.
        each: run it so often once more and time the operators; else these are 0.

    Raises:
        ArgumentError: a negative number of runs.
        NetError: `each` of a net that runs no operators of its definition.
        TazzaError: what the net raises.
    """
    if warm_up < 0 or runs < 0:
        raise ArgumentError(f"net {net.name!r} cannot run {min(warm_up, runs)} times", hint="0 or more")
    for _ in range(warm_up):
        net.run()
    started = time.perf_counter()
    for _ in range(runs):
        net.run()
    total_ms = (time.perf_counter() - started) * 1000 / max(1, runs)
    if not each:
        return [total_ms] + [0.0] * len(net.definition.op)
    with ExitStack() as ends:
        timed = net.by_operators()
        if timed is not net:
            ends.callback(timed.close)
        times = observe_times(timed)
        ends.callback(times.detach)
        for _ in range(runs):
            timed.run()
    return [total_ms, *(one.mean_s * 1000 for one in times.operators)]


def mean_ms(net: NetDef, init: NetDef, *, warm_up: int, runs: int) -> float:
    """Return the mean milliseconds of a run of a net behind its init net, in a workspace of their own.

    Raises:
        TazzaError: what the nets raise.
    """
    workspace = Workspace()
    try:
        workspace.run_net_once(init)
        return benchmark(workspace.create_net(net), warm_up=warm_up, runs=runs)[0]
    finally:
        workspace.reset()
