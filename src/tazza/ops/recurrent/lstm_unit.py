"""The pointwise part of an LSTM: LSTMUnit.

Letters: N sequences, D units. The products of a step are done before it, by FC and Sum:

    H_prev, C_prev, H, C (1, N, D)    gates (1, N, 4 D): of the input, of forgetting, of the output, of the cell

`seq_lengths` (N) says how many steps each sequence has; `timestep` holds the number of this one, from 0. A sequence
that has ended keeps its state, or drops it to 0.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import SchemaError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    blob,
    ends,
    kernel,
    schema,
)
from tazza.ops.recurrent.step_unit import (
    STEP_ARGS,
    STEP_INPUTS,
    UNUSED,
    Unit,
    check_gates,
    check_step,
    goes_on,
    require_timestep,
    sigmoid,
)
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

FLOPS = 60
"""About so many for each unit: five functions with exp, and what joins them."""

LSTM_UNIT_ARGS = (
    arg("forget_bias", float, 0.0, doc="added to the gate of forgetting"),
    *STEP_ARGS,
)

STATE_INPUTS = (
    blob("H_prev", FLOAT, "1 N D"),
    blob("C_prev", "H_prev", "1 N D", role=Role.DATA),
    blob("gates", "H_prev", "1 N G", role=Role.DATA, doc="G = 4 D"),
    *STEP_INPUTS,
)

LSTM_UNIT = schema(
    "LSTMUnit",
    """C = f * C_prev + i * g, H = o * tanh(C), where the step is within the sequence.

    i, f, o = sigmoid of the first three quarters of the gates, f with `forget_bias` added; g = tanh of the fourth.
    Elsewhere C = C_prev and H = H_prev, or 0 with `drop_states`.""",
    inputs=[*STATE_INPUTS, UNUSED],
    outputs=[blob("H", like="H_prev"), blob("C", like="C_prev")],
    args=LSTM_UNIT_ARGS,
    effects=Effects.PURE,
    source="Hochreiter, Schmidhuber 1997; Gers, Schmidhuber, Cummins 2000",
    example="""
    >>> H, C = run("LSTMUnit", [[[0.0]]], [[[2.0]]], [[[0.0, 0.0, 0.0, 0.0]]], [1], [0], outputs=2)
    >>> H.round(3), C
    (array([[[0.381]]], dtype=float32), array([[[1.]]], dtype=float32))
    """,
)


@LSTM_UNIT.name_inputs
def lstm_unit_inputs(op: OpView, count: int) -> tuple[str, ...]:
    if op.sequence_lengths:
        return ("H_prev", "C_prev", "gates", "seq_lengths", "timestep", "unused")[:count]
    return ("H_prev", "C_prev", "gates", "timestep", "unused", "unused")[:count]


@LSTM_UNIT.infer
def lstm_unit_infer(
    op: OpView,
    H_prev: TensorSpec,
    C_prev: TensorSpec,
    gates: TensorSpec,
    seq_lengths: TensorSpec | None,
    timestep: TensorSpec,
    unused: TensorSpec | None,
) -> tuple[TensorSpec, TensorSpec]:
    del unused
    check_step(op, H_prev, seq_lengths, timestep)
    check_gates(op, gates, H_prev, 4)
    return TensorSpec(H_prev.dims, H_prev.dtype), TensorSpec(C_prev.dims, C_prev.dtype)


@LSTM_UNIT.validate
def lstm_unit_validate(op: OpView) -> None:
    require_timestep(op)


@LSTM_UNIT.cost
def lstm_unit_cost(
    op: OpView,
    H_prev: TensorSpec,
    C_prev: TensorSpec,
    gates: TensorSpec,
    seq_lengths: TensorSpec | None,
    timestep: TensorSpec,
    unused: TensorSpec | None,
    H: TensorSpec,
    C: TensorSpec,
) -> Cost:
    del op, seq_lengths, timestep, unused
    return Cost(FLOPS * H.size, H_prev.nbytes + C_prev.nbytes + gates.nbytes, H.nbytes + C.nbytes)


@LSTM_UNIT.gradient
def lstm_unit_gradient(g: GradientRequest) -> list[OperatorDef]:
    lengths = [g.seq_lengths] if g.op.sequence_lengths else []
    inputs = [g.H_prev, g.C_prev, g.gates, *lengths, g.timestep, g.H, g.C, g.dH, g.dC]
    return g.emit("LSTMUnitGradient", inputs, [g.dH_prev, g.dC_prev, g.dgates])


@kernel(LSTM_UNIT)
def lstm_unit(
    op: OpView,
    H_prev: Array,
    C_prev: Array,
    gates: Array,
    seq_lengths: Array | None,
    timestep: Array,
    H: Array,
    C: Array,
) -> None:
    i, f, o, g = activated(op, gates)
    on = goes_on(seq_lengths, timestep)
    c = f * C_prev + i * g
    C[...] = np.where(on, c, 0 if op.drop_states else C_prev)
    H[...] = np.where(on, o * np.tanh(c), 0 if op.drop_states else H_prev)


def activated(op: OpView, gates: Array) -> tuple[Array, Array, Array, Array]:
    """Return i, f, o, g."""
    i, f, o, g = np.split(gates, 4, axis=2)
    return sigmoid(i), sigmoid(f + gates.dtype.type(op.forget_bias)), sigmoid(o), np.tanh(g)


LSTM_UNIT_GRADIENT = schema(
    "LSTMUnitGradient",
    """With T = tanh(C) and e = dC + dH * o * (1 - T^2), where the step is within the sequence:

    dC_prev = e * f, dH_prev = 0, and the four quarters of dgates are e * g * i * (1 - i), e * C_prev * f * (1 - f),
    dH * T * o * (1 - o) and e * i * (1 - g^2). Elsewhere dgates = 0, dC_prev = dC and dH_prev = dH, or 0 with
    `drop_states`.""",
    inputs=[
        blob("H_prev", None, "1 N D", doc="of any type: only its shape counts"),
        blob("C_prev", FLOAT, "1 N D"),
        blob("gates", "C_prev", "1 N G"),
        *STEP_INPUTS,
        *(blob(letter, "C_prev", "1 N D") for letter in ("H", "C", "dH", "dC")),
    ],
    outputs=[blob("dH_prev", like="C_prev"), blob("dC_prev", like="C_prev"), blob("dgates", like="gates")],
    args=LSTM_UNIT_ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> state, gates = [[[1.0]]], [[[0.0, 0.0, 0.0, 0.0]]]
    >>> run("LSTMUnitGradient", state, state, gates, [1], [0], [[[0.0]]], [[[0.0]]], [[[4.0]]], [[[0.0]]], outputs=3)[1]
    array([[[1.]]], dtype=float32)
    """,
)


@LSTM_UNIT_GRADIENT.name_inputs
def lstm_unit_gradient_inputs(op: OpView, count: int) -> tuple[str, ...]:
    lengths = ("seq_lengths",) if op.sequence_lengths else ()
    return ("H_prev", "C_prev", "gates", *lengths, "timestep", "H", "C", "dH", "dC")[:count]


@LSTM_UNIT_GRADIENT.validate
def lstm_unit_gradient_validate(op: OpView) -> None:
    wanted = 9 if op.sequence_lengths else 8
    count = len(op.definition.input)
    if count != wanted:
        raise op.error(SchemaError, f"{count} inputs, with sequence_lengths = {op.sequence_lengths} it takes {wanted}")


@LSTM_UNIT_GRADIENT.infer
def lstm_unit_gradient_infer(
    op: OpView,
    H_prev: TensorSpec,
    C_prev: TensorSpec,
    gates: TensorSpec,
    seq_lengths: TensorSpec | None,
    timestep: TensorSpec,
    H: TensorSpec,
    C: TensorSpec,
    dH: TensorSpec,
    dC: TensorSpec,
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    del H, C, dH, dC
    check_step(op, H_prev, seq_lengths, timestep)
    check_gates(op, gates, H_prev, 4)
    return (
        TensorSpec(H_prev.dims, C_prev.dtype),
        TensorSpec(C_prev.dims, C_prev.dtype),
        TensorSpec(gates.dims, gates.dtype),
    )


@LSTM_UNIT_GRADIENT.cost
def lstm_unit_gradient_cost(
    op: OpView,
    H_prev: TensorSpec,
    C_prev: TensorSpec,
    gates: TensorSpec,
    seq_lengths: TensorSpec | None,
    timestep: TensorSpec,
    H: TensorSpec,
    C: TensorSpec,
    dH: TensorSpec,
    dC: TensorSpec,
    dH_prev: TensorSpec,
    dC_prev: TensorSpec,
    dgates: TensorSpec,
) -> Cost:
    del op, H_prev, seq_lengths, timestep, H
    read = gates.nbytes + C_prev.nbytes + C.nbytes + dH.nbytes + dC.nbytes
    return Cost(FLOPS * C.size, read, dH_prev.nbytes + dC_prev.nbytes + dgates.nbytes)


@kernel(LSTM_UNIT_GRADIENT)
def lstm_unit_gradient_kernel(
    op: OpView,
    C_prev: Array,
    gates: Array,
    seq_lengths: Array | None,
    timestep: Array,
    C: Array,
    dH: Array,
    dC: Array,
    dH_prev: Array,
    dC_prev: Array,
    dgates: Array,
) -> None:
    i, f, o, g = activated(op, gates)
    on, T = goes_on(seq_lengths, timestep), np.tanh(C)
    e = dC + dH * o * (1 - T * T)
    quarters = e * g * i * (1 - i), e * C_prev * f * (1 - f), dH * T * o * (1 - o), e * i * (1 - g * g)
    dgates[...] = np.where(on, np.concatenate(quarters, axis=2), 0)
    dC_prev[...] = np.where(on, e * f, 0 if op.drop_states else dC)
    dH_prev[...] = np.where(on, 0, 0 if op.drop_states else dH)


GATES = ("i", "f", "o", "g")
UNIT = Unit(
    GATES,
    {"C": "sigmoid(f + bias) * C_prev + sigmoid(i) * tanh(g)", "H": "sigmoid(o) * tanh(C)"},
    ("H_prev", "C_prev"),
    {"H": "H_prev", "C": "C_prev"},
)
SLOPES = Unit(
    GATES,
    {
        **{"si": "sigmoid(i)", "sf": "sigmoid(f + bias)", "so": "sigmoid(o)", "tg": "tanh(g)", "T": "tanh(C)"},
        "e": "dC + dH * so * (1 - T * T)",
        "dC_prev": "e * sf",
        "dH_prev": "0",
        "di": "e * tg * si * (1 - si)",
        "df": "e * C_prev * sf * (1 - sf)",
        "do": "dH * T * so * (1 - so)",
        "dg": "e * si * (1 - tg * tg)",
    },
    ("C", "dH", "dC", "C_prev"),
    {"dH_prev": "dH", "dC_prev": "dC"},
)
LSTM_UNITS = (LSTM_UNIT, UNIT), (LSTM_UNIT_GRADIENT, SLOPES)
"""What engines write kernels from."""
