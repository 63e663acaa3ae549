"""NCCL: communicators are kept for their devices; what the library refuses ends a group, and the next one is new."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest

from tazza.device import current_context
from tazza.device.cuda import queue_of
from tazza.engines.nccl._declarations import NUMBERS
from tazza.engines.nccl.library import NCCL, group, version
from tazza.errors import KernelError
from tazza.tensor import CUDAPlace, Tensor
from tests.cuda_there import why_no_device

on_fake = pytest.mark.skipif(why_no_device() is None, reason="the fake library, with two GPUs, is asked for")
FLOAT, SUM = NUMBERS["ncclFloat32"], NUMBERS["ncclSum"]


def test_communicators_are_kept() -> None:
    queue = queue_of(current_context(CUDAPlace(0)))
    one = Tensor.from_numpy(np.arange(4, dtype=np.float32)).to_device(CUDAPlace(0))
    found: list[list[int]] = []
    for _ in range(2):
        with group([queue.device]) as handles:
            NCCL.call_anywhere("ncclAllReduce", one.address, one.address, 4, FLOAT, SUM, handles[0], queue.handle)
            found.append(list(handles))
    assert found[0] == found[1]
    assert int(version()) > 20000
    np.testing.assert_array_equal(one.plain(), np.arange(4))


Calls: TypeAlias = list[list[int]]
WRONG: dict[str, Callable[[Calls], Calls]] = {
    "one is missing": lambda calls: calls[:1],
    "one calls twice": lambda calls: [calls[0], calls[0]],
    "counts differ": lambda calls: [calls[0], [*calls[1][:2], 3, *calls[1][3:]]],
    "types differ": lambda calls: [calls[0], [*calls[1][:3], NUMBERS["ncclFloat16"], *calls[1][4:]]],
    "streams are swapped": lambda calls: [[*calls[0][:-1], calls[1][-1]], [*calls[1][:-1], calls[0][-1]]],
    "memory is swapped": lambda calls: [[*calls[1][:2], *calls[0][2:]], [*calls[0][:2], *calls[1][2:]]],
    "memory of the host": lambda calls: [[64, *calls[0][1:]], calls[1]],
}


@on_fake
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_group_is_refused_and_the_next_one_is_new(wrong: str) -> None:
    places = [CUDAPlace(0), CUDAPlace(1)]
    tensors = [Tensor.from_numpy(np.full(4, n + 1.0, np.float32)).to_device(place) for n, place in enumerate(places)]
    queues = [queue_of(current_context(place)) for place in places]
    devices = [queue.device for queue in queues]

    def calls(handles: list[int]) -> list[list[int]]:
        given = zip(tensors, handles, queues, strict=True)
        return [[one.address, one.address, 4, FLOAT, SUM, handle, queue.handle] for one, handle, queue in given]

    def broken() -> list[int]:
        with group(devices) as handles:
            for one in WRONG[wrong](calls(handles)):
                NCCL.call_anywhere("ncclAllReduce", *one)
            return handles

    with pytest.raises(KernelError, match="NCCL answers ncclGroupEnd with status"):
        broken()
    with group(devices) as handles:
        for one in calls(handles):
            NCCL.call_anywhere("ncclAllReduce", *one)
    for tensor in tensors:
        np.testing.assert_array_equal(tensor.plain(), np.full(4, 3.0))
