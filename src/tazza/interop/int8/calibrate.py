"""What the values of a net range over: the net runs on batches, and every blob is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.interop.int8.histogram import Histogram
from tazza.interop.int8.method import Range, find_method
from tazza.proto import NetDef
from tazza.tensor import Tensor
from tazza.workspace import Workspace

Batch = Mapping[str, Any]
"""Arrays by input."""
Told = Callable[[int], None]
"""Is told how many batches are done."""


def nobody(done: int) -> None:
    """Tell nobody."""


@dataclass(slots=True)
class Seen:
    """What was seen of one float32 blob: its shape in the last batch, and how often numbers occurred."""

    numbers: Histogram = field(default_factory=Histogram)
    shape: tuple[int, ...] = ()


def watch(
    net: NetDef, parameters: Mapping[str, NDArray[Any]], batches: Iterable[Batch], *, told: Told = nobody
) -> dict[str, Seen]:
    """Run a net in which each name is written once on batches, one after the other; return what was seen of each blob.

    One batch is held at a time, and half a megabyte for each blob.

    Raises:
        ArgumentError: there are no batches.
        TazzaError: the net does not run on them.
    """
    seen: dict[str, Seen] = {}
    with_net = Workspace()
    try:
        for name, value in parameters.items():
            with_net.feed(name, value)
        definition = NetDef()
        definition.CopyFrom(net)
        definition.type, definition.name = "simple", "calibration"
        running = None
        for done, batch in enumerate(batches, 1):
            for name, value in batch.items():
                with_net.feed(name, value)
            running = with_net.create_net(definition) if running is None else running
            running.run()
            for name in dict.fromkeys((*batch, *(name for op in net.op for name in op.output))):
                _look(with_net, name, seen)
            told(done)
    finally:
        with_net.reset()
    if running is None:
        raise ArgumentError("no batches to calibrate with", hint="give some of what the net will see")
    return seen


def ranges_of(seen: Mapping[str, Seen], method: str) -> dict[str, Range]:
    """Return the range of every blob of which a number was seen.

    Raises:
        ArgumentError: there is no such method.
    """
    judge = find_method(method)
    return {name: replace(judge(one.numbers), shape=one.shape) for name, one in seen.items() if one.numbers.count}


def calibrate(
    net: NetDef,
    parameters: Mapping[str, NDArray[Any]],
    batches: Iterable[Batch],
    *,
    method: str = "min-max",
) -> dict[str, Range]:
    """Return the range of every float32 blob of a net in which each name is written once.

    Raises:
        ArgumentError: there are no batches, or no such method.
        TazzaError: the net does not run on the batches.
    """
    find_method(method)
    return ranges_of(watch(net, parameters, batches), method)


def _look(workspace: Workspace, name: str, seen: dict[str, Seen]) -> None:
    value = workspace.blob(name).value
    if not isinstance(value, Tensor) or not value.dtype.is_float:
        return
    one = seen.setdefault(name, Seen())
    one.shape = tuple(value.shape)
    one.numbers.add(value.plain())
