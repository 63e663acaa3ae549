"""Recurrent layers are what Caffe2's Python makes: operators, nets within, gradients and names."""

from __future__ import annotations

import pytest

from tazza.errors import ArgumentError, GradientError
from tazza.models import BlobReference, Model, Net, layers, name_scope
from tazza.models.recurrent import Carried, LstmStarts, lstm, recurrent_net
from tazza.operator import find_argument, find_schema
from tazza.operator.argument import BUILDER_ARGUMENTS
from tazza.proto import NetDef, OperatorDef
from tests.ops.recurrent.recorded import recorded


def plain(ops: list[OperatorDef]) -> list[OperatorDef]:
    """Return operators, here and within, without what Caffe2's builders put on every one."""
    found: list[OperatorDef] = []
    for op in ops:
        made = OperatorDef()
        made.CopyFrom(op)
        del made.arg[:]
        kept = [argument for argument in op.arg if argument.name not in BUILDER_ARGUMENTS]
        made.arg.extend(kept)
        for argument in made.arg:
            if argument.HasField("n"):
                within = plain(list(argument.n.op))
                del argument.n.op[:]
                argument.n.op.extend(within)
        found.append(made)
    return found


def built(name: str) -> NetDef:
    """Return the net of a recorded case, built here."""
    model = Model("outer")
    for blob in ("x", "h0", "c0", "lengths"):
        model.net.add_external_input(blob)
    if name == "lstm_text":
        h = lstm(model, "x", "LSTM", 5, 2, lengths="lengths", initial=("h0", "c0"))[0]
        softmax = layers.softmax(model, layers.fc(model, h, "outer_blob_0", 2, 5, axis=2), "softmax", axis=2)
        rows = model.net.add("Reshape", softmax, ["softmax_reshaped", "_"], shape=[-1, 5])[0]
        layers.averaged_loss(model, layers.label_cross_entropy(model, rows, "target", "xent"), "loss")
        model.add_gradients(["loss"])
    elif name == "lstm_forward":
        lstm(model, "x", "LSTM", 5, 2, lengths="lengths", initial=("h0", "c0"), forward_only=True)
    else:
        lstm(
            model,
            "x",
            "LSTM",
            5,
            2,
            lengths="lengths",
            initial=("h0", "c0"),
            drop_states=True,
            memory_optimization=True,
            forget_bias=1.5,
            outputs_with_grads=(0, 1, 2, 3),
        )
    return model.net.export()


@pytest.mark.parametrize("name", ["lstm_text", "lstm_dropped", "lstm_forward"])
def test_an_lstm_is_that_of_caffe2(name: str) -> None:
    ops = plain(list(built(name).op))
    assert ops == plain(list(recorded(name).net.op))[: len(ops)]
    assert len(ops) >= 2


def test_states_that_begin_as_parameters() -> None:
    model = Model("begun")
    lstm(model, "x", "LSTM", 5, 2)
    op = model.net.proto.op[-1]
    assert list(op.input[1:3]) == ["LSTM/initial_hidden_state", "LSTM/initial_cell_state"]
    assert {"LSTM/initial_cell_state", "LSTM/i2h_w", "LSTM/gates_t_b"} <= set(map(str, model.parameter_blobs()))
    find_schema(op.type).view(op)


def test_parameters_are_shared_and_names_are_scoped() -> None:
    model = Model("scoped")
    with name_scope("a"):
        lstm(model, BlobReference("x"), "L", 5, 2)
    weight, bias = (model.parameters[f"a/L/gates_t_{end}"].blob for end in "wb")
    lstm(model, "y", "M", 5, 2, starts=LstmStarts(recurrent_weight=weight, recurrent_bias=bias))
    first, second = (op for op in model.net.proto.op if op.type == "RecurrentNetwork")
    assert first.output[-1] == "a/L/step_workspaces"
    assert second.output[-1] == "M/step_workspaces"
    assert list(first.input[3:5]) == list(second.input[3:5]) == [weight, bias]


def step_of(*ops: tuple[str, list[str], list[str]]) -> Net:
    """Return a step."""
    step = Net("step")
    for name in ("row", "state"):
        step.add_external_input(name)
    for type, inputs, outputs in ops:
        step.add(type, inputs, outputs)
    step.add_external_output("after")
    return step


STATE = [Carried("state", "after", "h0")]


def test_what_is_made_again_and_what_has_no_gradient() -> None:
    net = Net("outer")
    step = step_of(("Split", ["row"], ["a", "b"]), ("Sum", ["state", "state"], ["after"]))
    with pytest.raises(ArgumentError, match="Split makes 'b' too, which is not made again"):
        recurrent_net(net, step, ("row", "x"), STATE, recompute=["a"])
    with pytest.raises(GradientError, match="blob 'row' of a step has no gradient"):
        recurrent_net(net, step, ("row", "x"), STATE)
    made = recurrent_net(net, step, ("row", "x"), STATE, forward_only=True, num_workspaces=3)
    assert made == ("after_all", "after_last")
    assert find_argument(net.proto.op[-1], "backward_step_net") is None
    with pytest.raises(GradientError, match="blob 'row' of a step has no gradient"):
        net.add_gradients({"after_all": "after_all_grad"})
