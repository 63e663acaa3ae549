"""Copies of constants and programs, when inputs come in one form after another: shared, bounded, found again."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from tazza.nets.plan import net as plan_net
from tazza.nets.plan import rewrite as plan_rewrite
from tazza.nets.plan.copies import Copy
from tazza.nets.plan.net import PlanNet
from tazza.nets.plan.rewrite import Rewrite
from tazza.operator.engine import why_unavailable
from tazza.workspace import Workspace
from tests.nets.plans import by_simple, convolutions, draw, feed_convolutions, plan

pytestmark = pytest.mark.skipif(
    why_unavailable("Conv", "cpu", "stem") is not None, reason="nothing can be compiled here"
)


def _made() -> tuple[Workspace, PlanNet]:
    """Return a net whose first convolution reads packed weights."""
    ws, ops = Workspace(), convolutions()
    feed_convolutions(ws)
    ops[0].engine = "stem"
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
    return [list(instance.copies) for instances in known for instance in instances]


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
    monkeypatch.setattr(plan_rewrite, "KEPT", 2)
    ws, net = _made()
    for batch in (2, 3, 4, 2):
        _run(ws, net, batch)
        assert len(_rewrite(net).programs) <= 2


def test_a_forgotten_program_counts_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it reads must not be given back."""
    monkeypatch.setattr(plan_rewrite, "KEPT", 1)
    ws, net = _made()
    _run(ws, net, 2)
    (old,) = _rewrite(net).alive
    clone = net.clone(ws)
    _run(ws, clone, 3)
    remembered = [program for programs in _rewrite(net).programs.values() for program in programs]
    assert old not in remembered
    assert set(_rewrite(net).alive) == {old, *remembered}
    for _ in range(2):
        _run(ws, net, 2)
        _run(ws, clone, 3)


def test_copies_go_with_the_last_signature_that_reads_them() -> None:
    ws, net = _made()
    for batch in (2, 3):
        _run(ws, net, batch)
    assert len(_copies(net)) == 2
    with plan_net.KEPT_BYTES.override(0):
        _run(ws, net, 4)
        assert len(_copies(net)) == 1
    (copies,) = _copies(net)
    references = [weakref.ref(copy) for copy in copies]
    del copies
    net.close()
    gc.collect()
    assert references
    assert not any(reference() for reference in references)
