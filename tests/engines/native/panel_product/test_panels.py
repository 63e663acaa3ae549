"""Weights in panels against NumPy, of parts and of strides of any kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tazza.codegen.kernel import lane_count
from tazza.codegen.tiles import DEPTH, PIECES, ROW_BYTES
from tazza.device import current_context
from tazza.engines.native.panel_product.panels import ENGINE, SOME, Panels, pack_launch
from tazza.errors import UnsupportedError
from tazza.nets import NetBase
from tazza.operator import Array
from tazza.operator.definition import operator_def
from tazza.operator.engine import why_unavailable
from tazza.operator.reorder import relayout
from tazza.proto import NetDef
from tazza.tensor import ROW_MAJOR, CPUPlace, DataType, Opaque, Storage, Tensor
from tazza.workspace import Workspace
from tests.launching import call_alone, copied_into

pytestmark = pytest.mark.skipif(
    why_unavailable("Copy", "cpu", ENGINE) is not None, reason="nothing can be compiled here"
)


@pytest.mark.parametrize(("M", "K", "parts"), [(3, 5, 1), (70, 3, 1), (4 * 19, 7, 4), (4 * 33, 2, 4)])
def test_panels_hold_the_same_rows_of_each_part_in_turn(M: int, K: int, parts: int) -> None:
    width, part, form = 2 * lane_count(), M // parts, Panels(M, K, 2, parts)
    W = np.random.default_rng(M).standard_normal((M, K), np.float32)
    wanted = np.zeros((form.count, K, width), np.float32)
    for panel in range(form.count):
        first, begin = panel // parts * width, panel % parts * part
        rows = W[begin + first : begin + min(first + width, part)]
        wanted[panel, :, : len(rows)] = rows.T
    found = copied_into(Tensor.from_numpy(W), form.layout())
    np.testing.assert_array_equal(found, wanted.ravel())


@pytest.mark.parametrize(
    ("M", "K", "vectors", "parts"), [(3, 5, 2, 1), (70, 3, 1, 1), (4 * 19, 7, 2, 4), (96, 2, 3, 2)]
)
def test_weights_come_back_out_of_panels(M: int, K: int, vectors: int, parts: int) -> None:
    W = np.random.default_rng(M).standard_normal((M, K), np.float32)
    tensor = Tensor.from_numpy(W.copy())
    relayout(tensor, Panels(M, K, vectors, parts).layout(), current_context(CPUPlace()))
    assert isinstance(tensor.layout, Opaque)
    np.testing.assert_array_equal(tensor.plain(), W)
    relayout(tensor, ROW_MAJOR, current_context(CPUPlace()))
    np.testing.assert_array_equal(tensor.array, W)


def test_copies_in_pieces_do_not_come_back() -> None:
    form = Panels(40, DEPTH, 2, split=True)
    assert form.layout().derived
    copy = Tensor.over(Storage(CPUPlace()), 0, replace(Tensor((40, DEPTH), DataType.FLOAT).spec, layout=form.layout()))
    copy.reserve()
    with pytest.raises(UnsupportedError, match="has been split into pieces"):
        copy.plain()


@pytest.mark.skipif(lane_count() * 4 != ROW_BYTES, reason="a row of a tile is no vector here")
@pytest.mark.parametrize(("M", "parts"), [(70, 1), (4 * 19, 4)])
def test_weights_come_back_out_of_pieces(M: int, parts: int) -> None:
    """Pieces tell all of most numbers; more steps than are looked at at once."""
    K, rng = (SOME + 3) * DEPTH, np.random.default_rng(M)
    W = rng.standard_normal((M, K), np.float32) * np.float32(10.0) ** rng.integers(-38, 38, (M, K)).astype(np.float32)
    W[::7, ::5] = rng.choice(np.array([0.0, -0.0, np.nan, np.inf, 3.4e38, 1e-42], np.float32), W[::7, ::5].shape)
    tensor = Tensor.from_numpy(W.copy())
    relayout(tensor, Panels(M, K, 2, parts, split=True).layout(), current_context(CPUPlace()))
    np.testing.assert_array_equal(tensor.plain().view(np.uint32), W.view(np.uint32))


def fc_net(type: str, *, training: bool) -> tuple[Workspace, NetBase]:
    rng, ws = np.random.default_rng(5), Workspace()
    for name, shape in {"X": (16, 700), "W": (800, 700), "b": (800,), "dY": (16, 800), "lr": (1,)}.items():
        ws.feed(name, rng.standard_normal(shape, np.float32))
    ops = [operator_def("FC", ["X", "W", "b"], ["Y"])]
    if training:
        ops += [operator_def("FCGradient", ["X", "W", "dY"], ["dW", "db"])]
        ops += [operator_def("WeightedSum", ["W", "one", "dW", "lr"], ["W"])]
        ws.feed("one", np.ones(1, np.float32))
    return ws, ws.create_net(NetDef(name="fc", type=type, op=ops, external_output=["Y"]))


def test_weights_that_nobody_writes_lie_in_panels_alone() -> None:
    """Plans keep them once, and who fetches them finds the bits that were fed."""
    ws, net = fc_net("plan", training=False)
    W = ws.fetch("W").copy()
    for _ in range(3):
        net.run()
    taken = ws.blob("W").tensor().layout
    assert isinstance(taken, Opaque)
    assert taken.engine == ENGINE
    np.testing.assert_array_equal(ws.fetch("W"), W)
    net.run()
    np.testing.assert_allclose(ws.fetch("Y"), ws.fetch("X") @ W.T + ws.fetch("b"), rtol=1e-4, atol=1e-3)


def test_weights_that_a_net_writes_stay_where_their_update_finds_them() -> None:
    found: dict[str, Array] = {}
    for type in ("simple", "plan"):
        ws, net = fc_net(type, training=True)
        for _ in range(3):
            net.run()
        layout = ws.blob("W").tensor().layout
        assert not (isinstance(layout, Opaque) and layout.engine == ENGINE)
        found[type] = ws.fetch("W")
    np.testing.assert_allclose(found["plan"], found["simple"], rtol=1e-4, atol=1e-3)


@pytest.mark.skipif(lane_count() * 4 != ROW_BYTES, reason="a row of a tile is no vector here")
@pytest.mark.parametrize(("M", "parts"), [(70, 1), (4 * 19, 4)])
def test_split_panels_hold_pieces_of_pairs(M: int, parts: int) -> None:
    K, form = 2 * DEPTH, Panels(M, 2 * DEPTH, 2, parts, split=True)
    W = np.random.default_rng(M).standard_normal((M, K), np.float32)
    plain = copied_into(Tensor.from_numpy(W), replace(form, split=False).layout())
    for weights, steps in ((W, (K, 1)), (np.ascontiguousarray(W.T), (1, M))):
        found = Tensor.from_numpy(np.zeros(form.nbytes // 4, np.float32))
        call_alone(pack_launch(form, steps), {"X": Tensor.from_numpy(weights), "Y": found})
        each = found.numpy().view(np.uint16).reshape(form.count, K // DEPTH, PIECES, 2, DEPTH // 2, lane_count(), 2)
        values = (each.astype(np.uint32) << 16).view(np.float32).sum(axis=2, dtype=np.float32)
        np.testing.assert_array_equal(values.transpose(0, 1, 5, 3, 2, 4).ravel(), plain)
