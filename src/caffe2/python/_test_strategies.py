"""Random arrays, segments and devices: what `hypothesis_test_util` lends of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import hypothesis
import hypothesis.extra.numpy
import hypothesis.strategies as st
import numpy as np
from hypothesis.strategies import SearchStrategy
from numpy.typing import DTypeLike, NDArray

from caffe2.python import workspace
from tazza.proto import PROTO_CUDA, PROTO_HIP, DeviceOption
from tazza.tensor.dtype import numpy_dtype

Array = NDArray[Any]
Arrays = SearchStrategy[Array]


def to_float32(x: float) -> float:
    """Return the nearest number of float32."""
    return float(np.float32(x))


def settings(*args: Any, **kwargs: Any) -> hypothesis.settings:
    """Return settings; those of earlier days are passed over, a `timeout` in seconds is a deadline."""
    kwargs.pop("min_satisfying_examples", None)
    timeout = kwargs.pop("timeout", None)
    if timeout is not None:
        kwargs.setdefault("deadline", timeout * 1e3)
    return hypothesis.settings(*args, **kwargs)


def floats(*args: Any, **kwargs: Any) -> SearchStrategy[float]:
    """Draw numbers, of float32 unless another width is given."""
    if "width" not in kwargs:
        kwargs["width"] = 32
        for bound in ("min_value", "max_value"):
            if kwargs.get(bound) is not None:
                kwargs[bound] = to_float32(kwargs[bound])
    return st.floats(*args, **kwargs)


def dims(min_value: int = 1, max_value: int = 5) -> SearchStrategy[int]:
    """Draw an extent."""
    return st.integers(min_value=min_value, max_value=max_value)


def elements_of_type(
    dtype: DTypeLike = np.float32, filter_: Callable[[Any], bool] | None = None
) -> SearchStrategy[Any]:
    """Draw an element: a truth, a whole number that is not negative, or a number from -1 to 1.

    Raises:
        ValueError: there is no rule for this type.
    """
    kind: Any = numpy_dtype(dtype)
    if kind == np.bool_:
        drawn: SearchStrategy[Any] = st.booleans()
    elif kind in (np.int32, np.int64):
        drawn = st.integers(min_value=0, max_value=int(np.iinfo(kind).max))
    elif kind in (np.float16, np.float32, np.float64):
        drawn = floats(min_value=-1.0, max_value=1.0, width=int(np.finfo(kind).bits))
    else:
        raise ValueError(f"Unexpected dtype {kind} without elements provided")
    return drawn if filter_ is None else drawn.filter(filter_)


def arrays(
    dims: Any, dtype: DTypeLike = np.float32, elements: SearchStrategy[Any] | None = None, unique: bool = False
) -> Arrays:
    """Draw an array of a shape."""
    drawn = elements_of_type(dtype) if elements is None else elements
    return hypothesis.extra.numpy.arrays(numpy_dtype(dtype), dims, elements=drawn, unique=unique)


def _shapes(min_dim: int, max_dim: int, **kwargs: Any) -> SearchStrategy[list[int]]:
    return st.lists(dims(**kwargs), min_size=min_dim, max_size=max_dim)


def tensor(
    min_dim: int = 1,
    max_dim: int = 4,
    dtype: DTypeLike = np.float32,
    elements: SearchStrategy[Any] | None = None,
    unique: bool = False,
    **kwargs: Any,
) -> Arrays:
    """Draw an array."""
    return _shapes(min_dim, max_dim, **kwargs).flatmap(lambda shape: arrays(shape, dtype, elements, unique=unique))


def tensor1d(
    min_len: int = 1, max_len: int = 64, dtype: DTypeLike = np.float32, elements: SearchStrategy[Any] | None = None
) -> Arrays:
    """Draw a vector."""
    return tensor(1, 1, dtype, elements, min_value=min_len, max_value=max_len)


def tensors(
    n: int,
    min_dim: int = 1,
    max_dim: int = 4,
    dtype: DTypeLike = np.float32,
    elements: SearchStrategy[Any] | None = None,
    **kwargs: Any,
) -> SearchStrategy[list[Array]]:
    """Draw `n` arrays of one shape."""
    return _shapes(min_dim, max_dim, **kwargs).flatmap(
        lambda shape: st.lists(arrays(shape, dtype, elements), min_size=n, max_size=n)
    )


def tensors1d(
    n: int,
    min_len: int = 1,
    max_len: int = 64,
    dtype: DTypeLike = np.float32,
    elements: SearchStrategy[Any] | None = None,
) -> SearchStrategy[list[Array]]:
    """Draw `n` vectors of one length."""
    return tensors(n, 1, 1, dtype, elements, min_value=min_len, max_value=max_len)


def segment_ids(size: int, is_sorted: bool) -> Arrays:
    """Draw the number of the segment of each row; sorted ones rise from 0 by at most 1."""
    if size == 0:
        return st.just(np.empty(shape=[0], dtype=np.int32))
    if not is_sorted:
        return arrays([size], dtype=np.int32, elements=st.integers(min_value=0, max_value=2 * size))
    rises = arrays([size], dtype=np.int32, elements=st.integers(min_value=0, max_value=1))
    return rises.map(lambda rise: np.cumsum(rise, dtype=np.int32) - rise[0])


def lengths(size: int, min_segments: int | None = None, max_segments: int | None = None, **kwargs: Any) -> Arrays:
    """Draw the lengths of segments, which may be empty, that have so many rows together."""
    del kwargs
    least = 0 if min_segments is None else min_segments
    most = size if max_segments is None else max_segments
    assert 0 <= least <= most
    if size == 0 and most == 0:
        return st.just(np.empty(shape=[0], dtype=np.int32))
    assert most > 0, "size is not 0, need at least one segment"

    def between(borders: int) -> Arrays:
        return arrays(borders, dtype=np.int32, elements=st.integers(min_value=0, max_value=size))

    def divided(borders: Array) -> Array:
        return np.diff(np.sort(np.append(borders, np.array([0, size], dtype=np.int32))))

    return st.integers(min_value=max(least - 1, 0), max_value=most - 1).flatmap(between).map(divided)


def segmented_tensor(
    min_dim: int = 1,
    max_dim: int = 4,
    dtype: DTypeLike = np.float32,
    is_sorted: bool = True,
    elements: SearchStrategy[Any] | None = None,
    segment_generator: Callable[..., Arrays] = segment_ids,
    allow_empty: bool = False,
    **kwargs: Any,
) -> SearchStrategy[tuple[Array, Array]]:
    """Draw rows, and their segments; `allow_empty` draws no rows too."""
    empty = st.booleans() if allow_empty else st.just(False)
    shapes = st.tuples(empty, _shapes(min_dim, max_dim, **kwargs)).map(lambda two: [0] * two[0] + two[1])
    return shapes.flatmap(
        lambda shape: st.tuples(arrays(shape, dtype, elements), segment_generator(shape[0], is_sorted=is_sorted))
    )


def lengths_tensor(
    min_segments: int | None = None, max_segments: int | None = None, *args: Any, **kwargs: Any
) -> SearchStrategy[tuple[Array, Array]]:
    """Draw rows, and the lengths of their segments."""
    drawn = functools.partial(lengths, min_segments=min_segments, max_segments=max_segments)
    return segmented_tensor(*args, segment_generator=drawn, **kwargs)


def sparse_segmented_tensor(
    min_dim: int = 1,
    max_dim: int = 4,
    dtype: DTypeLike = np.float32,
    is_sorted: bool = True,
    elements: SearchStrategy[Any] | None = None,
    allow_empty: bool = False,
    segment_generator: Callable[..., Arrays] = segment_ids,
    itype: DTypeLike = np.int64,
    **kwargs: Any,
) -> SearchStrategy[tuple[Array, Array, Array]]:
    """Draw rows, indices of some of them, and the segments of these."""
    empty = st.booleans() if allow_empty else st.just(False)

    def counted(drawn: tuple[bool, list[int]]) -> SearchStrategy[tuple[list[int], int]]:
        none, shape = drawn
        count = st.just(0) if none else st.integers(min_value=1, max_value=shape[0])
        return st.tuples(st.just(shape), count)

    def filled(drawn: tuple[list[int], int]) -> SearchStrategy[tuple[Array, Array, Array]]:
        shape, count = drawn
        rows = st.integers(min_value=0, max_value=shape[0] - 1)
        return st.tuples(
            arrays(shape, dtype, elements),
            arrays(count, dtype=itype, elements=rows),
            segment_generator(count, is_sorted=is_sorted),
        )

    return st.tuples(empty, _shapes(min_dim, max_dim, **kwargs)).flatmap(counted).flatmap(filled)


def sparse_lengths_tensor(**kwargs: Any) -> SearchStrategy[tuple[Array, Array, Array]]:
    """Draw rows, indices of some of them, and the lengths of their segments."""
    return sparse_segmented_tensor(segment_generator=lengths, **kwargs)


# -- devices -----------------------------------------------------------------------------------------------------------

cpu_do = DeviceOption()
cuda_do = DeviceOption(device_type=PROTO_CUDA)
hip_do = DeviceOption(device_type=PROTO_HIP)
gpu_do = DeviceOption(device_type=workspace.GpuDeviceType)  # pyright: ignore[reportArgumentType] -- a number
_cuda_do_list = [cuda_do] if workspace.has_cuda_support else []
_hip_do_list = [hip_do] if workspace.has_hip_support else []
_gpu_do_list = [gpu_do] if workspace.has_gpu_support else []
_device_options_no_hip = [cpu_do, *_cuda_do_list]
device_options = _device_options_no_hip + _hip_do_list
expanded_device_options = [
    cpu_do,
    *(
        DeviceOption(device_type=workspace.GpuDeviceType, device_id=number)  # pyright: ignore[reportArgumentType]
        for number in range(workspace.NumGpuDevices())
    ),
]


def device_checker_device_options() -> SearchStrategy[list[DeviceOption]]:
    """Draw all devices."""
    return st.just(device_options)


def gradient_checker_device_option() -> SearchStrategy[DeviceOption]:
    """Draw a device."""
    return st.sampled_from(device_options)


def gcs_of(options: Sequence[DeviceOption]) -> dict[str, SearchStrategy[Any]]:
    """Return arguments of `given`: `gc`, one of some devices, and `dc`, all of them."""
    return {"gc": st.sampled_from(options), "dc": st.just(list(options))}


gcs = {"gc": gradient_checker_device_option(), "dc": device_checker_device_options()}
gcs_cpu_only = gcs_of([cpu_do])
gcs_cuda_only = gcs_of(_cuda_do_list)
gcs_gpu_only = gcs_of(_gpu_do_list)
gcs_no_hip = gcs_of(_device_options_no_hip)
