"""Layouts in plans: between convolutions, whose images lie channels-last, nothing is brought into rows and back."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import TazzaError
from tazza.graph.text import parse_net
from tazza.operator import ENGINES
from tazza.operator.index import index
from tazza.workspace import Workspace
from tests.nets.plans import draw

TYPES = sorted({*index()["kernels"]["onednn"]["cpu"]} & {*index()["kernels"]["native"]["cpu"]})
"""Operators that two engines have, of which one may know rows only."""
ARGUMENTS = ("", "; kernel=3", "; size=5, alpha=0.1, beta=0.75, bias=1.5")


def steps_between(type: str, arguments: str) -> list[str]:
    """Return the operators of a plan of a convolution, an operator and another convolution, and what they reorder.

    Raises:
        TazzaError: it is no operator of one image that gives one.
    """
    ws = Workspace()
    for name, dims in {"x": (2, 3, 30, 26), "w": (16, 3, 3, 3), "b": (16,), "u": (16, 16, 3, 3)}.items():
        ws.feed(name, draw(*dims, seed=len(name)))
    text = f"in: x, w, u, b\nout: z\nc = Conv(x, w, b; kernel=3)\ny = {type}(c{arguments})\nz = Conv(y, u, b; kernel=3)"
    net = parse_net(text)
    net.name, net.type = "n", "plan"
    made = ws.create_net(net)
    for _ in range(2):
        made.run()
    assert np.isfinite(ws.fetch("z")).all()
    return [row.operator for row in made.explain().rows]


def test_no_operator_between_convolutions_reorders_images() -> None:
    """A kernel of rows may be the faster one by itself; with two reorders around it, it is not."""
    if ENGINES["onednn"].unavailable() is not None:
        pytest.skip("without oneDNN nothing lies channels-last")
    found: dict[str, list[str]] = {}
    for type in TYPES:
        for arguments in ARGUMENTS:
            try:
                found[type] = steps_between(type, arguments)
            except TazzaError:
                continue
    assert {"LRN", "AveragePool"} <= found.keys(), "it shows something"
    assert {type: steps for type, steps in found.items() if "reorder" in steps} == {}
