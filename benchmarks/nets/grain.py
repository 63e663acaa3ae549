"""How small operators may be for two workers to pay: `python -m benchmarks.nets grain`.

The graph is layered: `WIDTH` operators side by side, each of which reads two results of the layer before. An operator
is a native loop that keeps one thread busy for so many microseconds and touches no memory, so that nothing but the
executor stands between a net and half of the time of `simple`. Small ones are merged and cost what they cost there.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

from benchmarks.nets.overhead import Work, created, net_def
from benchmarks.nets.turns import Turn, timed
from tazza.device import Context
from tazza.nets.base import NetBase
from tazza.operator import (
    KERNELS,
    SCHEMAS,
    Call,
    Launch,
    Operands,
    OpView,
    Spec,
    arg,
    blob,
    ends,
    launcher,
    schema,
)
from tazza.operator.kernel import NativeCall
from tazza.runtime.native import call_native
from tazza.runtime.native_code import native_function

BASE, TYPES = "simple", ("async_scheduling", "dag")
BUSY = "BenchmarkBusy"
GRAINS_US = (5, 20, 50, 100, 300, 1000)
OPERATORS, LONGEST_S = 400, 0.1
"""How many a net has at the most, and how long it should take at the most on one thread."""
PROBE_LOOPS, PROBES = 100_000, 100

_LOOP = """
define i64 @{name}(i64 %count, i64 %b, i64 %c, i64 %d) {{
entry:
  br label %again
again:
  %i = phi i64 [ %count, %entry ], [ %left, %again ]
  call void asm sideeffect "", ""()
  %left = sub i64 %i, 1
  %more = icmp sgt i64 %left, 0
  br i1 %more, label %again, label %done
done:
  ret i64 0
}}
"""


def busy_address() -> int:
    """Return the address of a native function that counts down from its first argument."""
    return native_function(f"benchmark countdown{_LOOP}", lambda name: _LOOP.format(name=name))


def loops_per_us() -> float:
    """Return how far it counts in a microsecond."""
    address, least = busy_address(), float("inf")
    for _ in range(PROBES):
        start = time.perf_counter()
        call_native(address, PROBE_LOOPS, 0, 0, 0)
        least = min(least, time.perf_counter() - start)
    return PROBE_LOOPS / least * 1e-6


class BusyLaunch:
    """The launch of a kernel that counts down."""

    scratch_bytes = 0
    capturable = False

    def __init__(self, loops: int) -> None:
        """Remember from where on."""
        self._loops = loops

    def bind(self, operands: Operands) -> Call:
        """Give the output its memory, as kernels do."""
        operands["Y"].reserve()
        return NativeCall(busy_address(), (self._loops, 0, 0, 0), self, threads=1)


@contextmanager
def busy_operators() -> Generator[None]:
    """Let there be operators that take time, until the block ends."""
    made = schema(
        BUSY,
        "Y has the shape of the first X.",
        inputs=[blob("X", dims="*S", variadic=True)],
        outputs=[blob("Y", like="X")],
        args=[arg("loops", int, default=1, doc="from where it counts down")],
        no_gradient=ends("it only takes time"),
    )

    @launcher(made, engine="reference")
    def prepare(op: OpView, context: Context, inputs: list[Spec], outputs: list[Spec]) -> Launch:  # pyright: ignore[reportUnusedFunction] -- registered
        del context, inputs, outputs
        return BusyLaunch(op.loops)

    try:
        yield
    finally:
        KERNELS.unregister((BUSY, "cpu", "reference"))
        SCHEMAS.unregister(BUSY)


def count_of(grain_us: float) -> int:
    """Return how many operators the net of a grain has.

    >>> count_of(5), count_of(1000)
    (400, 100)
    """
    return min(OPERATORS, int(LONGEST_S * 1e6 / grain_us))


@contextmanager
def turns(grain_us: float) -> Generator[dict[str, Turn]]:
    """Yield the contestants for operators of so many microseconds, by net type."""
    loops = max(1, round(grain_us * loops_per_us()))
    with busy_operators():
        nets: dict[str, NetBase] = {}
        for name in (BASE, *TYPES):
            definition = net_def(Work("layered", "empty"), count_of(grain_us), name)
            for op in definition.op:
                op.type = BUSY
                op.arg.add(name="loops", i=loops)
            nets[name] = created(definition)
        try:
            yield {name: timed(net.run) for name, net in nets.items()}
        finally:
            for net in nets.values():
                net.close()
