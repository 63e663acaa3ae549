"""A row as two who do the same: a net of the operator, and PyTorch; a gradient is a contest of its own.

Both are run once, on numbers that nobody has changed, and have to give the same ones. A gradient is that of the first
output: ours are the operators that the operator's gradient maker gives, theirs is what `torch.autograd.grad` does over
a graph that is kept. Where that gives a view, of numbers that were there before or of another gradient, it is copied:
ours writes its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from benchmarks.operators.row import Array, Row, torch
from tazza.nets.base import NetBase
from tazza.observers.cost import operator_costs
from tazza.operator import SCHEMAS, gradient_for_op, operator_def
from tazza.proto import NetDef, OperatorDef
from tazza.tensor.quantization import Int8Tensor
from tazza.workspace import Workspace

ALIKE = 0.05
"""What means and deviations of random results may differ by."""
ENOUGH = 10_000
"""Random results of so many numbers are compared."""


class BenchmarkError(RuntimeError):
    """Contestants do not compute the same."""


@dataclass(frozen=True, slots=True)
class Contest:
    """Two functions that do the same, and facts of ours: `nbytes` are read and written by a run."""

    name: str
    types: tuple[str, ...]
    engine: str
    nbytes: int
    ours: Callable[[], object]
    theirs: Callable[[], object] | None


def contests(row: Row) -> Iterator[Contest]:
    """Yield the contest of the operator, then that of its gradient.

    Raises:
        BenchmarkError: the two do not give the same numbers.
    """
    home = Workspace()
    read, written = _names(row)
    for position, value in enumerate(row.inputs):
        home.feed(f"in{position}", value)
    definition = operator_def(row.type, read, written, **row.arguments)
    if row.first:
        home.run_net_once(_net("first", row.first))
    net = home.create_net(_net("forward", [definition]))
    net.run()
    results = [_numbers(home, name) for name in written]
    peer = None if torch is None or row.peer is None else _peer(row)
    if peer is not None:
        _compare(row, row.name, results, peer())
    yield _contest(row.name, net, _inference(peer) if peer is not None else None)
    if row.gradient:
        yield from _backward(row, home, definition, results)
    net.close()


def _names(row: Row) -> tuple[list[str], list[str]]:
    read = [f"in{position}" for position in range(len(row.inputs))] if row.reads is None else list(row.reads)
    written = [read[row.place[place]] if place in row.place else f"out{place}" for place in range(row.outputs)]
    return read, written


def _net(name: str, operators: Sequence[OperatorDef]) -> NetDef:
    made = NetDef(name=name, type="simple")
    made.op.extend(operators)
    return made


def _contest(name: str, net: NetBase, theirs: Callable[[], object] | None) -> Contest:
    rows = net.explain().rows
    costs = [one.cost for one in operator_costs(net)]
    return Contest(
        name,
        tuple(row.operator for row in rows),
        ", ".join(dict.fromkeys(row.engine for row in rows)),
        sum(cost.bytes_read + cost.bytes_written for cost in costs if cost is not None),
        net.run,
        theirs,
    )


def _numbers(home: Workspace, name: str) -> Any:
    found = home.fetch(name)
    return np.array(found.data if isinstance(found, Int8Tensor) else found)


# -- gradients ---------------------------------------------------------------------------------------------------------


def _backward(row: Row, home: Workspace, definition: OperatorDef, results: Sequence[Array]) -> Iterator[Contest]:
    dY = np.random.default_rng(1).standard_normal(results[0].shape).astype(results[0].dtype)
    home.feed("dY", dY)
    op = SCHEMAS[row.type].typed_view(definition)
    emitted, names = gradient_for_op(op, ["dY", *[None] * (row.outputs - 1)])
    if not emitted:
        return
    net = home.create_net(_net("backward", emitted))
    net.run()
    peer = None if torch is None or row.peer is None else _peer_gradient(row, dY)
    name = f"{row.name}, gradient"
    if peer is not None:
        found = [_numbers(home, given) if isinstance(given := names[place], str) else None for place in row.gradient]
        _compare(row, name, found, peer())
    yield _contest(name, net, peer)
    net.close()


def _peer_gradient(row: Row, dY: Array) -> Callable[[], Any]:
    """Return what computes the gradients that the row names, of a graph that was made once."""
    tensors = _tensors(row)
    for position in row.gradient:
        tensors[position].requires_grad_()
    assert row.peer is not None
    given = _call(row.peer, tensors)
    of = _listed(given)[0]
    wanted = [tensors[position] for position in row.gradient]
    direction = torch.from_numpy(dY).reshape(of.shape)

    def run() -> Sequence[Any]:
        return torch.autograd.grad(of, wanted, direction, retain_graph=True)

    found = run()
    before = [{direction.data_ptr(), *(other.data_ptr() for other in found[:place])} for place in range(len(found))]
    own = [one.is_contiguous() and one.data_ptr() not in seen for one, seen in zip(found, before, strict=True)]
    del found
    return (
        run
        if all(own)
        else lambda: [
            one if mine else one.clone(memory_format=torch.contiguous_format)
            for one, mine in zip(run(), own, strict=True)
        ]
    )


# -- the peer ----------------------------------------------------------------------------------------------------------


def _tensors(row: Row) -> list[Any]:
    return [torch.from_numpy(np.array(one)) for one in (row.inputs if row.theirs is None else row.theirs)]


def _peer(row: Row) -> Callable[[], Any]:
    tensors = _tensors(row)
    assert row.peer is not None
    peer: Callable[..., Any] = row.peer
    return peer(*tensors) if row.steps else lambda: peer(*tensors)


def _call(peer: Callable[..., Any], tensors: Sequence[Any]) -> Any:
    return peer(*tensors)


def _listed(given: Any) -> list[Any]:
    return list(cast("Sequence[Any]", given)) if isinstance(given, (tuple, list)) else [given]


def _inference(run: Callable[[], Any]) -> Callable[[], Any]:
    def within() -> Any:
        with torch.no_grad():
            return run()

    return within


# -- comparing ---------------------------------------------------------------------------------------------------------


def _compare(row: Row, name: str, ours: Sequence[Any], given: Any) -> None:
    for place, (one, other) in enumerate(zip(ours, _listed(given), strict=False)):
        if one is None or other is None:
            continue
        wanted = (other.int_repr() if other.is_quantized else other.detach()).numpy()
        if row.random:
            _compare_random(name, np.asarray(one), wanted)
        elif not (error := difference(np.asarray(one), wanted)) <= row.close:
            raise BenchmarkError(f"{name}: result {place} differs from that of torch by {error:.2g} of the largest")


def difference(found: Array, wanted: Array) -> float:
    """Return the largest difference over the largest number of `wanted`; infinite where sizes or NaNs differ.

    >>> difference(np.float32([1, 2.5]), np.float32([1, -4]))
    1.625
    """
    if found.size != wanted.size:
        return float("inf")
    one, other = (value.reshape(-1).astype(np.float64) for value in (found, wanted))
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    if same.all():
        return 0.0
    worst = float(np.max(np.abs(one[~same] - other[~same])))
    return worst / max(float(np.max(np.abs(other[np.isfinite(other)]), initial=0.0)), 1e-30)


def _compare_random(name: str, found: Array, wanted: Array) -> None:
    if found.size != wanted.size:
        raise BenchmarkError(f"{name}: {found.size} numbers, of torch {wanted.size}")
    if found.size < ENOUGH:
        return
    for what in (np.mean, np.std):
        one, other = float(what(found.astype(np.float64))), float(what(wanted.astype(np.float64)))
        if abs(one - other) > ALIKE * max(float(np.std(wanted.astype(np.float64))), 1e-30):
            raise BenchmarkError(f"{name}: {what.__name__} {one:.3g}, of torch {other:.3g}")
