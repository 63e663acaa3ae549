"""Operators that run on several threads, side by side on no more than there are."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import pytest

from tazza.device import Context
from tazza.nets.parallel import ParallelNet
from tazza.operator import (
    KERNELS,
    SCHEMAS,
    Call,
    Launch,
    NativeCall,
    Operands,
    OpView,
    Spec,
    arg,
    blob,
    ends,
    launcher,
    operator_def,
    schema,
)
from tests.nets.dags import PARALLEL, subject

pytestmark = pytest.mark.usefixtures("device")


@dataclass
class Widths:
    """The threads that operators run on at this moment, in all."""

    now: int = 0
    most: int = 0
    ran: int = 0


@pytest.fixture
def widths() -> Generator[Widths]:
    """Have an operator `TestWidth` whose kernel is native and runs on `width` threads."""
    made = schema(
        "TestWidth",
        "Runs on threads.",
        inputs=[blob("X")],
        outputs=[blob("Y", like="X")],
        args=[arg("width", int, 1, doc="how many threads")],
        no_gradient=ends("a test"),
    )
    seen = Widths()
    lock = threading.Lock()

    def body(width: int, b: int, c: int, d: int) -> int:
        with lock:
            seen.now += width
            seen.most = max(seen.most, seen.now)
            seen.ran += 1
        time.sleep(2e-4)
        with lock:
            seen.now -= width
        return 0

    function = ctypes.CFUNCTYPE(ctypes.c_int64, *(ctypes.c_int64,) * 4)(body)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None

    @dataclass(frozen=True)
    class Wide:
        """The launch."""

        op: OpView
        scratch_bytes: int = 0
        capturable: bool = False

        def bind(self, operands: Operands) -> Call:
            """Return a native call."""
            width = self.op.arguments["width"]
            return NativeCall(address, (width, 0, 0, 0), (function, operands), threads=width)

    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
        del context, inputs, outputs
        return Wide(op)

    launcher(made, engine="reference")(prepare)
    yield seen
    SCHEMAS.unregister("TestWidth")
    KERNELS.unregister(("TestWidth", "cpu", "reference"))


@pytest.mark.parametrize("type", PARALLEL)
def test_operators_never_run_on_more_threads_than_there_are(
    type: str, widths: Widths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one that needs all of them wait for ever behind small ones."""
    monkeypatch.setattr("tazza.nets.parallel.thread_count", lambda: 4)
    monkeypatch.setattr("tazza.nets.parallel.allowed_cpus", lambda: 4)
    needs = [1, 4, 2, 1, 3, 1, 4, 1, 2, 9]
    ops = [operator_def("TestWidth", ["a"], [f"w{k}"], width=width) for k, width in enumerate(needs)]
    made = subject(ops, type, 4)
    for _ in range(8):
        made.net.run()
    assert widths.ran == 8 * len(needs)
    assert widths.now == 0
    assert 4 <= widths.most <= 4 + 5, "the one of 9 runs on all threads, and alone"
    assert isinstance(made.net, ParallelNet)
    budget = made.net._workers_now().budget  # pyright: ignore[reportPrivateUsage] -- what is tested
    assert budget is not None
    assert budget.free == budget.total == 4
    made.net.close()
