"""Parallel regions of our own beside libgomp's as it can be set: `python -m benchmarks.nets regions`.

Each contestant is a process of its own, since libgomp reads its settings once, and since threads that wait by looking
would disturb the others; they take turns round after round. They run alone, and beside processes that only count.
oneDNN's third way, a threadpool interface, is no contestant: the package onednn-cpu-gomp is built on OpenMP and has no
function of it (docs/threads.md).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np

from benchmarks.tensor.__main__ import ENVIRONMENT, ROOT
from benchmarks.worker import run_times, summary
from tazza.nets.base import NetBase

OURS = "own"
CONTESTANTS = {
    OURS: {},
    "libgomp as tazza sets it": {"TAZZA_OWN_TEAMS": "0"},
    "libgomp, GOMP_SPINCOUNT=300000": {"TAZZA_OWN_TEAMS": "0", "GOMP_SPINCOUNT": "300000"},
    "libgomp, OMP_WAIT_POLICY=passive": {"TAZZA_OWN_TEAMS": "0", "OMP_WAIT_POLICY": "passive"},
    "libgomp, OMP_WAIT_POLICY=active": {"TAZZA_OWN_TEAMS": "0", "OMP_WAIT_POLICY": "active"},
}
"""What each finds in its environment. 300,000 looks are libgomp's own choice where nothing is set."""
READ = ("TAZZA_OWN_TEAMS", "GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
WORKS = {"lenet": 1, "mlp": 64}
"""Batches of nets whose operators are small, so that regions count."""


def net_of(work: str) -> NetBase:
    """Return the net of one work, as a plan."""
    from tazza.models import Model
    from tazza.models.zoo import CLASSIFIERS, lenet
    from tazza.workspace import Workspace

    if work == "lenet":
        model, shape = Model("lenet"), (WORKS[work], 1, 28, 28)
        lenet(model, "data")
    else:
        model, shape = CLASSIFIERS[work].inference(), CLASSIFIERS[work].input_shape(WORKS[work])
    workspace = Workspace()
    workspace.run_net_once(model.init_net.proto)
    workspace.feed("data", np.random.default_rng(0).standard_normal(shape, np.float32))
    model.net.proto.type = "plan"
    return workspace.create_net(model.net.proto)


def measured(contestant: str, seconds: float) -> dict[str, float]:
    """Return the median times of all works in s, in a process with these settings."""
    environment = {name: value for name, value in ENVIRONMENT.items() if name not in READ}
    command = [sys.executable, "-m", "benchmarks.nets.regions", str(seconds)]
    done = subprocess.run(
        command, cwd=ROOT, env={**environment, **CONTESTANTS[contestant]}, stdout=subprocess.PIPE, text=True, check=True
    )
    names, times = (line.split() for line in done.stdout.splitlines()[-2:])
    return dict(zip(names, map(float, times), strict=True))


@contextmanager
def beside(busy: int) -> Generator[None]:
    """Let so many processes count until the block ends."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        yield
    finally:
        for one in processes:
            one.kill()
            one.wait()


def rounds_of(busy: int, rounds: int, seconds: float) -> dict[tuple[str, str], list[float]]:
    """Return the times of each round, in s, by contestant and work; every second round goes backwards."""
    found: dict[tuple[str, str], list[float]] = {(name, work): [] for name in CONTESTANTS for work in WORKS}
    with beside(busy):
        for number in range(rounds):
            for name in list(CONTESTANTS)[:: -1 if number % 2 else 1]:
                for work, took in measured(name, seconds).items():
                    found[name, work].append(took)
    return found


def conditions() -> dict[str, int]:
    """Return how many busy processes there are in each condition: none, one, and one for each processor."""
    cpus = len(os.sched_getaffinity(0))
    return {"quiet": 0, "1 busy process": 1} | ({} if cpus == 1 else {f"{cpus} busy processes": cpus})


def main() -> None:
    """Measure all works here, for so many seconds each; write names and median times in s."""
    seconds = float(sys.argv[1])
    times: list[float] = []
    for work in WORKS:
        net = net_of(work)

        def run(net: NetBase = net) -> None:
            net.run()

        times.append(summary(run_times(run, seconds, 0.2 * seconds))["median_s"])
    print(*WORKS)
    print(*times)


if __name__ == "__main__":
    main()
