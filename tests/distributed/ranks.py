"""A program that `mpiexec` starts: operators between processes, or a case of `cases.py`, whose results go to a file.

mpiexec -n 2 python -m tests.distributed.ranks operators
mpiexec -n 2 python -m tests.distributed.ranks train CASE NET_TYPE FILE.npz [STEPS]
python -m tests.distributed.ranks alone CASE 2 FILE.npz [STEPS]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.distributed.membership import Membership, mpi_membership
from tazza.operator import operator_def
from tazza.tensor import ROW_MAJOR, channels_last
from tazza.workspace import Workspace
from tests.distributed.cases import CASES, STEPS, WHOLE, Trained, train_alone, train_rank

DTYPES = ("float32", "float64", "float16", "int32", "int64", "uint8", "int8")
SHAPES = ((3,), (2, 3), (), (0, 2))
LONG = 300_000
"""Elements of a message that nobody sends before it is asked for."""


def operators() -> None:
    """Run every operator over a world of MPI, for all types and some shapes.

    Raises:
        AssertionError: one gave something else.
    """
    workspace = Workspace()
    own = mpi_membership()
    workspace.run_operator(operator_def("CreateCommonWorld", [], ["world"], engine=own.engine))
    workspace.run_operator(operator_def("CloneCommonWorld", ["world"], ["other"]))
    for dtype in DTYPES:
        for shape in SHAPES:
            _collective(workspace, own, np.zeros(shape, dtype))
    _exchange(workspace, own)
    before, behind = (own.rank - 1) % own.size, (own.rank + 1) % own.size
    for count in (1, LONG):
        x = np.full(count, own.rank, np.float32)
        workspace.feed("x", x)
        workspace.run_operator(operator_def("SendTensor", ["other", "x"], [], dst=behind, tag=3))
        workspace.run_operator(operator_def("ReceiveTensor", ["other", "x"], ["x", "source", "tag"], src=-1))
        _same(workspace.fetch("x"), np.full_like(x, before))
        _same(workspace.fetch("source"), np.array(before, np.int32))
        _same(workspace.fetch("tag"), np.array(3, np.int32))
    workspace.run_operator(operator_def("Barrier", ["other"], []))


def _collective(workspace: Workspace, own: Membership, zeros: NDArray[Any]) -> None:
    rank, size = own.rank, own.size
    values = [np.asarray(zeros + (one + 1), zeros.dtype) for one in range(size)]
    everything = np.concatenate([value.reshape(-1) for value in values])
    total = np.asarray(zeros + sum(range(1, size + 1)), zeros.dtype)
    root = size - 1
    for inputs, type, wanted in (
        (["x", "y"], "Allreduce", total + total),
        (["x"], "Broadcast", values[root]),
        (["x"], "Reduce", total if rank == root else np.zeros_like(total)),
        (["x"], "Allgather", everything),
    ):
        for name in ("x", "y"):
            workspace.feed(name, values[rank])
        outputs = inputs if type in ("Allreduce", "Broadcast") else ["z"]
        arguments: dict[str, Any] = {"root": root} if type in ("Broadcast", "Reduce") else {}
        workspace.run_operator(operator_def(type, ["world", *inputs], outputs, **arguments))
        for name in outputs:
            _same(workspace.fetch(name), wanted)


def _exchange(workspace: Workspace, own: Membership) -> None:
    """Sum while nobody looks: large and small, as they lie, and in rows where this rank has another layout."""
    shape = (2, 3, LONG // 6, 1)
    for unlike in (False, True):
        layout = ROW_MAJOR if unlike and own.rank == own.size - 1 else channels_last(shape)
        workspace.feed("large", np.zeros(shape, np.float32))
        large = workspace.blob("large").tensor()
        large.resize(shape, layout=layout)
        large.array[...] = own.rank + np.arange(2, dtype=np.float32).reshape(2, 1, 1, 1)
        workspace.feed("small", np.full(5, own.rank, np.float32))
        workspace.run_operator(operator_def("BeginAllreduce", ["world", "large", "small"], ["e", "world"]))
        workspace.run_operator(operator_def("EndAllreduce", ["e", "large", "small"], ["large", "small"], scale=2.0))
        total = np.float32(sum(range(own.size)))
        _same(workspace.fetch("small"), np.full(5, 2 * total, np.float32))
        _same(workspace.fetch("large")[:, 0, 0, 0], 2 * (total + own.size * np.arange(2, dtype=np.float32)))


def _same(one: Any, other: Any) -> None:
    assert one.dtype == other.dtype
    np.testing.assert_array_equal(one, other)


def train(case: str, net_type: str, path: Path, steps: int = STEPS) -> None:
    """Train a case; rank 0 writes what came of it."""
    own = mpi_membership()
    found = train_rank({**CASES, **WHOLE}[case], own, net_type=net_type, steps=steps)
    if own.leads:
        _write(path, found)


def alone(case: str, size: int, path: Path, steps: int = STEPS) -> None:
    """Train a case as one process that runs the shares of so many ranks, and write what came of it."""
    _write(path, train_alone({**CASES, **WHOLE}[case], size, steps=steps))


def _write(path: Path, found: Trained) -> None:
    arrays: dict[str, Any] = {"losses": found.losses, **found.parameters}
    np.savez(path, **arrays)


def read(path: Path) -> Trained:
    """Return what a rank, or a process alone, has written."""
    with np.load(path) as found:
        return Trained(found["losses"].tolist(), {name: found[name] for name in found if name != "losses"})


if __name__ == "__main__":
    if sys.argv[1] == "operators":
        operators()
    elif sys.argv[1] == "alone":
        alone(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]), *map(int, sys.argv[5:]))
    else:
        train(sys.argv[2], sys.argv[3], Path(sys.argv[4]), *map(int, sys.argv[5:]))
