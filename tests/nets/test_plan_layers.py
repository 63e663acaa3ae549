"""Layers written in other manners, as other frameworks export them: each is one step of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.graph.text import parse_net
from tazza.interop.predictor import Predictor
from tazza.nets.plan.net import PlanNet
from tazza.operator import make_argument
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.nets.plans import draw

Dims = Mapping[str, tuple[int, ...]]

ALONG = "broadcast=1, axis=1"
CONV: Dims = {"x": (2, 3, 9, 8), "w": (4, 3, 2, 3), "b": (4,), "c": (4,), "s": (4,)}
LAST: Dims = {**CONV, "x": (2, 9, 8, 3), "w": (4, 2, 3, 3)}
BACK: Dims = {**CONV, "w": (3, 4, 2, 3)}
FLAT: Dims = {**CONV, "x": (2, 3), "w": (4, 3)}
LONG: Dims = {**FLAT, "w": (3, 4)}
HIGH: Dims = {**CONV, "b": (1, 4, 1, 1)}

PLAIN = "y = Conv(x, w; kernels=[2, 3])\n"
BIASED = "y = Conv(x, w, c; kernels=[2, 3])\n"
NHWC = 'y = Conv(x, w; kernels=[2, 3], order="NHWC")\n'

FORMS: dict[str, tuple[Dims, str]] = {
    "Conv, Add": (CONV, f"{PLAIN}t = Add(y, b; {ALONG})"),
    "Conv, Add in place": (CONV, f"t = Conv(x, w; kernels=[2, 3])\nt = Add(t, b; {ALONG})"),
    "Conv, Add as in NumPy": (HIGH, f"{PLAIN}t = Add(b, y)"),
    "channels last": (LAST, f"{NHWC}t = Add(y, b; broadcast=1, axis=3)"),
    "channels last, bias first": (LAST, f"{NHWC}t = Add(b, y)"),
    "ConvTranspose, Add": (BACK, f"y = ConvTranspose(x, w; kernels=[2, 3])\nt = Add(y, b; {ALONG})"),
    "MatMul, Add": (FLAT, "y = MatMul(x, w; trans_b=1)\nt = Add(y, b; broadcast=1)"),
    "MatMul not transposed, Add": (LONG, "y = MatMul(x, w)\nt = Add(b, y)"),
    "FC, Add": (FLAT, f"y = FC(x, w, c)\nt = Add(y, b; {ALONG})"),
    "Conv with bias, Add": (CONV, f"{BIASED}t = Add(y, b; {ALONG})"),
    "Conv, Add, Add": (CONV, f"{PLAIN}u = Add(y, b; {ALONG})\nt = Add(u, c; {ALONG})"),
    "Conv, Mul, Add": (CONV, f"{PLAIN}u = Mul(y, s; {ALONG})\nt = Add(u, b; {ALONG})"),
    "Conv with bias, Mul, Add": (HIGH, f"{BIASED}u = Mul(y, s; {ALONG})\nt = Add(u, b)"),
    "Conv, Add, Mul": (CONV, f"{PLAIN}u = Add(y, b; {ALONG})\nt = Mul(u, s; {ALONG})"),
    "Conv, AffineChannel, Add": (CONV, f"{PLAIN}u = AffineChannel(y, s, c)\nt = Add(u, b; {ALONG})"),
}


def fed(dims: Dims) -> Workspace:
    """Return a workspace that holds all inputs."""
    ws = Workspace()
    for seed, (name, extents) in enumerate(dims.items()):
        ws.feed(name, draw(*extents, seed=seed))
    return ws


def net_of(dims: Dims, text: str, kind: str, engine: str = "") -> NetDef:
    """Return the layer and a Relu as a net whose data is `x`; `engine` is asked for by the layer."""
    net = parse_net(f"in: {', '.join(dims)}\nout: z\n{text}\nz = Relu(t)")
    net.name, net.type = "n", kind
    net.op[0].engine = engine
    net.arg.append(make_argument("inputs", ["x"]))
    return net


def wanted(ws: Workspace, net: NetDef) -> NDArray[Any]:
    """Return what the operators give one by one, on the definition of each."""
    other, apart = Workspace(), NetDef()
    apart.CopyFrom(net)
    apart.type = "simple"
    for op in apart.op:
        op.engine = "reference"
    for name in ws.blob_names():
        other.feed(name, ws.fetch(name))
    other.run_net_once(apart)
    return other.fetch("z")


@pytest.mark.parametrize("engine", ["", "reference", "gemm", "onednn", "native"])
@pytest.mark.parametrize("form", FORMS)
def test_one_step(form: str, engine: str) -> None:
    dims, text = FORMS[form]
    ws = fed(dims)
    net = net_of(dims, text, "plan", engine)
    expected = wanted(ws, net)
    made = ws.create_net(net)
    for _ in range(2):
        made.run()
        np.testing.assert_allclose(ws.fetch("z"), expected, rtol=1e-5, atol=1e-5)
    steps = [row for row in made.explain().rows if row.operator != "reorder"]
    if not engine:  # an engine that was asked for, and has no fused operator, keeps its layer
        assert len(steps) == 1
        assert len(steps[0].fused_from) == len(net.op)
    ws.delete_net("n")


@pytest.mark.parametrize("form", FORMS)
def test_predictors_give_the_same(form: str) -> None:
    dims, text = FORMS[form]
    ws = fed(dims)
    net = net_of(dims, text, "simple")
    x, expected = ws.fetch("x"), wanted(ws, net)
    with Predictor(net, ws, inputs=["x"]) as predictor:
        np.testing.assert_allclose(predictor.run({"x": x})["z"], expected, rtol=1e-5, atol=1e-5)


CHANGES: dict[str, tuple[str, Dims]] = {
    "a bias for each place": ("channels last, bias first", {"b": (8, 6, 4)}),
    "one bias for all": ("channels last", {"b": (1,)}),
    "one factor for all": ("Conv, Mul, Add", {"s": (1,)}),
    "other channels": ("Conv, Add", {"w": (5, 3, 2, 3), "b": (5,)}),
    "one number for other features": ("MatMul not transposed, Add", {"w": (3, 5), "b": (1,)}),
    "another shape of a folded one": ("Conv with bias, Mul, Add", {"b": (4, 8, 6)}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_constants_of_another_shape_are_still_added(change: str) -> None:
    """The net was rewritten for the old shapes: what is legal without rewriting stays so."""
    form, changed = CHANGES[change]
    dims, text = FORMS[form]
    ws = fed(dims)
    net = net_of(dims, text, "plan")
    made = ws.create_net(net)
    assert isinstance(made, PlanNet)
    clone = made.clone(ws)
    made.run()
    clone.run()
    for seed, (name, extents) in enumerate(changed.items()):
        ws.feed(name, draw(*extents, seed=100 + seed))
    expected = wanted(ws, net)
    for one in (made, clone):
        one.run()
        np.testing.assert_allclose(ws.fetch("z"), expected, rtol=1e-5, atol=1e-5)


def test_filters_that_become_more_than_depthwise() -> None:
    """A 1x1 convolution and a depthwise one are one operator only while each channel has one filter."""
    dims = {"x": (1, 8, 20, 20), "w": (16, 8, 1, 1), "b": (16,), "v": (16, 1, 3, 3), "c": (16,)}
    ws = fed(dims)
    net = net_of(dims, "y = Conv(x, w, b; kernel=1)\nt = Conv(y, v, c; kernel=3, pad=1, group=16)", "plan")
    made = ws.create_net(net)
    made.run()
    ws.feed("v", draw(32, 1, 3, 3, seed=7))
    ws.feed("c", draw(32, seed=8))
    expected = wanted(ws, net)
    made.run()
    np.testing.assert_allclose(ws.fetch("z"), expected, rtol=1e-5, atol=1e-5)
