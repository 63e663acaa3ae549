"""Record runs of recurrent nets by the genuine Caffe2 into `tests/data/golden/recurrent/<case>.npz`.

Needs what `tools/record_golden.py` needs:

    python3.8 -m tools.record_recurrent_nets [FOLDER]

Nets that copy what their steps left are in `golden/step_copies`.

Keys of a file: `net` the serialized NetDef, with the gradient operators that Caffe2's Python appends for the blobs
named in the text array `targets` (none: no gradient), `forward` how many operators come before these, `in/<blob>` what
was fed, and `out/<blob>` every other tensor of the workspace afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tools.record_golden import FOLDER, as_bytes, caffe2, labels, signed

T, N, D, H = 4, 3, 5, 2
"""Steps, sequences, elements of an input and of a state."""
LENGTHS = labels(4, 2, 3)

Built = "tuple[dict[str, Any], list[str]]"
"""What is fed beside parameters, and the blobs to differentiate."""


def main() -> None:
    """Record all cases."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, cases in (("recurrent", CASES), ("step_copies", COPIED)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for build in cases:
            np.savez_compressed(str(folder / name / f"{build.__name__}.npz"), **record(build))
            print(build.__name__)


def record(build: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the parts of one case; it is the first that its process knows of, so names have no numbers."""
    core, workspace, _ = caffe2()
    workspace.ResetWorkspace()
    core.Net._net_names_used.clear()
    model = import_module("caffe2.python.model_helper").ModelHelper(name="outer")
    feeds, targets = build(model)
    net = model.net
    forward = len(net.Proto().op)
    if targets:
        net.AddGradientOperators(targets)
    for place, op in enumerate(model.param_init_net.Proto().op):
        shape = next(list(argument.ints) for argument in op.arg if argument.name == "shape")
        feeds[op.output[0]] = signed(*shape, seed=place)
    for name, value in feeds.items():
        workspace.FeedBlob(name, value)
    workspace.RunNetOnce(net)
    parts = {"net": as_bytes(net.Proto()), "targets": np.array(targets, "S"), "forward": np.array(forward)}
    parts.update({f"in/{name}": value for name, value in feeds.items()})
    left: dict[str, Any] = {name: workspace.FetchBlob(name) for name in workspace.Blobs() if name not in feeds}
    arrays = [name for name, value in left.items() if isinstance(value, np.ndarray)]
    parts.update({f"out/{name}": _plain(left[name]) for name in arrays})
    return parts


def _plain(value: Any) -> Any:
    """Return an array without objects: texts as such of one length."""
    return value.astype("S") if value.dtype == object else value


def lstm(model: Any, *, initial: bool = True, lengths: bool = True, **arguments: Any) -> tuple[dict[str, Any], Any]:
    """Add an LSTM on x; returns what is fed, and its outputs."""
    names = ["x", *(["h0", "c0"] if initial else []), *(["lengths"] if lengths else [])]
    model.net.AddExternalInputs(*names)
    outputs = import_module("caffe2.python.rnn_cell").LSTM(
        model,
        "x",
        "lengths" if lengths else None,
        ("h0", "c0") if initial else None,
        D,
        arguments.pop("dim_out", H),
        scope="LSTM",
        **arguments,
    )
    values = {"x": signed(T, N, D), "h0": signed(1, N, H), "c0": signed(1, N, H, seed=1), "lengths": LENGTHS}
    return {name: values[name] for name in names}, outputs


def weighed(model: Any, blobs: list[Any], feeds: dict[str, Any]) -> list[str]:
    """Add a loss: each element of the blobs counts with a weight of its own."""
    losses: list[str] = []
    for place, (blob, shape) in enumerate(blobs):
        feeds[f"weight_{place}"] = signed(*shape, seed=7 + place)
        model.net.AddExternalInputs(f"weight_{place}")
        losses.append(str(model.net.SumElements(model.net.Mul([blob, f"weight_{place}"]))))
    return losses


def lstm_text(model: Any) -> Any:
    """As Caffe2's char_rnn: sequences that end early, softmax and cross entropy."""
    feeds, outputs = lstm(model)
    scores = import_module("caffe2.python.brew").fc(model, outputs[0], None, dim_in=H, dim_out=D, axis=2)
    softmax = model.net.Softmax(scores, "softmax", axis=2)
    rows, _ = model.net.Reshape(softmax, ["softmax_reshaped", "_"], shape=[-1, D])
    model.net.AddExternalInputs("target")
    loss = model.net.AveragedLoss(model.net.LabelCrossEntropy([rows, "target"], "xent"), "loss")
    return {**feeds, "target": np.arange(T * N, dtype=np.int32) * 3 % D}, [str(loss)]


def lstm_dropped(model: Any) -> Any:
    """States of ended sequences are dropped, gates are made again, and forgetting has a bias; all outputs count."""
    feeds, outputs = lstm(
        model, drop_states=True, memory_optimization=True, forget_bias=1.5, outputs_with_grads=(0, 1, 2, 3)
    )
    shapes = [(T, N, H), (1, N, H)] * 2
    return feeds, weighed(model, list(zip(outputs, shapes)), feeds)  # noqa: B905 -- Python 3.8


def lstm_begun(model: Any) -> Any:
    """Initial states are parameters, the same for all sequences; the last states count."""
    feeds, outputs = lstm(model, initial=False, lengths=False, outputs_with_grads=(1, 3))
    return feeds, weighed(model, [(outputs[1], (1, N, H)), (outputs[3], (1, N, H))], feeds)


def lstm_forward(model: Any) -> Any:
    """No backward pass: two workspaces for all steps."""
    feeds, _ = lstm(model, forward_only=True)
    return feeds, []


def lstm_layers(model: Any) -> Any:
    """Two layers in one step."""
    feeds, outputs = lstm(model, initial=False, dim_out=[H, 3])
    return feeds, weighed(model, [(outputs[0], (T, N, 3))], feeds)


def rnn_tanh(model: Any) -> Any:
    """A plain recurrent net."""
    model.net.AddExternalInputs("x", "h0")
    cell = import_module("caffe2.python.rnn_cell")
    made = cell.BasicRNNCell(D, H, forget_bias=0.0, memory_optimization=False, activation="tanh", name="RNN")
    _, outputs = made.apply_over_sequence(model, "x", None, ["h0"])
    feeds = {"x": signed(T, N, D), "h0": signed(1, N, H)}
    return feeds, weighed(model, [(outputs[0], (T, N, H))], feeds)


def cell(model: Any, given: tuple[int, ...], rank: int, build: Callable[[Any, Any, Any], Any], **more: Any) -> Any:
    """Add a net of steps that `build` makes of the row and the state; outputs `given` count."""
    helper = import_module("caffe2.python.model_helper")
    x, h0, _ = model.net.AddExternalInputs("x", "h0", "w")
    step = helper.ModelHelper(name="step", param_model=model)
    row, state, _ = step.net.AddExternalInputs("row", "state", "w")
    after = build(step.net, row, state)
    step.net.AddExternalOutput(after)
    outputs = import_module("caffe2.python.recurrent").recurrent_net(
        net=model.net,
        cell_net=step.net,
        inputs=[(row, x)],
        initial_cell_inputs=[(state, h0)],
        links={state: after},
        scope="R",
        outputs_with_grads=given,
        **more,
    )
    feeds = {"x": signed(T, N, H), "h0": signed(*(1, N, H)[3 - rank :], seed=1), "w": signed(1, N, H, seed=2)}
    shapes = ((T, N, H), (1, N, H))
    return feeds, weighed(model, [(outputs[place], shapes[place]) for place in given], feeds)


def cell_product(model: Any) -> Any:
    """The row times the state, and a parameter; both outputs count, the initial state is one row."""
    return cell(model, (0, 1), 2, lambda net, row, state: net.Mul([net.Mul([row, state], "m"), "w"], "after"))


def cell_sum_product(model: Any) -> Any:
    """A gradient that is passed on to the state; the initial state is the same for all sequences."""
    return cell(model, (0,), 1, lambda net, row, state: net.Mul([row, net.Sum([row, state], "s")], "after"))


def cell_recomputed(model: Any) -> Any:
    """A blob that the backward pass makes again."""

    def build(net: Any, row: Any, state: Any) -> Any:
        return net.Tanh(net.Mul([net.Mul([row, state], "s"), "w"], "m"), "after")

    return cell(model, (1,), 3, build, recompute_blobs_on_backward=["s"])


def steps_as_text(model: Any) -> Any:
    """Nets of steps as nets of 2017 hold them: text in a string, of the type `rnn`, without the executor."""
    feeds, targets = cell_product(model)
    for op in model.net.Proto().op:
        for argument in op.arg:
            if argument.name in ("step_net", "backward_step_net"):
                text = str(argument.n)
                argument.ClearField("n")
                argument.s = text.encode()
            if argument.name == "enable_rnn_executor":
                argument.i = 0
    return feeds, targets


def windows(model: Any) -> Any:
    """Links over two rows: a step sees the two states before it, and the initial value has two rows."""
    net = caffe2()[0].Net("step")
    net.AddExternalInputs("row", "both")
    halves = net.Split("both", ["older", "newer"], axis=0)
    net.AddExternalOutput(net.Sum(["row", net.Mul(list(halves), "m")], "after"))
    model.net.AddExternalInputs("x", "h0")
    model.net.RecurrentNetwork(
        ["x", "h0"],
        ["all", "last", "work"],
        alias_src=["states", "states"],
        alias_dst=["all", "last"],
        alias_offset=[2, -1],
        recurrent_states=["states"],
        initial_recurrent_state_ids=[1],
        link_internal=["row", "both", "after"],
        link_external=["x", "states", "states"],
        link_offset=[0, 0, 2],
        link_window=[1, 2, 1],
        step_net=net.Proto(),
    )
    return {"x": signed(T, N, H), "h0": signed(2, N, H, seed=1)}, []


def copied(model: Any, workspaces: int = 0) -> None:
    """Copy what the steps of the one recurrent net left; say how many workspaces they have, if it is said."""
    (op,) = [op for op in model.net.Proto().op if op.type == "RecurrentNetwork"]
    if workspaces:
        op.arg.add(name="num_workspaces", i=workspaces)
    model.net.RecurrentNetworkBlobFetcher([op.output[-1]], ["names"], prefix="copy")


def lstm_kept(model: Any) -> Any:
    """A workspace for each step."""
    feeds, _ = lstm(model)
    copied(model)
    return feeds, []


def lstm_unkept(model: Any) -> Any:
    """No backward pass, and as many workspaces as Caffe2 takes where nobody says it."""
    feeds, _ = lstm(model, forward_only=True)
    copied(model)
    return feeds, []


def lstm_in_turn(model: Any) -> Any:
    """Three workspaces for four steps, with what the last ones left."""
    feeds, _ = lstm(model, forward_only=True)
    copied(model, workspaces=3)
    return feeds, []


COPIED = [lstm_kept, lstm_unkept, lstm_in_turn]
CASES = [
    lstm_text, lstm_dropped, lstm_begun, lstm_forward, lstm_layers, rnn_tanh,
    cell_product, cell_sum_product, cell_recomputed, steps_as_text, windows,
]  # fmt: skip

if __name__ == "__main__":
    main()
