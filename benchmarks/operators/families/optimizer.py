"""Updates of parameters: 25 million of them; of rows, 20000 of a table of 200000."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.operators.row import FAST, Array, Draw, Row, family, torch

LR = np.array([0.001], np.float32)
COUNT = np.array([0], np.int64)


def _optimizer(make: str, **options: Any) -> Callable[..., Any]:
    """Return the peer of an update: it takes the parameters, their gradient and anything else."""

    def begin(W: Any, dW: Any, *_: Any) -> Callable[[], Any]:
        W.requires_grad_()
        W.grad = dW
        step = getattr(torch.optim, make)([W], **options).step

        def run() -> Any:
            step()
            return W

        return run

    return begin


@family(FAST)
def optimizer(draw: Draw) -> Iterator[Row]:
    """All parameters at once, in place."""
    n = draw.extent(25_000_000, 630)
    W, g, zero = draw.normal(n), draw.normal(n), np.zeros(n, np.float32)
    both = [W, g]
    yield Row(
        "Adam",
        [W, zero, zero, g, -LR, COUNT],
        _optimizer("Adam", lr=0.001, eps=1e-8, fused=True),
        {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
        outputs=3,
        place={0: 0, 1: 1, 2: 2},
        theirs=both,
        steps=True,
        close=1e-3,
    )
    yield Row(
        "Adagrad",
        [W, zero, g, -LR],
        _optimizer("Adagrad", lr=0.001, eps=1e-5, fused=True),
        {"epsilon": 1e-5},
        outputs=2,
        place={0: 0, 1: 1},
        theirs=both,
        steps=True,
    )
    yield Row(
        "MomentumSGDUpdate",
        [g.copy(), zero, LR, W],
        lambda W, g: _turned(_optimizer("SGD", lr=0.001, momentum=0.9, fused=True)(W, g)),
        {"momentum": 0.9},
        outputs=3,
        place={0: 0, 1: 1, 2: 3},
        theirs=both,
        steps=True,
    )
    yield from _other_updates(W, g, zero)


def _other_updates(W: Array, g: Array, zero: Array) -> Iterator[Row]:
    yield Row(
        "RmsProp",
        [g, zero, zero, LR],
        _rms_prop,
        {"decay": 0.9, "momentum": 0.5, "epsilon": 1e-20},
        outputs=3,
        place={0: 0, 1: 1, 2: 2},
        theirs=[g],
        steps=True,
    )
    yield Row(
        "Adadelta",
        [W, zero, zero, g, np.array([-1.0], np.float32)],
        _optimizer("Adadelta", lr=1.0, rho=0.95, eps=1e-5),
        {"decay": 0.95, "epsilon": 1e-5},
        outputs=3,
        place={0: 0, 1: 1, 2: 2},
        theirs=[W, g],
        steps=True,
    )
    one, rate = np.array([1.0], np.float32), np.array([-0.001], np.float32)
    yield Row(
        "WeightedSum",
        [W, one, g, rate],
        lambda W, _, g, __: W.add_(g, alpha=-0.001),
        place={0: 0},
        what="SGD",
    )


def _turned(run: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: (None, None, run())


def _rms_prop(g: Any) -> Callable[[], Any]:
    """Return an update of zeros that goes up: what it leaves is the first step.

    PyTorch adds its epsilon behind the root: as much as ours before it would show where gradients are very small.
    """
    return _optimizer("RMSprop", lr=0.001, alpha=0.9, eps=1e-20, momentum=0.5, maximize=True)(torch.zeros_like(g), g)


@family(FAST)
def row_optimizer(draw: Draw) -> Iterator[Row]:
    """Rows of a table, each once."""
    rows, K, few = draw.extent(200_000, 50), draw.extent(64, 7), draw.extent(20_000, 20)
    W, zero = draw.normal(rows, K), np.zeros((rows, K), np.float32)
    places, g = draw.order(rows)[:few].copy(), draw.normal(few, K)
    down = -LR
    yield Row(
        "SparseAdagrad",
        [W, zero, places, g, down],
        lambda W, i, g: _sparse("Adagrad", W, i, g, lr=0.001, eps=1e-5),
        {"epsilon": 1e-5},
        outputs=2,
        place={0: 0, 1: 1},
        theirs=[W, places, g],
        steps=True,
    )
    yield Row(
        "SparseAdam",
        [W, zero, zero, places, g, down, COUNT],
        lambda W, i, g: _sparse("SparseAdam", W, i, g, lr=0.001, eps=1e-8),
        {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
        outputs=3,
        place={0: 0, 1: 1, 2: 2},
        theirs=[W, places, g],
        steps=True,
        close=1e-3,
    )
    one, rate = np.array([1.0], np.float32), np.array([0.5], np.float32)
    yield Row(
        "ScatterWeightedSum",
        [W, one, places, g, rate],
        lambda W, _, i, g, __: W.index_add_(0, i, g, alpha=0.5),
        place={0: 0},
    )
    yield Row("ScatterAssign", [W, places, g], lambda W, i, g: W.index_copy_(0, i, g), place={0: 0})


def _sparse(make: str, W: Any, places: Any, g: Any, **options: Any) -> Callable[[], Any]:
    gradient = torch.sparse_coo_tensor(places[None], g, W.shape, is_coalesced=True, check_invariants=False)
    return _optimizer(make, **options)(W, gradient)
