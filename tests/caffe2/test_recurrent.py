"""Recurrent layers of the old names: what they build is recorded with `training`, here is what it computes.

A layer over a sequence and its steps written out into the net are two ways to the same numbers and gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from caffe2.proto import caffe2_pb2
from caffe2.python import core, gru_cell, model_helper, recurrent, rnn_cell, workspace
from caffe2.python.attention import AttentionType
from tazza.errors import UnavailableError

Array = NDArray[Any]
T, N, D, H, E, L = 4, 3, 2, 5, 3, 6
"""Steps, sequences, elements of an input, of a state, of what an encoder left, and its steps."""


@pytest.fixture(autouse=True)
def _own_workspace() -> Iterator[None]:
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers around 0."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape, np.float32)


def run(model: Any, feeds: dict[str, Array], outputs: list[Any], weighed: int = 0) -> dict[str, Array]:
    """Return outputs, and gradients of what was fed and of parameters where output `weighed` counts with weights."""
    loss = model.net.SumElements(model.net.Mul([outputs[weighed], "weights"]), "loss")
    gradients = model.AddGradientOperators([loss])
    workspace.RunNetOnce(model.param_init_net)
    for place, blob in enumerate(sorted(map(str, model.params))):
        workspace.FeedBlob(blob, values(*workspace.FetchBlob(blob).shape, seed=place))
    for name, value in feeds.items():
        workspace.FeedBlob(name, value)
    workspace.RunNetOnce(model.net)
    shown = {f"output {i}": workspace.FetchBlob(blob) for i, blob in enumerate(outputs)}
    return shown | {str(blob): workspace.FetchBlob(gradient) for blob, gradient in gradients.items()}


LAYERS: dict[str, tuple[Any, int, dict[str, Any]]] = {
    "LSTM": (rnn_cell.LSTM, 2, {}),
    "layer-normed": (rnn_cell.LayerNormLSTM, 2, {}),
    "multiplicative": (rnn_cell.MILSTM, 2, {"forget_bias": 0.5}),
    "both": (rnn_cell.LayerNormMILSTM, 2, {"drop_states": True}),
    "basic": (rnn_cell.BasicRNN, 1, {"activation": "tanh"}),
    "gated": (gru_cell.GRU, 1, {}),
    "gated behind": (gru_cell.GRU, 1, {"linear_before_reset": True, "drop_states": True}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_computes_what_its_steps_compute(kind: str) -> None:
    layer, count, given = LAYERS[kind]
    feeds = {"x": values(T, N, D), "h": values(1, N, H, seed=1), "c": values(1, N, H, seed=2)}
    feeds |= {"lengths": np.array([4, 1, 3], np.int32), "weights": values(T, N, H, seed=3)}
    found: list[dict[str, Array]] = []
    for unrolled in (None, T):
        workspace.ResetWorkspace()
        model = model_helper.ModelHelper(name=f"{kind} {unrolled}")
        states = [core.BlobReference(name) for name in ("h", "c")[:count]]
        ends = None if kind == "basic" else core.BlobReference("lengths")
        model.net.AddExternalInputs("x", "weights", "lengths", *states)
        made = layer(model, "x", ends, states, D, H, "layer", static_rnn_unroll_size=unrolled, **given)
        found.append(run(model, feeds, list(made)))
    over_sequence, steps = found
    both = over_sequence.keys() & steps.keys()
    assert both >= {"x", "h", "layer/i2h_w", *(f"output {i}" for i in range(2 * count))}
    for name in both:
        np.testing.assert_allclose(over_sequence[name], steps[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["Regular", "Recurrent", "Dot", "SoftCoverage"])
def test_attention_computes_what_its_steps_compute(kind: str, again: bool) -> None:
    feeds = {"x": values(T, N, D), "h": values(1, N, H, seed=1), "c": values(1, N, H, seed=2)}
    feeds |= {"context": values(1, N, E, seed=4), "encoded": values(L, N, E, seed=5)}
    feeds |= {"ends": np.array([6, 2, 5], np.int32), "lengths": np.array([4, 4, 3], np.int32)}
    feeds |= {"weights": values(T, N, H + E, seed=3), "coverage": np.zeros((1, N, L), np.float32)}
    found: list[dict[str, Array]] = []
    for unrolled in (False, True):
        workspace.ResetWorkspace()
        model = model_helper.ModelHelper(name=f"{kind} {unrolled}")
        blobs = {name: core.BlobReference(name) for name in feeds}
        model.net.AddExternalInputs(*feeds)
        cell = rnn_cell.LSTMWithAttentionCell(
            E, "encoded", blobs["ends"], D, H, "cell", getattr(AttentionType, kind), None, 0.5, again, again
        )
        states = [blobs[name] for name in ("h", "c", "context")]
        if kind == "SoftCoverage":
            cell.build_initial_coverage(model)  # zeros (L): for one step alone they would have to be (1, N, L)
            states.append(blobs["coverage"])
        runs = rnn_cell.UnrolledCell(cell, T) if unrolled else cell
        output, _ = runs.apply_over_sequence(model, "x", blobs["lengths"], states, [0, 4])
        found.append(run(model, feeds, [output]))
    over_sequence, steps = found
    both = over_sequence.keys() & steps.keys()
    assert both >= {"output 0", "x", "encoded", "context", "cell/decoder/gates_t_w"}
    for name in both:
        np.testing.assert_allclose(over_sequence[name], steps[name], rtol=1e-4, atol=1e-5, err_msg=name)


def lstm(name: str, **given: Any) -> tuple[Any, Any]:
    """Return a model with an LSTM that starts from parameters, and its outputs; everything is fed and made."""
    model = model_helper.ModelHelper(name=name)
    model.net.AddExternalInputs("x")
    made = rnn_cell.LSTM(model, "x", None, None, D, H, "layer", **given)
    workspace.RunNetOnce(model.param_init_net)
    workspace.FeedBlob("x", values(T, N, D))
    return model, made


def test_a_clone_computes_what_the_net_computes() -> None:
    with core.NameScope("outer"):
        model, made = lstm("cloned", forward_only=True)
    workspace.FeedBlob("outer/x", values(T, N, D))
    workspace.RunNetOnce(model.net.Clone("clone"))
    first = workspace.FetchBlob(made[0])
    workspace.RunNetOnce(model.net)
    np.testing.assert_array_equal(first, workspace.FetchBlob(made[0]))


def test_a_predictor_lies_on_its_device_down_to_the_steps() -> None:
    """And leaves the backward pass behind."""
    model, made = lstm("trained")
    device = core.DeviceOption(caffe2_pb2.CPU, 0)
    device.random_seed = 7
    net, saved = model_helper.ExtractPredictorNet(model.net.Proto(), ["x"], [made[0]], device)
    (op,) = [op for op in net.Proto().op if op.type == "RecurrentNetwork"]
    steps = {argument.name: argument.n for argument in op.arg if argument.name.endswith("step_net")}
    assert {step.device_option.random_seed for step in steps["step_net"].op} == {7}
    assert steps["backward_step_net"] == caffe2_pb2.NetDef()
    workspace.RunNetOnce(model.net)
    wanted = workspace.FetchBlob(made[0])
    workspace.RunNetOnce(net)
    np.testing.assert_array_equal(workspace.FetchBlob(made[0]), wanted)
    assert "layer/gates_t_w" in saved


def test_parameters_are_fed_by_parts() -> None:
    model, made = lstm("fed", return_params=True)
    assert model.net.Proto().op[-1].output[0] == made[0]
    names = rnn_cell.GetLSTMParamNames()
    parts: dict[str, dict[str, Array]] = {"input": {}, "recurrent": {}}
    for given, size in (("input", D), ("recurrent", H)):
        parts[given] = {name: values(H, size, seed=i) for i, name in enumerate(names["weights"])}
        parts[given] |= {name: values(H, seed=i) for i, name in enumerate(names["biases"])}
    rnn_cell.InitFromLSTMParams(made[-1], parts)
    fed = workspace.FetchBlob("layer/gates_t_w")
    np.testing.assert_array_equal(fed, np.concatenate([parts["recurrent"][name] for name in names["weights"]]))
    np.testing.assert_array_equal(workspace.FetchBlob("layer/i2h_b")[H : 2 * H], parts["input"]["forget_gate_b"])


def test_steps_can_be_looked_at() -> None:
    model, made = lstm("looked at")
    workspace.RunNetOnce(model.net)
    names = [name.decode() for name in recurrent.retrieve_step_blobs(model.net, "step")]
    cells = [workspace.FetchBlob(name)[0] for name in names if name.startswith("step_layer/cell_state")]
    np.testing.assert_array_equal(cells, workspace.FetchBlob(made[2]))


COUNTED = {(1, True): [12, 20, 28], (2, True): [20, 36, 52], (1, False): [33, 57, 81], (2, False): [58, 107, 156]}
"""Of Caffe2's RunCountObserver, with 1, 2 and 3 steps: layers, and whether there is no backward pass."""


@pytest.mark.slow
@pytest.mark.parametrize(("layers", "forward_only"), COUNTED)
def test_an_observer_counts_the_operators_of_steps(layers: int, forward_only: bool) -> None:
    """Caffe2 counted each link between steps too, once a step; here sums over rows are made once for all steps.

    Of a backward step two operators go, and five run once: what is made of W before, the sums, and what adds them up.
    """
    for steps, counted in enumerate(COUNTED[layers, forward_only], 1):
        workspace.ResetWorkspace()
        model = model_helper.ModelHelper(name="counted")
        first = [core.BlobReference(f"{kind}{i}") for i in range(layers) for kind in "hc"]
        model.net.AddExternalInputs("x", "target", "lengths", *first)
        made = rnn_cell.LSTM(model, "x", "lengths", first, D, [H] * layers, "layer", forward_only=forward_only)
        loss = model.net.AveragedLoss(model.net.SquaredL2Distance([made[0], "target"], "each"), "loss")
        if not forward_only:
            model.AddGradientOperators([loss])
        workspace.RunNetOnce(model.param_init_net)
        for blob in first:
            workspace.FeedBlob(blob, values(1, N, H))
        workspace.FeedBlob("x", values(steps, N, D))
        workspace.FeedBlob("target", values(steps, N, H))
        workspace.FeedBlob("lengths", np.full(N, steps, np.int32))
        workspace.CreateNet(model.net)
        observer = model.net.AddObserver("RunCountObserver")
        workspace.RunNet(model.net)
        linked = {"RecurrentNetwork": ["link_internal"]}
        linked["RecurrentNetworkGradient"] = ["link_internal", "backward_link_internal"]
        links = sum(
            len(argument.strings)
            for op in model.net.Proto().op
            for argument in op.arg
            if argument.name in linked.get(op.type, [])
        )
        apart = 0 if forward_only else 5 - 2 * steps
        assert observer.debug_info() == f"This operator runs {counted - steps * links + apart} times."


def test_executors_are_told_by_arguments() -> None:
    model, _ = lstm("told")
    op = model.net.Proto().op[-1]
    recurrent.set_rnn_executor_config(op, num_threads=3)
    assert [argument.i for argument in op.arg if argument.name == "rnn_executor.num_threads"] == [3]
    workspace.RunNetOnce(model.net)
    with pytest.raises(AssertionError):
        recurrent.set_rnn_executor_config(model.param_init_net.Proto().op[0])


def test_what_is_made_of_operators_for_gpus_alone_is_refused() -> None:
    with pytest.raises(UnavailableError, match="GPUs alone"):
        rnn_cell.cudnn_LSTM(None, "x", ("h", "c"), D, H, "layer")


@pytest.mark.slow
def test_an_lstm_learns_to_say_what_came_first() -> None:
    model = model_helper.ModelHelper(name="memory")
    model.net.AddExternalInputs("x", "label")
    _, last, _, _ = rnn_cell.LSTM(model, "x", None, None, D, 8, "layer", outputs_with_grads=(1,), forget_bias=1.0)
    flat = model.net.Squeeze(last, "flat", dims=[0])
    from caffe2.python import brew, optimizer

    brew.fc(model, flat, "scores", 8, 2)
    _, loss = model.net.SoftmaxWithLoss(["scores", "label"], ["softmax", "loss"])
    model.AddGradientOperators([loss])
    optimizer.build_adam(model, base_learning_rate=0.02)
    for place, op in enumerate(model.param_init_net.Proto().op):
        op.device_option.random_seed = place + 1
    workspace.RunNetOnce(model.param_init_net)
    rng = np.random.default_rng(0)
    losses: list[float] = []
    for step in range(150):
        x = rng.standard_normal((5, 32, D)).astype(np.float32)
        workspace.FeedBlob("x", x)
        workspace.FeedBlob("label", (x[0, :, 0] > 0).astype(np.int32))
        if step == 0:
            workspace.CreateNet(model.net)
        workspace.RunNet(model.net)
        losses.append(float(workspace.FetchBlob("loss")))
    assert np.mean(losses[-10:]) < 0.35 < 0.6 < losses[0]
