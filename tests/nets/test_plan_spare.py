"""Folded weights of which programs have copies in another form: their own memory is given back, and found again."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import OutOfMemoryError
from tazza.interop.predictor import Predictor
from tazza.nets.plan.instance import Instance
from tazza.nets.plan.net import PlanNet
from tazza.nets.plan.rewrite import Rewrite
from tazza.operator import operator_def
from tazza.operator.engine import why_unavailable
from tazza.operator.watch import Watch
from tazza.proto import OperatorDef
from tazza.tensor import Tensor
from tazza.workspace import Workspace
from tests.nets.plans import by_simple, convolutions, draw, feed_convolutions, plan

pytestmark = pytest.mark.skipif(
    why_unavailable("Conv", "cpu", "native/winograd") is not None, reason="nothing can be compiled here"
)


def _block() -> list[OperatorDef]:
    """Return a residual block whose first convolution reads packed weights, if the engine is there."""
    ops = convolutions()
    ops[0].engine = "native/winograd"
    return ops


def _assert_right(ws: Workspace, found: NDArray[np.float32]) -> None:
    np.testing.assert_allclose(found, by_simple(ws, convolutions(), "y"), rtol=2e-4, atol=2e-4)


def _made() -> tuple[Workspace, PlanNet]:
    ws = Workspace()
    feed_convolutions(ws)
    net = ws.create_net(plan(_block(), outputs=["y"], inputs=["x"]))
    assert isinstance(net, PlanNet)
    return ws, net


def _rewrite(net: PlanNet) -> Rewrite:
    found = net._adopted  # pyright: ignore[reportPrivateUsage] -- nothing else knows of it
    assert found is not None
    return found


def _folded(net: PlanNet) -> Tensor:
    """Return the weights of the first convolution with the normalization in them."""
    rewrite = _rewrite(net)
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


def test_a_run_that_meets_weights_given_back_by_another_finds_them_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a clone checks what it is bound to just before another one gives back."""
    ws, net = _made()
    net.run()
    weights = _folded(net)
    weights.storage.mark_written()  # the copy is old, and what it is made from is not there
    with monkeypatch.context() as patch:
        patch.setattr(Watch, "broken", _stands)
        net.run()
    _assert_right(ws, ws.fetch("y"))
    assert not weights.allocated


def test_a_batch_that_does_not_fit_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ws, net = _made()
    net.run()
    ws.feed("x", draw(9, 8, 7, 6, seed=9))
    with monkeypatch.context() as patch:
        patch.setattr(Instance, "bind", _no_memory)
        with pytest.raises(OutOfMemoryError):
            net.run()
    for batch in (2, 9, 2):
        ws.feed("x", draw(batch, 8, 7, 6, seed=batch))
        net.run()
        _assert_right(ws, ws.fetch("y"))
        assert not _folded(net).allocated


def _stands(self: Watch) -> bool:
    del self
    return False


def _no_memory(self: Instance) -> None:
    raise OutOfMemoryError("the arena does not fit")


def test_a_clone_takes_the_cut_that_another_found() -> None:
    """One net finds an operator that depends on data; the other one, made before, must not run the old parts."""
    ops = [
        *_block(),
        operator_def("Reshape", ["y", "shape"], ["z", "old"]),
        operator_def("Relu", ["z"], ["out"]),
    ]
    ws = Workspace()
    feed_convolutions(ws)
    ws.feed("shape", np.array([2, -1], np.int64))
    first = ws.create_net(plan(ops, outputs=["out"], inputs=["x", "shape"]))
    assert isinstance(first, PlanNet)
    clone = first.clone(ws)
    for _ in range(2):
        for net in (first, clone):
            net.run()
            assert ws.fetch("out").shape == (2, 336)
            net.explain()
    clone.close()


@pytest.mark.slow
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
    net = plan(_block(), outputs=["y"], inputs=["x"])
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
    assert _rewrite(net).computed["V"].tensor().allocated
    assert not _rewrite(net).spared
