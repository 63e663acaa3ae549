"""Weights that a plan moved into an engine's own form are the same for whoever else reads, writes or feeds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.operator import operator_def, why_unavailable
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import Opaque
from tazza.tensor.residue import ABOUT
from tazza.workspace import Workspace

READERS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "native/panel_product": ("FC", (16, 700), (800, 700), {}),
    "native/few_channels": ("Conv", (2, 3, 33, 35), (40, 3, 5, 5), {"kernel": 5}),
    "native/winograd": ("Conv", (2, 19, 9, 11), (37, 19, 3, 3), {"kernel": 3}),
    "onednn": ("Conv", (2, 64, 9, 11), (96, 64, 3, 3), {"kernel": 3}),
}
"""Engine -> an operator that it runs, the shapes of X and W, and arguments."""


def test_engines_whose_forms_round_are_readers() -> None:
    assert set(ABOUT) <= set(READERS)


def reader(engine: str, output: str, asked: str) -> OperatorDef:
    type, _, _, arguments = READERS[engine]
    return operator_def(type, ["X", "W", "b"], [output], engine=asked, **arguments)


def net_of(ws: Workspace, name: str, type: str, op: OperatorDef) -> None:
    ws.create_net(NetDef(name=name, type=type, op=[op], external_output=op.output))


@pytest.mark.parametrize("engine", READERS)
def test_packed_weights_are_the_same_for_all(engine: str) -> None:
    type, images, weights, _ = READERS[engine]
    reason = why_unavailable(type, "cpu", engine)
    if reason is not None:
        pytest.skip(reason)
    rng, ws = np.random.default_rng(7), Workspace()
    W = rng.standard_normal(weights, np.float32)
    given = {"X": rng.standard_normal(images, np.float32), "W": W, "b": np.ones(weights[0], np.float32), "d": W / 2}
    for name, array in {**given, "one": np.ones(1, np.float32), "rate": np.full(1, 0.5, np.float32)}.items():
        ws.feed(name, array)
    net_of(ws, "packed", "plan", reader(engine, "Y", engine))
    net_of(ws, "plain", "simple", reader(engine, "Z", "reference"))
    net_of(ws, "update", "simple", operator_def("WeightedSum", ["W", "one", "d", "rate"], ["W"]))

    def both_read_the_same() -> None:
        for name in ("packed", "plain"):
            ws.run_net(name)
        np.testing.assert_allclose(ws.fetch("Y"), ws.fetch("Z"), rtol=1e-3, atol=1e-3)

    for step in range(4):
        both_read_the_same()
        layout = ws.blob("W").tensor().layout
        assert isinstance(layout, Opaque)
        assert layout.engine == engine
        wanted = W
        for _ in range(step):
            wanted = wanted + W / 2 * np.float32(0.5)
        np.testing.assert_array_equal(ws.fetch("W"), wanted)
        ws.run_net("update")
    ws.feed("X", given["X"][:1])
    both_read_the_same()
    ws.feed("W", -W)
    both_read_the_same()
    np.testing.assert_array_equal(ws.fetch("W"), -W)
