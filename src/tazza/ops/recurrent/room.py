"""Memory of states and gradients over time, where what they begin with lies: on the host, or on a device.

Rows of a device are written from the host, and read there, by copies that are waited for: a few in each run, for it is
the nets of steps that compute.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tazza.operator import Array
from tazza.tensor import Blob, DataType, Place, Tensor


def room(blob: Blob, dims: Sequence[int], dtype: DataType, place: Place) -> Tensor:
    """Return the tensor of a blob, of that shape and type, at a place; another one where it lay elsewhere."""
    tensor = blob.tensor()
    if tensor.place != place:
        tensor = Tensor(dims, dtype, place)
        blob.set(tensor)
    tensor.resize(tuple(dims), dtype)
    return tensor


def write(target: Tensor, values: Array) -> None:
    """Write the elements of a tensor of one type with these, which broadcast to it."""
    if target.place.is_host:
        np.copyto(target.array, values, casting="equiv")
    else:
        target.assign(np.broadcast_to(values, tuple(target.shape)).astype(target.dtype.numpy, casting="equiv"))
    target.mark_written()
