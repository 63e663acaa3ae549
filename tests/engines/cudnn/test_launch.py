"""Addresses that plans are bound to, and what becomes of wrong ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tazza.device import current_context
from tazza.device.cuda import queue_of
from tazza.engines.cudnn.launch import maker_of, plan_of
from tazza.engines.cudnn.library import CUDNN
from tazza.engines.cudnn.plan import Wishes
from tazza.errors import KernelError
from tazza.operator import run_op
from tazza.tensor import Tensor
from tests.engines.cudnn.there import DEVICE, PROBLEM, W, X, on_device, on_fake, ran


@on_fake
def test_addresses_that_lie_badly_get_a_plan_of_their_own() -> None:
    place = current_context(DEVICE).place
    flat = np.zeros(1 + X.size, np.float32)
    flat[1:] = X.ravel()
    there_x = Tensor.from_numpy(flat).to_device(place)[1:].reshape(X.shape)
    (found,) = on_device("Conv", there_x, W, kernels=[3, 2])
    np.testing.assert_allclose(found, run_op("Conv", X, W, kernels=[3, 2]), rtol=1e-4, atol=1e-4)
    assert ran() == [28]


WRONG: dict[str, Callable[[dict[str, int], int], tuple[dict[str, int], int | None]]] = {
    "no workspace": lambda at, space: (at, None),
    "a small one": lambda at, space: (at, space + 1),
    "lies badly": lambda at, space: (at | {"X": at["X"] + 4}, space),
    "one too few": lambda at, space: ({"X": at["X"], "W": at["W"]}, space),
    "one too many": lambda at, space: (at | {"b": at["X"]}, space),
    "of the host": lambda at, space: (at | {"X": 64}, space),
}


@on_fake
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_memory_is_noticed(wrong: str) -> None:
    context = current_context(DEVICE)
    plan = plan_of(context, PROBLEM, Wishes())
    assert plan is not None
    tensors = {
        letter: Tensor.from_numpy(np.zeros(form.dims, np.float32)).to_device(DEVICE)
        for letter, form in (("X", PROBLEM.X), ("W", PROBLEM.W), ("Y", PROBLEM.Y))
    }
    space = Tensor.from_numpy(np.zeros(plan.workspace_bytes, np.uint8)).to_device(DEVICE)
    addresses, workspace = WRONG[wrong]({letter: one.address for letter, one in tensors.items()}, space.address)
    maker = maker_of(context)
    pack = plan.pack(maker, addresses, workspace)
    with pytest.raises(KernelError, match="cudnnBackendExecute with status"):
        CUDNN.call(
            queue_of(context).device, "cudnnBackendExecute", maker.handle, plan.descriptor.handle, pack.handle
        )  # fmt: skip
