"""What the values of a net range over: the net runs on batches, and every blob is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.errors import ArgumentError
from tazza.proto import NetDef
from tazza.registry import Registry
from tazza.tensor import PerTensor, Tensor
from tazza.workspace import Workspace

SAMPLES = 1 << 17
"""Elements of a blob that are kept of each batch, evenly spread."""
RARE = 0.0001
"""Share of the elements that "percentile" leaves out, at either end."""


@dataclass(frozen=True, slots=True)
class Range:
    """Between which numbers the elements of a blob lie, and its shape; 0 is always among the numbers.

    >>> Range(-1.0, 4.1).quantization
    PerTensor(scale=0.019999999552965164, zero_point=50)
    """

    low: float
    high: float
    shape: tuple[int, ...] = ()

    @property
    def quantization(self) -> PerTensor:
        """The scale and the zero point that bring the range into bytes."""
        low, high = min(self.low, 0.0), max(self.high, 0.0)
        scale = (high - low) / 255 if high > low else 1.0
        return PerTensor(max(scale, 2.0**-100), round(-low / scale))


METHODS: Registry[str, Callable[[NDArray[np.float32]], Range]] = Registry("method of calibration")
"""Name -> function from elements (finite, maybe a sample of them) to their range."""


def _min_max(x: NDArray[np.float32]) -> Range:
    return Range(float(x.min()), float(x.max()))


def _percentile(x: NDArray[np.float32]) -> Range:
    low, high = np.quantile(x, (RARE, 1 - RARE))
    return Range(float(low), float(high))


METHODS.register("min-max", _min_max, help="from the least to the largest element")
METHODS.register("percentile", _percentile, help=f"without the {RARE:.2%} that lie farthest out, at either end")


def calibrate(
    net: NetDef,
    parameters: Mapping[str, NDArray[Any]],
    batches: Iterable[Mapping[str, Any]],
    *,
    method: str = "min-max",
) -> dict[str, Range]:
    """Return the range of every float32 blob of a net in which each name is written once.

    Raises:
        ArgumentError: there are no batches, or no such method.
    """
    if method not in METHODS:
        raise ArgumentError(f"there is no method {method!r} of calibration", hint=f"take one of {', '.join(METHODS)}")
    seen: dict[str, list[NDArray[np.float32]]] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    workspace = Workspace()
    try:
        for name, value in parameters.items():
            workspace.feed(name, value)
        definition = NetDef()
        definition.CopyFrom(net)
        definition.type, definition.name = "simple", "calibration"
        running = None
        for batch in batches:
            for name, value in batch.items():
                workspace.feed(name, value)
            running = workspace.create_net(definition) if running is None else running
            running.run()
            for name in dict.fromkeys((*batch, *(name for op in net.op for name in op.output))):
                _look(workspace, name, seen.setdefault(name, []))
                shapes[name] = _shape(workspace, name)
    finally:
        workspace.reset()
    if not seen:
        raise ArgumentError("no batches to calibrate with", hint="give some of what the net will see")
    judge = METHODS[method]
    found = {name: judge(np.concatenate(parts)) for name, parts in seen.items() if parts}
    return {name: replace(one, shape=shapes[name]) for name, one in found.items()}


def _shape(workspace: Workspace, name: str) -> tuple[int, ...]:
    value = workspace.blob(name).value
    return tuple(value.shape) if isinstance(value, Tensor) else ()


def _look(workspace: Workspace, name: str, parts: list[NDArray[np.float32]]) -> None:
    """Keep the extremes of a blob and a sample of its elements."""
    value = workspace.blob(name).value
    if not isinstance(value, Tensor) or not value.dtype.is_float or value.size == 0:
        return
    flat = value.plain().reshape(-1).astype(np.float32)
    flat = flat[np.isfinite(flat)]
    if flat.size:
        step = max(flat.size // SAMPLES, 1)
        parts.append(np.concatenate([flat[::step], [flat.min(), flat.max()]]))
