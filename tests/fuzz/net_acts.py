"""What is done with a fuzzed net: loaded, shown, planned, run, differentiated, rewritten, exported and read back."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import tazza
from tazza.cli.show import show_net
from tazza.errors import KernelError, TazzaError
from tazza.graph import backward_pass
from tazza.graph.inference import infer_net
from tazza.graph.transform import TRANSFORMS, PassContext, apply_all
from tazza.interop import export_nets, save_predictor
from tazza.interop.export import parameter_fill
from tazza.interop.predictor import Predictor
from tazza.nets.base import NETS, create_net
from tazza.operator import Spec
from tazza.proto import NetDef
from tazza.proto.message import format_text, parse, parse_text, serialize, write_message
from tazza.tensor import Tensor
from tazza.workspace import Workspace
from tests.fuzz import feeds
from tests.fuzz.case import Case
from tests.fuzz.feeds import Feed

PARALLEL = tuple(sorted({*NETS} - {"simple", "plan"}))
TIME_S = 10.0
"""What a run may take: nets may wait for what never comes, such as blobs of a queue. A hang is told by who watches."""
WORKERS_MAX = 4


class LostError(Exception):
    """What was written does not come back as it was."""


def prepare() -> None:
    """Start what stays for the process: the shared workers of parallel nets."""
    net = parse_text(
        NetDef, 'op { type: "Relu" input: "x" output: "y" } op { type: "Relu" input: "x" output: "z" }', "warm-up"
    )
    for name in PARALLEL:
        net.type, net.num_workers, net.name = name, WORKERS_MAX, name
        workspace = Workspace()
        workspace.feed("x", np.ones(3, np.float32))
        workspace.run_net_once(net)


def attempt(case: Case, folder: Path) -> None:
    """Read the net from its bytes, and do what the case says."""
    net = parse(NetDef, case.parts["net"], "a fuzzed net")
    back = parse(NetDef, serialize(net), "a net that was written")
    if back.SerializeToString(deterministic=True) != net.SerializeToString(deterministic=True):
        raise LostError("the binary form changes a net")
    ACTS[case.words[0]](net, feeds.read(case.parts["feeds"]), folder, Random(case.seed))


def _specs(fed: dict[str, Feed]) -> dict[str, Spec]:
    return {name: Tensor.from_numpy(value).spec for name, _, value in feeds.arrays(fed) if not isinstance(value, bytes)}


def _workspace(fed: dict[str, Feed], folder: Path) -> Workspace:
    workspace = Workspace(root=folder)
    for name, _, value in feeds.arrays(fed):
        workspace.feed(name, value)
    return workspace


def _fetch_all(workspace: Workspace) -> None:
    for name in workspace.blob_names():
        workspace.fetch(name)


def load(net: NetDef, fed: dict[str, Feed], folder: Path, draw: Random) -> None:
    """Load the net beside one that makes its parameters; run it twice, the second time on another batch."""
    init = NetDef(name="init")
    given: dict[str, Any] = {}
    for name, feed, value in feeds.arrays(fed):
        if feed.parameter and not isinstance(value, bytes):
            init.op.append(parameter_fill(name, value))
        else:
            given[name] = value
    with tazza.load(init, net) as predictor, _closed_in_time(predictor):
        inputs = {name: given.get(name, np.ones((2, 3), np.float32)) for name in predictor.inputs}
        predictor.run(inputs)
        name = draw.choice([*inputs, ""])
        if name and not isinstance(inputs[name], bytes) and inputs[name].ndim:
            inputs[name] = np.concatenate([inputs[name], inputs[name]])
        predictor.run(inputs)
        str(predictor.net.explain())


@contextlib.contextmanager
def _closed_in_time(predictor: Predictor) -> Generator[None]:
    timer = threading.Timer(TIME_S, predictor.close)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def simple(net: NetDef, fed: dict[str, Feed], folder: Path, draw: Random) -> None:
    """Run the net twice, operator by operator; then once more after its inputs have changed."""
    _run(net, "simple", fed, folder)


def plan(net: NetDef, fed: dict[str, Feed], folder: Path, draw: Random) -> None:
    """Compile the net and run it."""
    _run(net, "plan", fed, folder)


def types(net: NetDef, fed: dict[str, Feed], folder: Path, draw: Random) -> None:
    """Run the net by the type that it names, with the workers that it wants; by a parallel one if it names none."""
    _run(net, net.type if net.type and draw.random() < 0.5 else draw.choice(PARALLEL), fed, folder)


def _run(net: NetDef, type: str, fed: dict[str, Feed], folder: Path) -> None:
    net.type = type
    net.num_workers = max(-1, min(net.num_workers, WORKERS_MAX))  # so many more threads than cores tell nothing
    workspace = _workspace(fed, folder)
    made = create_net(net, workspace)
    try:
        made.run(timeout_s=TIME_S)
        made.run(timeout_s=TIME_S)
        str(made.explain())
        for name, feed, _ in feeds.arrays(fed):
            if feed.dims and feed.dtype != "text":
                workspace.feed(name, Feed(feed.dtype, (feed.dims[0] + 1, *feed.dims[1:])).value())
                break
        made.run(timeout_s=TIME_S)
    finally:
        made.close()
        if type != "plan":
            _fetch_all(workspace)
        workspace.reset()


def backward(net: NetDef, fed: dict[str, Feed], folder: Path, draw: Random) -> None:
    """Differentiate some outputs and run forward and backward."""
    made = sorted({name for op in net.op for name in op.output})
    targets = draw.sample(made, min(len(made), draw.choice((1, 1, 2))))
    ops, _ = backward_pass(net.op, targets)
    both = NetDef(name="both", op=[*net.op, *ops], type=draw.choice(("simple", "plan")))
    _run(both, both.type, fed, folder)


def passes(net: NetDef, fed: dict[str, Feed], folder: Path, draw: Random) -> None:
    """Apply all passes, or one; what comes out is a net to which they apply again."""
    del folder
    constants = frozenset(name for name, feed in fed.items() if feed.parameter)
    context = PassContext(constants=constants, specs=_specs(fed))
    if draw.random() < 0.5:
        made = apply_all(net, context)
        apply_all(made.net, PassContext(constants=constants | set(made.prelude.external_output)))
    else:
        TRANSFORMS[draw.choice(sorted(TRANSFORMS))]().apply(net, context)


def show(net: NetDef, fed: dict[str, Feed], folder: Path, draw: Random) -> None:
    """Show the net as the command does, from a file in binary or text form; and what follows for its shapes."""
    path = folder / draw.choice(("net.pb", "net.pbtxt"))
    write_message(path, net)
    given = [
        f"{name}:{feed.dtype}={','.join(map(str, feed.dims))}" for name, feed in fed.items() if feed.dtype != "text"
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        for shapes in ([], given):
            with contextlib.suppress(TazzaError):
                show_net(path, init_net=None, shapes=shapes)
    infer_net(net, _specs(fed))
    text = format_text(net)
    if format_text(parse_text(NetDef, text, "a text")) != text:
        raise LostError("the text form changes a net")


def export(net: NetDef, fed: dict[str, Feed], folder: Path, draw: Random) -> None:
    """Export what some outputs need with its parameters, as two nets and as a predictor file, and load both."""
    workspace = _workspace(fed, folder)
    made = sorted({name for op in net.op for name in op.output})
    outputs = draw.sample(made, 1) if made and draw.random() < 0.7 else None
    parameters = [name for name, feed in fed.items() if feed.parameter]
    inputs = {name: value for name, feed, value in feeds.arrays(fed) if not feed.parameter}
    init, predict = export_nets(net, workspace, outputs=outputs, parameters=parameters)
    _try(lambda: _run_loaded(tazza.load(init, predict), inputs))
    path = folder / "model.minidb"
    path.unlink(missing_ok=True)
    save_predictor(path, net, workspace, outputs=outputs, parameters=parameters)
    _run_loaded(tazza.load(path), inputs)


def _run_loaded(predictor: tazza.Predictor, values: dict[str, Any]) -> None:
    with predictor:
        predictor.run({name: values[name] for name in predictor.inputs if name in values})


def _try(act: Callable[[], None]) -> None:
    """Act; a typed error that is right does not end what is done with the net."""
    try:
        act()
    except KernelError:
        raise
    except TazzaError:
        pass


ACTS: dict[str, Callable[[NetDef, dict[str, Feed], Path, Random], None]] = {
    act.__name__: act for act in (load, simple, plan, types, backward, passes, show, export)
}
