"""Recurrent layers: a step is a net of its own, and RecurrentNetwork runs it for each row of a sequence.

    h, h_last, c, c_last = lstm(model, "x", "LSTM", 62, 192, initial=("h0", "c0"))

Letters: T steps, N sequences; a sequence is (T, N, D). Names of blobs, order of arguments and the nets within are those
of Caffe2 1.8, so that its scripts and saved nets find them. What does not hang on the state (the product of the input)
stands before the loop, for all steps at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from tazza.data_class import dataclass
from tazza.models.initializer import constant
from tazza.models.layers import Start, fc
from tazza.models.model import Model, layer
from tazza.models.net import BlobReference, Net, scoped, without_debug_info
from tazza.models.scope import name_scope
from tazza.ops.recurrent.backward_step import with_backward
from tazza.ops.recurrent.over_sequence import Carried, over_sequence


def recurrent_net(
    net: Net,
    step: Net,
    sequence: tuple[str, str],
    states: Sequence[Carried],
    *,
    scope: str | None = None,
    timestep: str = "timestep",
    outputs_with_grads: Sequence[int] = (0,),
    recompute: Collection[str] = (),
    forward_only: bool = False,
    num_workspaces: int | None = None,
) -> tuple[BlobReference, ...]:
    """Add what runs `step` for each row of a sequence.

    Args:
        net: gets the operator.
        step: one step; each state's value after it is among its external outputs. Names are taken as they are.
        sequence: the blob of a step that is its row, and the blob of all rows.
        states: what goes from one step to the next.
        scope: prefix of the blobs that hold states over time.
        timestep: the blob of a step with its number.
        outputs_with_grads: the outputs that get gradients from outside.
        recompute: blobs of a step that are made again in the backward pass, and so need not be kept for each step.
        forward_only: there is no backward pass.
        num_workspaces: how many serve all steps in turn, where there is none; by default 2.

    Returns:
        For each state all its values, (T, N, D), and the last one, (1, N, D).

    Raises:
        GradientError: a step has no gradient.
        ArgumentError: an operator makes some blobs that are made again, and some that are not.
    """
    prefix = f"{net.next_name('recurrent') if scope is None else scope}/"
    plain = without_debug_info(step.proto)
    recurrence, inputs, outputs = over_sequence(plain, sequence, states, prefix, timestep)
    if not forward_only:
        recurrence = with_backward(recurrence, inputs, outputs_with_grads, recompute)
    elif num_workspaces is not None:
        recurrence = replace(recurrence, num_workspaces=num_workspaces)
    made = net.add(
        "RecurrentNetwork",
        list(map(BlobReference, inputs)),
        list(map(BlobReference, outputs)),
        **recurrence.arguments(),
    )
    return made[:-1]


@dataclass(frozen=True, slots=True)
class LstmStarts:
    """What the parameters of an LSTM start from: weights and biases of the input, and of h."""

    weight: Start = None
    bias: Start = None
    recurrent_weight: Start = None
    recurrent_bias: Start = None


USUAL_STARTS = LstmStarts()


@layer
def lstm(
    model: Model,
    x: str,
    name: str,
    dim_in: int,
    dim_out: int,
    *,
    lengths: str | None = None,
    initial: tuple[str, str] | None = None,
    forget_bias: float = 0.0,
    drop_states: bool = False,
    outputs_with_grads: Sequence[int] = (0,),
    memory_optimization: bool = False,
    forward_only: bool = False,
    num_workspaces: int | None = None,
    starts: LstmStarts = USUAL_STARTS,
) -> tuple[BlobReference, ...]:
    """Add an LSTM over x (T, N, dim_in); return all h (T, N, dim_out), the last h (1, N, dim_out), all c, the last c.

    Args:
        model: gets the layer.
        x: the sequences.
        name: prefix of all its blobs: parameters are `<name>/i2h_w`, `i2h_b`, `gates_t_w` and `gates_t_b`.
        dim_in: elements of an input.
        dim_out: elements of h and c.
        lengths: int32 (N): how many steps each sequence has; all have T without.
        initial: h and c before the first step, (1, N, dim_out); parameters of the layer without.
        forget_bias: added to the gate of forgetting.
        drop_states: h and c of a sequence that has ended are 0, not what they were.
        outputs_with_grads: which of the four outputs get gradients from outside.
        memory_optimization: make gates again in the backward pass rather than keep them for all steps.
        forward_only: there is no backward pass.
        num_workspaces: see `recurrent_net`.
        starts: what the parameters start from.
    """
    outside, gates = scoped(name), 4 * dim_out
    if initial is None:
        with name_scope(name):
            initial = (_initial_state(model, "hidden", dim_out), _initial_state(model, "cell", dim_out))
    row = fc(model, x, f"{name}/i2h", dim_in, gates, weight=starts.weight, bias=starts.bias, axis=2)
    step = Net(outside, strict=model.net.strict)
    step.proto.name = outside
    now, timestep = (step.add_external_input(each) for each in ("input_t", "timestep"))
    before = [step.add_external_input(f"{name}/{each}_t_prev") for each in ("hidden", "cell")]
    weight, bias = starts.recurrent_weight, starts.recurrent_bias
    ends = [] if lengths is None else [BlobReference(scoped(lengths))]
    unit: dict[str, Any] = {
        "forget_bias": float(forget_bias),
        "drop_states": int(drop_states),
        "sequence_lengths": len(ends),
    }
    with name_scope(name):
        sums = fc(model.with_net(step), before[0], "gates_t", dim_out, gates, weight=weight, bias=bias, axis=2)
        step.add("Sum", [sums, now], sums)
        after = step.add("LSTMUnit", [*before, sums, *ends, timestep], ["hidden_state", "cell_state"], **unit)
    step.add_external_output(*after)
    return recurrent_net(
        model.net,
        step,
        (now, row),
        [Carried(*each) for each in zip(before, after, map(scoped, initial), strict=True)],
        scope=outside,
        timestep=timestep,
        outputs_with_grads=outputs_with_grads,
        recompute=[sums] if memory_optimization else [],
        forward_only=forward_only,
        num_workspaces=num_workspaces,
    )


def _initial_state(model: Model, kind: str, size: int) -> BlobReference:
    return model.add_parameter(f"initial_{kind}_state", [size], constant(0.0))
