"""Folded weights of which programs have copies in another form: their own memory is given back, and found again."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.interop.predictor import Predictor
from tazza.nets.plan.net import PlanNet
from tazza.operator import operator_def
from tazza.operator.engine import why_unavailable
from tazza.tensor import Tensor
from tazza.workspace import Workspace
from tests.nets.plans import by_simple, convolutions, draw, feed_convolutions, plan

pytestmark = pytest.mark.skipif(
    why_unavailable("Conv", "cpu", "stem") is not None, reason="nothing can be compiled here"
)


def _assert_right(ws: Workspace, found: NDArray[np.float32]) -> None:
    np.testing.assert_allclose(found, by_simple(ws, convolutions(), "y"), rtol=2e-4, atol=2e-4)


def _made() -> tuple[Workspace, PlanNet]:
    ws = Workspace()
    feed_convolutions(ws)
    net = ws.create_net(plan(convolutions(), outputs=["y"], inputs=["x"]))
    assert isinstance(net, PlanNet)
    return ws, net


def _folded(net: PlanNet) -> Tensor:
    """Return the weights of the first convolution with the normalization in them."""
    rewrite = net._current()
    (name,) = [name for name, blob in rewrite.computed.items() if blob.tensor().shape == (16, 8, 3, 3)]
    return rewrite.computed[name].tensor()


def test_memory_is_given_back_and_runs_go_on() -> None:
    ws, net = _made()
    assert _folded(net).allocated
    for _ in range(3):
        net.run()
        _assert_right(ws, ws.fetch("y"))
        assert not _folded(net).allocated


def test_another_signature_finds_the_weights_again() -> None:
    ws, net = _made()
    for batch in (2, 3, 2, 3, 5):
        ws.feed("x", draw(batch, 8, 7, 6, seed=batch))
        net.run()
        _assert_right(ws, ws.fetch("y"))
    ws.feed("x", draw(2, 8, 7, 6))
    for batch in (2, 3, 5):
        ws.feed("x", draw(batch, 8, 7, 6, seed=batch))
        net.run()
    assert not _folded(net).allocated
    _assert_right(ws, ws.fetch("y"))


def test_new_weights_are_folded_anew() -> None:
    ws, net = _made()
    net.run()
    for name, value in (("W1", draw(16, 8, 3, 3, seed=21)), ("scale", draw(16, seed=22))):
        ws.feed(name, value)
        net.run()
        _assert_right(ws, ws.fetch("y"))
        assert not _folded(net).allocated


def test_a_copy_that_failed_is_made_in_the_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt between giving back and noting it."""
    ws, net = _made()

    def interrupted(self: Tensor) -> None:
        release(self)
        raise KeyboardInterrupt

    release = Tensor.release
    with monkeypatch.context() as patch:
        patch.setattr(Tensor, "release", interrupted)
        with pytest.raises(KeyboardInterrupt):
            net.run()
    for _ in range(2):
        net.run()
        _assert_right(ws, ws.fetch("y"))


def test_seats_with_batches_of_their_own() -> None:
    """Threads whose signatures are compiled while others run."""
    base = Workspace()
    feed_convolutions(base)
    images = {batch: draw(batch, 8, 7, 6, seed=batch) for batch in (1, 2, 3, 4)}
    expected: dict[int, NDArray[np.float32]] = {}
    for batch, x in images.items():
        ws = Workspace()
        feed_convolutions(ws)
        ws.feed("x", x)
        expected[batch] = by_simple(ws, convolutions(), "y")
    net = plan(convolutions(), outputs=["y"], inputs=["x"])
    with Predictor(net, base, inputs=["x"]) as predictor, ThreadPoolExecutor(4) as pool:
        barrier = threading.Barrier(4)

        def calls(first: int) -> None:
            barrier.wait()
            for i in range(40):
                batch = (first + i // 5) % 4 + 1
                np.testing.assert_allclose(predictor.run(x=images[batch])["y"], expected[batch], rtol=2e-4, atol=2e-4)

        for done in [pool.submit(calls, first) for first in range(4)]:
            done.result()


def test_what_an_operator_outside_of_programs_reads_stays(tmp_path: Path) -> None:
    ws = Workspace()
    feed_convolutions(ws)
    target = str(tmp_path / "weights.minidb")
    ops = [
        operator_def("Relu", ["W1"], ["V"]),
        operator_def("Conv", ["x", "V", "b1"], ["y"], kernel=3),
        operator_def("Save", ["V"], [], db=target, db_type="minidb", absolute_path=1),
    ]
    net = ws.create_net(plan(ops, outputs=["y"], inputs=["x"]))
    assert isinstance(net, PlanNet)
    for _ in range(2):
        net.run()
        Path(target).unlink()
    assert net._current().computed["V"].tensor().allocated
    assert not net._current().spared
