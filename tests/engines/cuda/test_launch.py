"""Launches of our kernels: their words, numbers of the host, what they may not be given."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.codegen.block import Slot
from tazza.codegen.nvptx import code_of
from tazza.device import current_context
from tazza.engines.cuda.launch import GridLaunch, Held, blocks_for
from tazza.operator import Operands
from tazza.tensor import CUDAPlace, Tensor
from tazza.tensor.expression import Expression
from tazza.tensor.transfer import to_place
from tests.cuda_there import why_no_device
from tests.device.cuda_driver import fake_cuda
from tests.grid_kernels import elementwise

DEVICE = CUDAPlace(0)


def operands(**tensors: Tensor) -> Operands:
    """Return operands on the device."""

    def random() -> None:
        pytest.fail("nobody draws")

    return Operands(tensors, None, random, current_context(DEVICE))  # pyright: ignore[reportArgumentType] -- never called


def test_a_launch_queues_its_kernel_with_what_its_words_are_then() -> None:
    x, n = np.arange(8, dtype=np.float32), Tensor.from_numpy(np.array([5], np.int64))
    X, Y = to_place(Tensor.from_numpy(x), DEVICE), to_place(Tensor.from_numpy(np.zeros(8, np.float32)), DEVICE)
    code = code_of("a launch of a test", lambda: elementwise(Expression.parse("a * 2"), ("a",), 8))
    made = GridLaunch(code, (Slot("X"), Slot("Y"), Held(Slot("n"))), 1, 8)
    call = made.bind(operands(X=X, Y=Y, n=n))
    call()
    np.testing.assert_array_equal(Y.plain(), [0, 2, 4, 6, 8, 0, 0, 0])
    n.assign(np.array([7], np.int64))
    call()
    np.testing.assert_array_equal(Y.plain(), [0, 2, 4, 6, 8, 10, 12, 0])
    GridLaunch(code, (Slot("X"), Slot("Y"), 8), 0, 8).bind(operands(X=X, Y=Y))()
    np.testing.assert_array_equal(Y.plain(), [0, 2, 4, 6, 8, 10, 12, 0])


@pytest.mark.skipif(why_no_device() is None, reason="it is about the driver of tests, which is not this one")
def test_memory_of_the_host_is_noticed() -> None:
    x = Tensor.from_numpy(np.zeros(1 << 18, np.float32))  # of an address that is none of the heap's, which may be small

    def launch() -> None:
        with fake_cuda():
            code = code_of("a launch of a test", lambda: elementwise(Expression.parse("a * 2"), ("a",), 8))
            Y = to_place(x, DEVICE)
            GridLaunch(code, (Slot("X"), Slot("Y"), 8), 1, 8).bind(operands(X=x, Y=Y))()
            Y.plain()

    with pytest.raises(AssertionError, match="which no device can read"):
        launch()


def test_blocks() -> None:
    assert [blocks_for(n, 8) for n in (0, 1, 8, 9)] == [0, 1, 1, 2]
