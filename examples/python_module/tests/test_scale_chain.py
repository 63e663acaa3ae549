"""The transform: nets as text, before and after, and those that it must leave alone."""

from __future__ import annotations

import numpy as np
import pytest

import tazza_example
from tazza.graph.text import parse_net, print_net
from tazza.graph.transform import TRANSFORMS, PassContext, apply_all, order
from tazza.workspace import Workspace

TWO = "in: x\nout: z\ny = Scale(x; scale=2.0)\nz = Scale(y; scale=3.0)"

CASES = {
    "two": (TWO, "in: x\nout: z\nz = Scale(x; scale=6.0)"),
    "another reads it": (f"{TWO}\nw = Tanh(y)", None),
    "something between": ("in: x\nout: z\ny = Scale(x; scale=2.0)\nt = Tanh(y)\nz = Scale(t; scale=3.0)", None),
    "an update": ("in: x\ny = Scale(x; scale=2.0)\nx = Scale(y; scale=3.0)", None),
}


def test_it_is_one_of_the_transforms() -> None:
    assert TRANSFORMS["scale_chain"] is tazza_example.scale_chain.ScaleChain
    assert order().index("canonicalise") < order().index("scale_chain")


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name: str) -> None:
    before, after = CASES[name]
    net = parse_net(*before.splitlines())
    keep = {"w"} if "w = " in before else set[str]()
    made = TRANSFORMS["scale_chain"]().apply(net, PassContext(keep=keep)).net
    assert print_net(made) == print_net(parse_net(*(before if after is None else after).splitlines()))


def test_numbers_stay() -> None:
    net = parse_net(*TWO.splitlines())
    found: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = []
    for one in (net, apply_all(net).net):
        workspace = Workspace()
        workspace.feed("x", np.array([[1, -2, 3]], np.float32))
        workspace.run_net_once(one)
        found.append(workspace.fetch("z"))
    np.testing.assert_allclose(*found, rtol=1e-6)
