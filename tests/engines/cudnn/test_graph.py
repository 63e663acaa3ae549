"""Graphs: what does not fit together is refused; sums in single and in half precision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.device import current_context
from tazza.device.cuda import queue_of
from tazza.engines.cudnn.descriptor import AttributeValue
from tazza.engines.cudnn.graph import Behind, Problem, operation_graph
from tazza.engines.cudnn.launch import maker_of, plan_of
from tazza.engines.cudnn.library import CUDNN
from tazza.engines.cudnn.plan import Wishes
from tazza.errors import KernelError
from tazza.operator import run_op
from tazza.tensor import DataType, Tensor
from tests.engines.cudnn.there import DEVICE, MISFITS, PROBLEM, W, X

Array = NDArray[Any]


def run_plan(problem: Problem, *inputs: Array) -> Array:
    """Return what the plan of a problem with X and W makes of them."""
    context, plan = current_context(DEVICE), plan_of(current_context(DEVICE), problem, Wishes())
    assert plan is not None
    tensors = [Tensor.from_numpy(one).to_device(DEVICE) for one in (*inputs, np.zeros(problem.Y.dims, inputs[0].dtype))]
    space = context.scratch(max(1, plan.workspace_bytes)).address
    addresses = {letter: one.address for letter, one in zip(problem.letters, tensors, strict=True)}
    pack = plan.pack(maker_of(context), addresses, space if plan.workspace_bytes else None)
    handle = CUDNN.handle_of(context)
    CUDNN.call(queue_of(context).device, "cudnnBackendExecute", handle, plan.descriptor.handle, pack.handle)
    return np.asarray(tensors[-1])


@pytest.mark.parametrize("compute", ["DATA_FLOAT", "DATA_HALF"])
def test_half_precision_adds_up_in_single_or_half(compute: str) -> None:
    found = run_plan(
        replace(PROBLEM, dtype=DataType.FLOAT16, compute=compute), X.astype(np.float16), W.astype(np.float16)
    )
    np.testing.assert_allclose(found, np.asarray(run_op("Conv", X, W, kernels=[3, 2])), rtol=0.02, atol=0.05)


@pytest.mark.parametrize("misfit", MISFITS)
def test_what_does_not_fit_together_is_refused(misfit: str) -> None:
    with pytest.raises(KernelError, match="cudnnBackendFinalize with status"):
        operation_graph(maker_of(current_context(DEVICE)), replace(PROBLEM, **MISFITS[misfit]))


def test_a_closed_graph_stays_as_it_is() -> None:
    maker = maker_of(current_context(DEVICE))
    graph = operation_graph(maker, replace(PROBLEM, steps=(Behind.OPERAND, Behind.BIAS, Behind.STRICT_RELU)))
    with pytest.raises(KernelError):
        graph.set("OPERATIONGRAPH_OPS", AttributeValue("BACKEND_DESCRIPTOR", ()))
