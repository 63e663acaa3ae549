"""Recorded recurrent nets, and what they compute by another way: one operator after the other, in float64."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tazza.operator import OpView, find_schema
from tazza.ops.recurrent.recurrence import aliases_of, links_of, states_of, step_net
from tazza.proto import NetDef, OperatorDef
from tazza.workspace import Workspace
from tests.check import evaluate
from tests.recorded_nets import Blobs, Recorded, read_recorded

FOLDER = Path(__file__).parents[2] / "data" / "golden" / "recurrent"
CASES = sorted(path.stem for path in FOLDER.glob("*.npz"))


def recorded(name: str) -> Recorded:
    """Return a recording."""
    return read_recorded(FOLDER / f"{name}.npz")


TRAINED = [name for name in CASES if recorded(name).targets]


def workspace_with(blobs: Blobs) -> Workspace:
    """Return a workspace in which these blobs were fed."""
    home = Workspace()
    for name, value in blobs.items():
        home.feed(name, value)
    return home


def with_type(net: NetDef, kind: str, kept: Iterable[str]) -> NetDef:
    """Return a net of another type, which leaves these blobs."""
    made = NetDef()
    made.CopyFrom(net)
    made.type, made.num_workers = kind, 2
    del made.external_output[:]
    made.external_output.extend(kept)
    return made


def run_twice(net: NetDef, fed: Blobs) -> tuple[Workspace, Blobs]:
    """Run a net twice; returns the workspace, and what it left each time, which must be the same."""
    home = workspace_with(fed)
    made = home.create_net(net)
    runs: list[Blobs] = []
    for _ in range(2):
        made.run()
        runs.append({name: home.fetch(name) for name in net.external_output})
    for name, value in runs[0].items():
        np.testing.assert_array_equal(value, runs[1][name], err_msg=name)
    home.delete_net(net.name)
    return home, runs[1]


def assert_recorded(left: Blobs, wanted: Blobs, kind: str) -> None:
    """Compare to rounding of the largest element: sums of some dozen products in another order."""
    for blob, value in left.items():
        scale = max(1.0, float(np.abs(wanted[blob]).max(initial=0.0)))
        np.testing.assert_allclose(value, wanted[blob], rtol=1e-5, atol=2e-6 * scale, err_msg=f"{blob}, {kind}")


def in_float64(ops: Iterable[OperatorDef], blobs: Blobs) -> None:
    """Run operators by their definitions on float64; steps one after the other, rows cut out by hand."""
    for definition in ops:
        op = find_schema(definition.type).view(definition)
        if definition.type == "RecurrentNetwork":
            _steps(op, blobs)
            continue
        results = evaluate(op, [blobs[name] for name in definition.input])
        blobs.update(zip(definition.output, results, strict=True))


def _steps(op: OpView, blobs: Blobs) -> None:
    X = blobs[op.definition.input[0]]
    T, N = X.shape[:2]
    over_time: Blobs = {}
    for state in states_of(op, op.definition.input):
        initial = blobs[state.initial]
        first = initial if initial.ndim == 3 else np.broadcast_to(initial, (1, N, initial.shape[-1]))
        over_time[state.states] = np.concatenate((first, np.full((T, *first.shape[1:]), np.nan)))
    net = step_net(op, "step_net")
    assert net is not None
    made = {name for inner in net.op for name in inner.output}
    for t in range(T):
        inside = {**blobs, op.timestep: np.array([t], np.int32)}
        rows = [(link, (over_time | blobs)[link.external]) for link in links_of(op)]
        inside.update({link.internal: x[t + link.offset :][: link.window].copy() for link, x in rows})
        in_float64(net.op, inside)
        for link, x in rows:
            if link.internal in made:
                x[t + link.offset :][: link.window] = inside[link.internal]
    blobs.update({alias.target: over_time[alias.source][alias.offset :] for alias in aliases_of(op)})
