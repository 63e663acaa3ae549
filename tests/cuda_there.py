"""Whether there is a CUDA device here."""

from __future__ import annotations

import functools

from tazza.device import device_of
from tazza.errors import TazzaError
from tazza.tensor import CUDAPlace


@functools.cache
def why_no_device() -> str | None:
    """Return why tests on a CUDA device cannot run here, or None where they can."""
    try:
        device_of(CUDAPlace(0))
    except TazzaError as error:
        return error.message
    return None
