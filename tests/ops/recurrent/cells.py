"""Recurrent nets of one small step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.operator import operator_def
from tazza.proto import NetDef, OperatorDef
from tests.recorded_nets import Blobs

T, N, H = 4, 3, 2


def values(*shape: int, seed: int = 0) -> NDArray[Any]:
    """Return float32 numbers around 0, the same in every run."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape, np.float32)


FED: Blobs = {"x": values(T, N, H), "h0": values(1, N, H, seed=1), "w": values(1, N, H, seed=2)}


def cell(*ops: OperatorDef, **changes: Any) -> OperatorDef:
    """Return a recurrent net of x, h0 and w, whose step makes `after` of `row`, `state` and `w`."""
    net = NetDef(name="step", type="simple", op=ops, external_input=["row", "state", "w"], external_output=["after"])
    arguments: dict[str, Any] = {
        "alias_src": ["states", "states"],
        "alias_dst": ["all", "last"],
        "alias_offset": [1, -1],
        "recurrent_states": ["states"],
        "initial_recurrent_state_ids": [1],
        "link_internal": ["state", "after", "row"],
        "link_external": ["states", "states", "x"],
        "link_offset": [0, 1, 0],
        "step_net": net,
        **changes,
    }
    return operator_def("RecurrentNetwork", ["x", "h0", "w"], ["all", "last", "work"], **arguments)


SUM = operator_def("Sum", ["row", "state"], ["after"])
