"""How much memory of GPUs is in use: GetGPUMemoryUsage."""

from __future__ import annotations

import numpy as np

from tazza.device.initializer import initialize_devices
from tazza.errors import UnavailableError
from tazza.operator import Effects, OpView, blob, host_kernel, not_written, schema
from tazza.tensor import Blob, CUDAPlace, DataType, TensorSpec
from tazza.tensor.allocation import allocator_of

GET_GPU_MEMORY_USAGE = schema(
    "GetGPUMemoryUsage",
    """usage[0, g] = the bytes of GPU g that are in use, usage[1, g] = the most that there were at a time.

    Counted is what this process allocated for tensors.""",
    outputs=[blob("usage", DataType.INT64, "2 G", host=True)],
    effects=Effects.STATE,
    no_gradient=not_written("Caffe2 has none either"),
    source="Caffe2",
)


@GET_GPU_MEMORY_USAGE.infer
def get_gpu_memory_usage_infer(op: OpView) -> TensorSpec:
    del op
    return TensorSpec((2, None), DataType.INT64)


@host_kernel(GET_GPU_MEMORY_USAGE)
def get_gpu_memory_usage(op: OpView, usage: Blob) -> None:
    places = [place for place in initialize_devices().present if place.kind == CUDAPlace().kind]
    if not places:
        raise op.error(UnavailableError, "there is no GPU here", "`tazza doctor` says why")
    figures = [allocator_of(place).statistics for place in places]
    rows = [[one.in_use_bytes for one in figures], [one.peak_bytes for one in figures]]
    usage.tensor().assign(np.array(rows, np.int64))
