"""Time reductions of two or more ranks: `mpiexec -n 2 python -m benchmarks.machines [MEGABYTES] [ROUNDS]`.

In turns, the operator Allreduce and mpi4py's own call on an array of the same size, in place; the least of each counts,
since others may be at work on the machine. Then small ones, which tell what a message takes at least.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tazza.distributed.membership import mpi_membership
from tazza.distributed.mpi import mpi
from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.workspace import Workspace

SMALL = 64
"""Bytes of a reduction that takes no longer than its messages."""


def least_s(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the least time of each call, on any rank the longest, in turns."""
    MPI = mpi()
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            MPI.COMM_WORLD.Barrier()
            started_s = time.perf_counter()
            call()
            took_s = MPI.COMM_WORLD.allreduce(time.perf_counter() - started_s, MPI.MAX)
            found[name] = min(found[name], took_s)
    return found


def reductions(nbytes: int, rounds: int) -> dict[str, float]:
    """Return seconds of the operator and of mpi4py, for so many bytes of float32."""
    MPI, workspace = mpi(), Workspace()
    workspace.run_operator(operator_def("CreateCommonWorld", [], ["world"], engine="MPI", name=f"bench {nbytes}"))
    workspace.feed("x", np.zeros(nbytes // 4, np.float32))
    own = np.zeros(nbytes // 4, np.float32)
    net = workspace.create_net(NetDef(name=f"bench {nbytes}", op=[operator_def("Allreduce", ["world", "x"], ["x"])]))
    calls = {
        "Allreduce": net.run,
        "mpi4py": lambda: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, own, MPI.SUM),
    }
    return least_s(calls, rounds)


def main(megabytes: int = 100, rounds: int = 15) -> None:
    """Print the table, on rank 0."""
    own = mpi_membership()
    for nbytes in (SMALL, megabytes * 10**6):
        found = reductions(nbytes, rounds)
        if own.leads:
            times = ", ".join(f"{name} {took_s * 1e3:.3f} ms" for name, took_s in found.items())
            print(f"{own.size} ranks, {nbytes} bytes: {times}, ratio {found['Allreduce'] / found['mpi4py']:.3f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
