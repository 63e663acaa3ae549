"""Running one operator on arrays, without net or workspace."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from tazza.operator.definition import operator_def
from tazza.operator.operator import LocalBlobs, Operator
from tazza.operator.registry import find_schema
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
    """Run an operator once and return its outputs: one value, or a tuple of several.

    Inputs that are arrays, numbers or nested lists become tensors (Python floats as float32, ints as int32); other
    values are put into their blobs as they are. `outputs` is how many outputs are wanted; all that are not optional
    by default. Unknown arguments are refused.

    >>> run_op("Relu", [-1.0, 2.0])
    array([0., 2.], dtype=float32)

    Raises:
        TazzaError: whatever is wrong with the operator or its inputs.
    """
    declared = find_schema(type)
    count = max(1, sum(not spec.optional for spec in declared.outputs)) if outputs is None else outputs
    names_out = [f"out{i}" for i in range(count if declared.outputs else 0)]
    names_in = [f"in{i}" for i in range(len(inputs))]
    blobs = LocalBlobs()
    for name, value in zip(names_in, inputs, strict=True):
        blobs.create_blob(name).set(_tensor(value))
    operator = Operator(
        operator_def(type, names_in, names_out, engine=engine, device=device, **arguments), blobs, strict=True
    )
    with np.errstate(all="ignore"):
        operator.run()
    results = [_plain(blobs.blobs[name].value) for name in names_out]
    operator.close()
    return results[0] if len(results) == 1 else tuple(results)


def _tensor(value: Any) -> Any:
    if not isinstance(value, (int, float, list, tuple, np.ndarray, np.generic)):
        return value
    array = np.asarray(cast("Any", value))
    if not isinstance(value, (np.ndarray, np.generic)):
        narrow = {"f": np.float32, "i": np.int32}.get(array.dtype.kind)
        array = array if narrow is None else array.astype(narrow)
    return Tensor.from_numpy(array)


def _plain(value: Any) -> Any:
    return value.plain().copy() if isinstance(value, Tensor) else value
