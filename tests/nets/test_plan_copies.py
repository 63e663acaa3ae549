"""Copies of constants and programs, when inputs come in one form after another: shared, bounded, found again."""

from __future__ import annotations

import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tazza.engines.native.winograd.tiling import Tiling
from tazza.nets.plan import rewrite as plan_rewrite
from tazza.nets.plan.copies import Copy
from tazza.nets.plan.instances import KEPT_BYTES
from tazza.nets.plan.net import PlanNet
from tazza.nets.plan.rewrite import Rewrite
from tazza.operator import operator_def, why_unavailable
from tazza.runtime.cache import Cache
from tazza.workspace import Workspace
from tests.nets.plans import by_simple, convolutions, draw, feed_convolutions, plan

pytestmark = pytest.mark.skipif(
    why_unavailable("Conv", "cpu", "native/winograd") is not None, reason="nothing can be compiled here"
)


def _made() -> tuple[Workspace, PlanNet]:
    """Return a net whose first convolution reads packed weights."""
    ws, ops = Workspace(), convolutions()
    feed_convolutions(ws)
    ops[0].engine = "native/winograd"
    net = ws.create_net(plan(ops, outputs=["y"], inputs=["x"]))
    assert isinstance(net, PlanNet)
    return ws, net


def _run(ws: Workspace, net: PlanNet, batch: int) -> None:
    ws.feed("x", draw(batch, 8, 7, 6, seed=batch))
    net.run()
    np.testing.assert_allclose(ws.fetch("y"), by_simple(ws, convolutions(), "y"), rtol=2e-4, atol=2e-4)


def _rewrite(net: PlanNet) -> Rewrite:
    found = net._adopted  # pyright: ignore[reportPrivateUsage] -- nothing else knows of it
    assert found is not None
    return found


def _copies(net: PlanNet) -> list[list[Copy]]:
    """Return for each signature the copies that are read for it."""
    known = net._instances.values()  # pyright: ignore[reportPrivateUsage] -- nothing else knows of them
    return [list(instance.held.values()) for instances in known for instance in instances]


def test_signatures_share_copies() -> None:
    ws, net = _made()
    for batch in (2, 3, 5):
        _run(ws, net, batch)
    first, *others = _copies(net)
    assert first
    assert len(others) == 2
    packed = first[0]
    assert packed.nbytes >= 16 * 8 * 3 * 3 * 4
    assert all(packed in copies for copies in others)


def test_shared_copies_are_made_anew_for_new_weights() -> None:
    ws, net = _made()
    for seed in (1, 31, 32):
        ws.feed("W1", draw(16, 8, 3, 3, seed=seed))
        for batch in (2, 3):
            _run(ws, net, batch)


def test_forgotten_programs_are_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_rewrite, "PROGRAMS", Cache[Any, Any]("programs of a plan", 2))
    ws, net = _made()
    for batch in (2, 3, 4, 2):
        _run(ws, net, batch)
        assert len(_rewrite(net).programs) <= 2


@pytest.mark.slow
def test_what_a_forgotten_program_reads_is_not_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """For narrow images the folded filters are read as they are, for wide ones a transformed copy of them."""
    monkeypatch.setattr(plan_rewrite, "PROGRAMS", Cache[Any, Any]("programs of a plan", 1))
    monkeypatch.setattr(Tiling, "estimate_ns", property(lambda self: 1.0 if self.problem.image[1] > 6 else 1e12))
    ws = Workspace()
    feed_convolutions(ws)
    net = ws.create_net(plan(convolutions(), outputs=["y"], inputs=["x"]))
    assert isinstance(net, PlanNet)

    def run(net: PlanNet, width: int) -> list[str]:
        ws.feed("x", draw(2, 8, 7, width))
        net.run()
        np.testing.assert_allclose(ws.fetch("y"), by_simple(ws, convolutions(), "y"), rtol=2e-4, atol=2e-4)
        return [row.engine for row in net.explain().rows]

    assert "native/winograd" not in run(net, 6)
    (old,) = _rewrite(net).alive
    clone = net.clone(ws)
    assert "native/winograd" in run(clone, 28)
    remembered = [program for programs in _rewrite(net).programs.values() for program in programs]
    assert old not in remembered
    assert not _rewrite(net).spared
    run(net, 6)
    net.close()
    del old, remembered
    gc.collect()
    run(clone, 29)
    assert _rewrite(clone).spared, "now that nothing reads it"


def test_copies_stay_while_an_instance_comes_to_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who held them is collected at the worst moment: when it was found out that nothing has to be brought back."""
    ws, net = _made()
    gc.disable()
    try:
        forgotten = net.clone(ws)
        forgotten.run()
        assert _rewrite(forgotten).spared
        del forgotten  # not closed: a ring of references

        def restore(self: Rewrite, *rest: Any) -> None:
            gc.collect()
            bring_back(self, *rest)

        bring_back = Rewrite.restore
        monkeypatch.setattr(Rewrite, "restore", restore)
        _run(ws, net, 2)
    finally:
        gc.enable()


@pytest.mark.slow
def test_clones_that_come_and_go_on_several_threads(soak: int) -> None:
    ws, net = _made()
    net.run()
    expected = ws.fetch("y")
    net.close()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:

        def work(_: int) -> None:
            for _ in range(40 * soak):
                clone = net.clone(ws)
                clone.run()
                clone.close()

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(work, range(3)))
    finally:
        sys.setswitchinterval(interval)
    np.testing.assert_array_equal(ws.fetch("y"), expected)


def test_what_the_latest_signature_reads_is_no_reason_to_forget_others() -> None:
    ws = Workspace()
    for name, shape in (("x", (1, 8, 7, 7)), ("W", (4096, 8, 3, 3)), ("b", (4096,))):
        ws.feed(name, draw(*shape))
    ops = [  # W lies as the first reads it, and the other has a copy
        operator_def("Conv", ["x", "W", "b"], [output], kernel=3, pad=1, engine=engine)
        for output, engine in (("y", "native/few_channels"), ("z", "reference"))
    ]
    net = ws.create_net(plan(ops, outputs=["y", "z"], inputs=["x"]))
    assert isinstance(net, PlanNet)
    with KEPT_BYTES.override(0):
        for batch in (1, 2):
            ws.feed("x", draw(batch, 8, 7, 7))
            net.run()
        assert len(_copies(net)) == 1, "there is no room for the arena of the other"
    with KEPT_BYTES.override(1):
        for batch in (1, 2, 1, 2):
            ws.feed("x", draw(batch, 8, 7, 7))
            net.run()
        found = _copies(net)
    assert len(found) == 2
    assert found[0] == found[1]
    assert found[0][0].nbytes > 1 << 20, "more than may be kept"


def test_copies_go_with_the_last_signature_that_reads_them() -> None:
    ws, net = _made()
    for batch in (2, 3):
        _run(ws, net, batch)
    assert len(_copies(net)) == 2
    with KEPT_BYTES.override(0):
        _run(ws, net, 4)
        assert len(_copies(net)) == 1
    (copies,) = _copies(net)
    references = [weakref.ref(copy) for copy in copies]
    del copies
    net.close()
    gc.collect()
    assert references
    assert not any(reference() for reference in references)


def test_a_constant_lies_as_its_first_reader_takes_it_whoever_else_reads_it() -> None:
    ws, ops = (
        Workspace(),
        [
            operator_def("Conv", ["x", "w"], ["a"], kernel=3),
            operator_def("Add", ["u", "w"], ["b"]),
            operator_def("Conv", ["b", "w"], ["c"], kernel=3, pad=1),
        ],
    )
    for seed, (name, extents) in enumerate({"x": (2, 16, 9, 8), "w": (16, 16, 3, 3), "u": (16, 16, 3, 3)}.items()):
        ws.feed(name, draw(*extents, seed=seed))
    net = ws.create_net(plan(ops, outputs=["a", "b", "c"], inputs=["x", "u"]))
    for seed in (1, 9, 9):
        ws.feed("w", draw(16, 16, 3, 3, seed=seed))  # written anew where it lies
        net.run()
        for name in ("a", "b", "c"):
            np.testing.assert_allclose(ws.fetch(name), by_simple(ws, ops, name), rtol=2e-4, atol=2e-4)
