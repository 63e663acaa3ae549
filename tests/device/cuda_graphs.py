"""What the fake driver knows of captures and graphs: what is captured, what must not be done meanwhile, launches.

A capture is of the mode of a thread: the capturing thread must not take or give back memory, wait or ask, nobody may
ask a stream that is captured or an event recorded there, and waits do not cross the border. Whoever does ends the
capture, and is told so at once as well as at its end. Stricter than the real one: what a graph copies lies on devices,
functions of the host and waits for numbers are not captured, nor is an event of a captured stream.

A graph's nodes are queued where it is launched, so they run as late as anything else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

REFUSED, INVALIDATED, UNMATCHED, ISOLATION, WRONG_THREAD = 900, 901, 903, 905, 908
THREAD_LOCAL = 1
UNSAFE = frozenset({
    "cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc", "cuMemFreeHost", "cuEventQuery", "cuEventSynchronize",
    "cuStreamQuery", "cuStreamSynchronize", "cuModuleLoadDataEx", "cuDevicePrimaryCtxRelease_v2",
})  # fmt: skip
"""What a capturing thread must not call."""
OF_STREAM = {
    "cuStreamDestroy_v2": 0, "cuStreamQuery": 0, "cuStreamSynchronize": 0, "cuStreamWaitEvent": 0,
    "cuStreamWaitValue32_v2": 0, "cuLaunchHostFunc": 0, "cuEventRecord": 1, "cuGraphLaunch": 1,
}  # fmt: skip
"""What nobody may do to a stream that is captured: function -> which argument is the stream."""

Step = Callable[[], bool]


@dataclass
class Node:
    """A kernel or copy: what it touches, and what it does."""

    reads: Sequence[int]
    writes: Sequence[int]
    step: Step


@dataclass
class FakeGraph:
    """Captured work, in its order."""

    thread: int
    context: int
    nodes: list[Node] = field(default_factory=list[Node])
    invalid: bool = False


class FakeGraphs:
    """The part of the driver that captures; `captures` are those that go on, by stream."""

    def __init__(self) -> None:
        """Capture nothing."""
        self.captures: dict[int, FakeGraph] = {}
        self.graphs: dict[int, FakeGraph] = {}
        self.ready: dict[int, FakeGraph] = {}
        self.launched = 0
        """How many nodes were launched in graphs."""

    def refused(self, name: str, args: tuple[Any, ...]) -> int | None:
        """Return the status of a call that a capture stands in the way of, or None."""
        if not self.captures:
            return None
        own = [graph for graph in self.captures.values() if graph.thread == threading.get_ident()]
        if name in UNSAFE and own:
            for graph in own:
                graph.invalid = True
            return REFUSED
        captured = self.captures.get(args[OF_STREAM[name]]) if name in OF_STREAM else None
        if captured is None:
            return None
        captured.invalid = True
        return ISOLATION if name == "cuStreamWaitEvent" else REFUSED

    def work(
        self, stream: int, touches: tuple[Sequence[int], Sequence[int]], step: Step, *, to_host: bool = False
    ) -> int:
        """Queue a kernel or copy that reads and writes places, or let a capture have it; return the status."""
        driver: Any = self
        captured = self.captures.get(stream)
        if captured is None:
            driver.order.queue(stream, *touches, to_host=to_host)
            driver._queue(stream, step)
            return 0
        if captured.invalid:
            return INVALIDATED
        if any(not driver.kind_at(place).startswith("device") for places in touches for place in places):
            captured.invalid = True
            return REFUSED
        captured.nodes.append(Node(*touches, step))
        return 0

    def cuStreamBeginCapture_v2(self, stream: int, mode: int) -> int:
        """Capture what is queued from now on."""
        driver: Any = self
        if mode != THREAD_LOCAL or stream in self.captures or driver.streams[stream].steps:
            return REFUSED
        self.captures[stream] = FakeGraph(threading.get_ident(), driver.streams[stream].context)
        return 0

    def cuStreamEndCapture(self, stream: int, graph: Any) -> int:
        """Give the graph, if the capture is a whole one."""
        captured = self.captures.get(stream)
        if captured is None:
            return UNMATCHED
        if captured.thread != threading.get_ident():
            captured.invalid = True
            return WRONG_THREAD
        del self.captures[stream]
        if captured.invalid:
            graph[0] = None
            return INVALIDATED
        driver: Any = self
        handle = graph[0] = next(driver._handles)
        self.graphs[handle] = captured
        return 0

    def cuGraphGetNodes(self, graph: int, nodes: Any, count: Any) -> int:
        """Tell how many nodes there are."""
        count[0] = len(self.graphs[graph].nodes)
        return 0 if not nodes else REFUSED

    def cuGraphInstantiateWithFlags(self, ready: Any, graph: int, flags: int) -> int:
        """Make a graph ready."""
        driver: Any = self
        handle = ready[0] = next(driver._handles)
        self.ready[handle] = self.graphs[graph]
        return 1 if flags else 0

    def cuGraphDestroy(self, graph: int) -> int:
        """End a graph; what was made ready stays."""
        return 400 if self.graphs.pop(graph, None) is None else 0

    def cuGraphExecDestroy(self, ready: int) -> int:
        """End what was made ready; launches of before go on."""
        return 400 if self.ready.pop(ready, None) is None else 0

    def cuGraphLaunch(self, ready: int, stream: int) -> int:
        """Queue all nodes."""
        driver: Any = self
        graph = self.ready.get(ready)
        if graph is None or graph.context != driver.streams[stream].context or not driver._own(graph.context):
            return 400
        for node in graph.nodes:
            lost = [place for place in (*node.reads, *node.writes) if not driver.kind_at(place).startswith("device")]
            if lost:
                driver.faults.append(f"a graph uses {lost[0]:#x}, which was given back")
            self.launched += 1
            self.work(stream, (node.reads, node.writes), node.step)
        return 0
