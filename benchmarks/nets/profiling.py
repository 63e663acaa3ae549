"""What profiling costs for each operator: `python -m benchmarks.nets.profiling`.

A chain of small operators runs on nets of several types: while nobody looks, with an observer on each operator that
does nothing, and with a recorder. The first difference is what taking the net apart costs, the second is the recorder.
The ways take turns in every round; the best of the rounds, in µs for one operator.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import numpy as np

from tazza.nets import NetBase
from tazza.observers import Observer
from tazza.observers.recorder import Recorder
from tazza.operator import Operator, operator_def
from tazza.proto import NetDef
from tazza.workspace import Workspace

OPERATORS, ROUNDS, RUNS, WARM_UP = 200, 9, 20, 4
TYPES = ("simple", "dag", "async_scheduling")


@contextmanager
def unobserved(net: NetBase) -> Generator[None]:
    """Let nobody look."""
    del net
    yield


@contextmanager
def observed(net: NetBase) -> Generator[None]:
    """Let somebody look who notes nothing."""
    own = [(operator, Observer[Operator]()) for operator in net.operators]
    for operator, observer in own:
        operator.attach(observer)  # pyright: ignore[reportArgumentType] -- an operator's observers see that operator
    yield
    for operator, observer in own:
        operator.detach(observer)  # pyright: ignore[reportArgumentType] -- as above


@contextmanager
def recorded(net: NetBase) -> Generator[None]:
    """Let a recorder look."""
    with Recorder(net):
        yield


WAYS = (unobserved, observed, recorded)


def chain(type: str) -> NetBase:
    """Return a net of small operators, each on the output of the last."""
    workspace = Workspace()
    workspace.feed("b0", np.ones(4, np.float32))
    ops = [operator_def("Relu", [f"b{i}"], [f"b{i + 1}"]) for i in range(OPERATORS)]
    return workspace.create_net(NetDef(name=f"chain {type}", type=type, num_workers=2, op=ops))


def run_us(net: NetBase) -> float:
    """Return the µs of an operator in a run, the median of some runs."""
    for _ in range(WARM_UP):
        net.run()
    times: list[float] = []
    for _ in range(RUNS):
        start = time.perf_counter()
        net.run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) / OPERATORS * 1e6


def measure(type: str, rounds: int = ROUNDS) -> dict[str, float]:
    """Return the µs of an operator for each way."""
    net = chain(type)
    found: dict[Callable[..., object], list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            with way(net):
                found[way].append(run_us(net))
    net.close()
    return {way.__name__: min(found[way]) for way in WAYS}


def main() -> None:
    """Print a line for each net type."""
    for type in TYPES:
        took = measure(type)
        noting = took["recorded"] - took["observed"]
        shown = "  ".join(f"{name} {us:6.2f}" for name, us in took.items())
        print(f"{type:18}{shown}  so noting a run takes {noting:.2f} µs", flush=True)


if __name__ == "__main__":
    main()
