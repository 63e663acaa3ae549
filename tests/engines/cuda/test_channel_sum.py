"""Sums over all but the channels: both orders, all types, whatever is summed, and no other engine is taken."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.device import current_context
from tazza.operator import Operands
from tazza.operator.channel_sum import CHANNEL_SUMS, ChannelSum
from tazza.random import Generator
from tazza.tensor import CUDAPlace, DataType, Tensor
from tazza.tensor.transfer import to_place

PLACE = CUDAPlace(0)
SHAPES = [(2, 3, 5), (64, 20, 576), (1, 7, 1), (3, 1, 4), (300, 2, 1), (0, 3, 2), (2, 5, 0)]


def summed(engine: str | None, shape: tuple[int, int, int], dtype: DataType, *, last: bool) -> tuple[Tensor, Tensor]:
    """Return what is summed, and the sums, both on the host."""
    images, channels, spots = shape
    lies = (images, spots, channels) if last else shape
    x = Tensor.from_numpy(np.random.default_rng(3).standard_normal(lies).astype(dtype.numpy))
    y = Tensor((channels,), dtype, PLACE)
    task = ChannelSum("dY", "db", images, channels, spots, last, dtype, PLACE)
    launch = CHANNEL_SUMS.choose(task, engine).run
    context = current_context(PLACE)
    scratch = context.scratch(launch.scratch_bytes) if launch.scratch_bytes else None
    launch.bind(Operands({"dY": to_place(x, PLACE), "db": y}, scratch, Generator, context))()
    return x, Tensor.from_numpy(np.array(y.plain()))


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16], ids=str)
def test_the_sum_of_each_channel(shape: tuple[int, int, int], dtype: DataType, last: bool) -> None:
    x, y = summed("cuda", shape, dtype, last=last)
    wanted = np.asarray(x.numpy(), np.float64).sum((0, 1) if last else (0, 2))
    error = {4: 1e-5, 2: 1e-2}[dtype.itemsize]
    np.testing.assert_allclose(np.asarray(y.numpy(), np.float64), wanted, rtol=error, atol=error)


def test_it_is_taken_where_the_library_would_do() -> None:
    task = ChannelSum("dY", "db", 64, 20, 576, False, DataType.FLOAT, PLACE)
    taken = CHANNEL_SUMS.choose(task)
    assert taken.engine == "cuda"
    assert [name for name, _ in taken.others] == ["cudnn"]
    assert taken.offer.estimate_ns is not None
