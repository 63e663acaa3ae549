"""Plans of a layer and a rectifier behind it have one call for both on a GPU, by cuBLASLt and by cuDNN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.device import device_option
from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.tensor import CUDAPlace, Place
from tazza.workspace import Workspace

PLACE = CUDAPlace(0)
DRAW = np.random.default_rng(6)


def values(*shape: int) -> NDArray[np.float32]:
    """Return numbers."""
    return DRAW.standard_normal(shape).astype(np.float32)


LAYERS: dict[str, tuple[dict[str, Any], dict[str, NDArray[np.float32]]]] = {
    "FC": ({}, {"x": values(4, 3), "w": values(5, 3), "b": values(5), "s": values(4, 5)}),
    "Conv": (
        {"kernel": 3},
        {"x": values(2, 3, 6, 5), "w": values(4, 3, 3, 3), "b": values(4), "s": values(2, 4, 4, 3)},
    ),
}


def run(type: str, net: str, place: Place | None, summed: bool) -> tuple[NDArray[np.float32], str]:
    """Run a layer, a sum where it is asked for, and a rectifier; return what comes out, and what ran."""
    arguments, inputs = LAYERS[type]
    workspace = Workspace()
    option: dict[str, Any] = {} if place is None else {"device": device_option(place)}
    for name, value in inputs.items():
        workspace.feed(name, value, *([] if place is None else [place]))
    ops = [operator_def(type, ["x", "w", "b"], ["y"], **arguments, **option)]
    ops += [operator_def("Sum", ["y", "s"], ["t"], **option)] if summed else []
    ops.append(operator_def("Relu", ["t" if summed else "y"], ["z"], **option))
    made = NetDef(name="n", type=net, op=ops, external_input=list(inputs), external_output=["z"])
    created = workspace.create_net(made)
    for _ in range(2):
        created.run()
    return np.asarray(workspace.fetch("z")), str(created.explain())


@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("type", LAYERS)
def test_a_plan_has_one_call_for_a_layer_and_what_stands_behind(type: str, summed: bool) -> None:
    wanted, _ = run(type, "simple", None, summed)
    found, told = run(type, "plan", PLACE, summed)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert f"Fused{type}" in told
