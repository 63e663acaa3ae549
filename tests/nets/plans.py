"""Small nets for the tests of plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.operator import make_argument, operator_def
from tazza.proto import NetDef, OperatorDef
from tazza.workspace import Workspace

Array = NDArray[Any]


def draw(*shape: int, seed: int = 0) -> Array:
    """Return normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def plan(ops: Sequence[OperatorDef], *, outputs: Sequence[str] = (), **arguments: Any) -> NetDef:
    """Return a net of the type `plan`, called `n`."""
    net = NetDef(name="n", type="plan", op=ops, external_output=outputs)
    net.arg.extend(make_argument(name, value) for name, value in arguments.items())
    return net


def convolutions() -> list[OperatorDef]:
    """A residual block: what a plan folds, fuses and lays out."""
    return [
        operator_def("Conv", ["x", "W1", "b1"], ["c1"], kernel=3, pad=1),
        operator_def("SpatialBN", ["c1", "scale", "bias", "mean", "var"], ["n1"], is_test=1),
        operator_def("Relu", ["n1"], ["r1"]),
        operator_def("Conv", ["r1", "W2", "b2"], ["c2"], kernel=3, pad=1),
        operator_def("Sum", ["c2", "x"], ["s"]),
        operator_def("Relu", ["s"], ["y"]),
    ]


def feed_convolutions(ws: Workspace, batch: int = 2) -> None:
    """Feed what `convolutions` reads."""
    ws.feed("x", draw(batch, 8, 7, 6))
    ws.feed("W1", draw(16, 8, 3, 3, seed=1))
    ws.feed("W2", draw(8, 16, 3, 3, seed=2))
    for name, size, seed in (("b1", 16, 3), ("b2", 8, 4), ("scale", 16, 5), ("bias", 16, 6), ("mean", 16, 7)):
        ws.feed(name, draw(size, seed=seed))
    ws.feed("var", np.abs(draw(16, seed=8)) + 0.5)


def by_simple(ws: Workspace, ops: Sequence[OperatorDef], output: str) -> Array:
    """Run the operators one by one in a workspace of their own, on the reference engine."""
    other = Workspace()
    for name in ws.blob_names():
        other.feed(name, ws.fetch(name))
    for op in ops:
        other.run_operator(operator_def(op.type, list(op.input), list(op.output), engine="reference", **arguments(op)))
    return other.fetch(output)


def arguments(op: OperatorDef) -> dict[str, Any]:
    """Return the arguments of an operator, all whole numbers, by name."""
    return {argument.name: argument.i for argument in op.arg}
