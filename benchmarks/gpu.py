"""Operators on a CUDA device, by the device's own events, beside PyTorch's where that is installed: `make bench-gpu`.

Training steps of whole nets follow (`benchmarks.gpu_nets`). A row that fails says why, and the others go on.

Each figure is the least of several runs, per call; `host` is how long queueing a call takes. Sizes are such that memory
or arithmetic decides, but for the last row. Neither computes in TF32.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.gpu_nets import show_nets
from tazza.device import Event, current_context, device_of, device_option
from tazza.errors import TazzaError
from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.tensor import CUDAPlace
from tazza.workspace import Workspace

DEVICE = CUDAPlace(0)
ROUNDS, CALLS, SMALL_CALLS = 5, 20, 200
N = 1 << 28
"""Elements of what memory decides on: a gigabyte."""


@dataclass(frozen=True)
class Row:
    """An operator of the inputs `shapes`, what it moves and computes, and the same in PyTorch."""

    name: str
    type: str
    shapes: tuple[tuple[int, ...], ...]
    peer: Callable[[Any, Any], Any]
    nbytes: float = 0.0
    flops: float = 0.0
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    calls: int = CALLS


ROWS = (
    Row("Relu 2^28", "Relu", ((N,),), lambda torch, x: torch.relu(*x), 8 * N),
    Row("Tanh 2^28", "Tanh", ((N,),), lambda torch, x: torch.tanh(*x), 8 * N),
    Row("Add 2^18 x 1024, a row", "Add", ((N // 1024, 1024), (1024,)), lambda torch, x: x[0] + x[1], 8 * N),
    Row("Softmax 2^18 x 1024", "Softmax", ((N // 1024, 1024),), lambda torch, x: torch.softmax(*x, 1), 8 * N),
    Row("ReduceBackSum 2^18 x 1024", "ReduceBackSum", ((N // 1024, 1024),), lambda torch, x: x[0].sum(1), 4 * N),
    Row("ReduceFrontSum 2^18 x 1024", "ReduceFrontSum", ((N // 1024, 1024),), lambda torch, x: x[0].sum(0), 4 * N),
    Row("MatMul 4096", "MatMul", ((4096, 4096), (4096, 4096)), lambda torch, x: x[0] @ x[1], flops=2 * 4096**3),
    Row(
        "Conv 64 x 64 x 56 x 56, 3 x 3", "Conv", ((64, 64, 56, 56), (64, 64, 3, 3), (64,)),
        lambda torch, x: torch.nn.functional.conv2d(*x, padding=1),
        flops=2 * 64 * 64 * 64 * 9 * 56 * 56, args={"kernel": 3, "pad": 1},
    ),
    Row(
        "MaxPool 64 x 64 x 112 x 112, 2 x 2", "MaxPool", ((64, 64, 112, 112),),
        lambda torch, x: torch.nn.functional.max_pool2d(*x, 2),
        5 * 64 * 64 * 112 * 112, args={"kernel": 2, "stride": 2},
    ),
    Row("Relu 1000", "Relu", ((1000,),), lambda torch, x: torch.relu(*x), calls=SMALL_CALLS),
)  # fmt: skip


def timed_here(row: Row, arrays: Sequence[NDArray[Any]]) -> tuple[float, float]:
    """Return the seconds of a call on the device, and of queueing it."""
    workspace = Workspace()
    names = [f"in{k}" for k in range(len(arrays))]
    for name, array in zip(names, arrays, strict=True):
        workspace.feed(name, array, DEVICE)
    net = NetDef(name=row.type, type="simple", device_option=device_option(DEVICE))
    net.op.extend([operator_def(row.type, names, ["out"], **row.args)] * row.calls)
    made, stream = workspace.create_net(net), current_context(DEVICE).stream
    assert stream is not None, "a CUDA device has streams"
    made.run()
    best, host = float("inf"), float("inf")
    for _ in range(ROUNDS):
        first, last = Event(), Event()
        stream.record(first)
        start = time.perf_counter()
        made.run()
        host = min(host, (time.perf_counter() - start) / row.calls)
        stream.record(last)
        last.wait()
        first.wait()
        elapsed = last.elapsed_s(first)
        assert elapsed is not None, "both are the device's"
        best = min(best, elapsed / row.calls)
    return best, host


def timed_by_peer(row: Row, arrays: Sequence[NDArray[Any]]) -> float | None:
    """Return the seconds of a call of PyTorch on the device, None where it is not installed."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch  # pyright: ignore[reportMissingImports] -- a peer, which need not be there

    library: Any = torch
    library.backends.cudnn.allow_tf32 = False  # as here
    given = [library.from_numpy(array).cuda() for array in arrays]
    best = float("inf")
    with library.no_grad():
        row.peer(library, given)
        for _ in range(ROUNDS):
            first, last = (library.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            for _ in range(row.calls):
                row.peer(library, given)
            last.record()
            library.cuda.synchronize()
            best = min(best, first.elapsed_time(last) / 1000 / row.calls)
    return best


def show_rows(rows: Iterable[Row], numbers: Callable[[tuple[int, ...]], NDArray[np.float32]]) -> bool:
    """Print the table of rows whose inputs are `numbers(shape)`; says why where there is no device, and returns so."""
    try:
        print(device_of(DEVICE).properties)
    except TazzaError as error:
        print(f"nothing to time: {error.message}")
        return False
    print(f"{'':36}{'tazza us':>10}{'host us':>9}{'GB/s':>7}{'TFLOP/s':>9}{'PyTorch us':>12}{'ratio':>7}")
    for row in rows:
        try:
            told = figures(row, [numbers(shape) for shape in row.shapes])
        except Exception as error:  # the others are wanted too
            told = f"  failed: {type(error).__name__}: {str(error).splitlines()[0]}"
        print(f"{row.name:36}{told}", flush=True)
    return True


def figures(row: Row, arrays: Sequence[NDArray[np.float32]]) -> str:
    """Return what is printed of a row behind its name."""
    seconds, host = timed_here(row, arrays)
    peer = timed_by_peer(row, arrays)
    told = "" if peer is None else f"{peer * 1e6:12.1f}{seconds / peer:7.2f}"
    rates = f"{row.nbytes / seconds / 1e9:7.0f}{row.flops / seconds / 1e12:9.1f}"
    return f"{seconds * 1e6:10.1f}{host * 1e6:9.1f}{rates}{told}"


def main() -> None:
    """Print the table, and that of nets."""
    random = np.random.default_rng(0)
    if show_rows(ROWS, lambda shape: random.standard_normal(shape, np.float32)):
        print()
        show_nets()


if __name__ == "__main__":
    main()
