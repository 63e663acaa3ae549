"""Nets of empty operators: what running an operator costs beside its kernel.

    python -m benchmarks.nets overhead

A work is a graph, and what its operators are. Graphs: a `chain`, where each operator reads what the one before it
wrote; `wide`, where all read one blob; `layered`, where each reads two results of the layer before, so that there are
no chains. Operators:

- `empty`: a kernel that does nothing, called from Python;
- `alone`: the same with an output whose size depends on data, so that no two of them become one call;
- `real`: Relu of one number, or Add where two are read: native kernels.

The work `one operator` is a net of a single one: what a whole run costs. Beside all of them PyTorch runs its eager Relu
or Add through the same graph, on tensors of one number. Nets have as many workers as there are threads.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from benchmarks.nets.turns import Turn, timed
from tazza.nets.base import NETS, NetBase
from tazza.operator import KERNELS, SCHEMAS, Call, Launch, Operands, OpView, blob, ends, launcher, operator_def, schema
from tazza.proto import NetDef
from tazza.runtime.threads import thread_count
from tazza.workspace import Workspace

OPERATORS = 1000
LAYER = 20
"""Operators in a layer."""
EAGER = "torch eager"
AIMS_US = {"simple": 3.0, "async_scheduling": 15.0}
"""What an empty operator should at most cost, by net type."""
EMPTY, ALONE = "BenchmarkEmpty", "BenchmarkAlone"

Graph = Literal["chain", "wide", "layered"]
Links = list[tuple[int, ...]]
"""For each operator whose results it reads, by position; -1 is the input of the net."""


@dataclass(frozen=True, slots=True)
class Work:
    """A graph and what its operators are; `single` is a net of one operator, timed by the run."""

    graph: Graph
    kind: Literal["empty", "alone", "real"]
    single: bool = False

    @property
    def name(self) -> str:
        """What a line calls it."""
        return f"one operator, {self.kind}" if self.single else f"{self.graph}, {self.kind}"

    @property
    def unit(self) -> str:
        """Of its figures."""
        return "us/run" if self.single else "us/op"

    @property
    def aimed(self) -> bool:
        """Whether `AIMS_US` speaks of it."""
        return self.kind != "real" and not self.single

    def count(self, operators: int) -> int:
        """Return how many operators it has, where nets have so many."""
        return 1 if self.single else operators


WORKS = (
    Work("chain", "empty"),
    Work("wide", "empty"),
    Work("layered", "empty"),
    Work("chain", "alone"),
    Work("layered", "alone"),
    Work("chain", "real"),
    Work("layered", "real"),
    Work("chain", "empty", single=True),
)


def links(graph: Graph, count: int) -> Links:
    """Return who reads whose results.

    >>> links("chain", 3), links("wide", 3)
    ([(-1,), (0,), (1,)], [(-1,), (-1,), (-1,)])
    >>> links("layered", 60)[39:41]
    [(19, 0), (20, 21)]
    """
    if graph == "chain":
        return [(i - 1,) for i in range(count)]
    if graph == "wide":
        return [(-1,)] * count
    return [
        (-1,) if i < LAYER else (i - LAYER, i - LAYER + (1 if (i + 1) % LAYER else 1 - LAYER)) for i in range(count)
    ]


def net_def(work: Work, count: int, net_type: str) -> NetDef:
    """Return the net of a work; what nobody reads is an output of the net, so that no operator is without use."""
    made = NetDef(name=f"{work.name} {net_type}", type=net_type, num_workers=thread_count(), external_input=["-1"])
    found = links(work.graph, count)
    for position, read in enumerate(found):
        type = {"empty": EMPTY, "alone": ALONE, "real": "Relu" if len(read) == 1 else "Add"}[work.kind]
        made.op.append(operator_def(type, [str(one) for one in read], [str(position)]))
    unread = set(range(count)).difference(*found)
    made.external_output.extend(str(one) for one in sorted(unread))
    return made


# -- empty operators ---------------------------------------------------------------------------------------------------


def nothing() -> None:
    """Do nothing."""


class EmptyLaunch:
    """The launch of a kernel that does nothing."""

    scratch_bytes = 0
    capturable = False

    def bind(self, operands: Operands) -> Call:
        """Give the output its memory, as kernels do."""
        Y = operands["Y"]
        if not Y.allocated:
            Y.resize(operands.tensors["X"][0].shape)
        Y.reserve()
        return nothing


@contextmanager
def empty_operators() -> Generator[None]:
    """Let there be operators that do nothing, until the block ends."""
    for type in (EMPTY, ALONE):
        made = schema(
            type,
            "Y has the shape of the first X.",
            inputs=[blob("X", dims="*S", variadic=True)],
            outputs=[blob("Y", like="X", dynamic=type == ALONE)],
            no_gradient=ends("it only takes time"),
        )

        @launcher(made, engine="reference")
        def prepare(op: OpView, context: object, inputs: object, outputs: object) -> Launch:  # pyright: ignore[reportUnusedFunction] -- registered
            del op, context, inputs, outputs
            return EmptyLaunch()

    try:
        yield
    finally:
        for type in (EMPTY, ALONE):
            KERNELS.unregister((type, "cpu", "reference"))
            SCHEMAS.unregister(type)


# -- contestants -------------------------------------------------------------------------------------------------------


@contextmanager
def turns(work: Work, operators: int) -> Generator[dict[str, Turn]]:
    """Yield the contestants of a work: every net type, and PyTorch where it is there."""
    count = work.count(operators)
    with empty_operators():
        nets = {name: created(net_def(work, count, name)) for name in NETS}
        found = {name: timed(net.run) for name, net in nets.items()}
        if find_spec("torch") is not None:
            found[EAGER] = timed(eager(work, count))
        try:
            yield found
        finally:
            for net in nets.values():
                net.close()


def created(definition: NetDef) -> NetBase:
    """Return a net in a workspace of its own."""
    made = Workspace()
    made.feed("-1", np.zeros(1, np.float32))
    return made.create_net(definition)


def eager(work: Work, count: int) -> Callable[[], object]:
    """Return what runs the graph of a work by PyTorch, operator by operator."""
    torch: Any = import_module("torch")
    found = links(work.graph, count)
    first = torch.zeros(1)

    def run() -> object:
        values = [first] * (count + 1)  # the last one is number -1
        with torch.inference_mode():
            for position, read in enumerate(found):
                if len(read) == 1:
                    values[position] = torch.relu(values[read[0]])
                else:
                    values[position] = torch.add(values[read[0]], values[read[1]])
        return values

    return run
