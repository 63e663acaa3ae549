"""Running one operator on arrays, without net or workspace."""

from __future__ import annotations

from typing import Any

from tazza.operator.prepared import run_once
from tazza.proto import DeviceOption
from tazza.tensor import Tensor


def run_op(
    type: str,
    *inputs: Any,
    outputs: int | None = None,
    engine: str = "",
    device: DeviceOption | None = None,
    **arguments: Any,
) -> Any:
    """Run a new operator once and return its outputs as arrays: one value, or a tuple of several.

    Inputs that are arrays, `Int8Tensor`s, numbers or nested lists become tensors (Python floats as float32, ints as
    int32); other values are put into their blobs as they are. `outputs` is how many outputs are wanted; all that are
    not optional by default. Unknown arguments are refused. `tazza.tensor.run_op` returns tensors, and keeps what it
    prepared.

    >>> run_op("Relu", [-1.0, 2.0])
    array([0., 2.], dtype=float32)

    Raises:
        TazzaError: whatever is wrong with the operator or its inputs.
    """
    results = run_once(type, inputs, outputs=outputs, engine=engine, device=device, **arguments)
    plain = [_plain(value) for value in results]
    return plain[0] if len(plain) == 1 else tuple(plain)


def _plain(value: Any) -> Any:
    return value.fetched() if isinstance(value, Tensor) else value
