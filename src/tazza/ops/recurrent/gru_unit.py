"""The pointwise part of a gated recurrent unit: GRUUnit.

Letters: N sequences, D units. The products of a step, and what its gate of reset lets through, are done before it:

    H_prev, H (1, N, D)    gates (1, N, 3 D): of reset, which is not read, of update, of the output

A sequence that has ended keeps its state, or drops it to 0 (`step_unit`).
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

FLOPS = 35
"""About so many for each unit: three functions with exp, and what joins them."""

GRU_UNIT_ARGS = (arg("forget_bias", float, 0.0, doc="no effect: there is no gate of forgetting"), *STEP_ARGS)

GRU_UNIT = schema(
    "GRUUnit",
    """H = u * H_prev + (1 - u) * tanh(o), where the step is within the sequence.

    u is the sigmoid of the second third of the gates, o their third third. Elsewhere H = H_prev, or 0 with
    `drop_states`.""",
    inputs=[
        blob("H_prev", FLOAT, "1 N D"),
        blob("gates", "H_prev", "1 N G", role=Role.DATA, doc="G = 3 D"),
        *STEP_INPUTS,
        UNUSED,
    ],
    outputs=[blob("H", like="H_prev")],
    args=GRU_UNIT_ARGS,
    effects=Effects.PURE,
    source="Cho et al. 2014, arXiv 1406.1078",
    example="""
    >>> run("GRUUnit", [[[2.0]]], [[[0.0, 0.0, 0.0]]], [1], [0])
    array([[[1.]]], dtype=float32)
    """,
)


@GRU_UNIT.name_inputs
def gru_unit_inputs(op: OpView, count: int) -> tuple[str, ...]:
    if op.sequence_lengths:
        return ("H_prev", "gates", "seq_lengths", "timestep", "unused")[:count]
    return ("H_prev", "gates", "timestep", "unused", "unused")[:count]


@GRU_UNIT.validate
def gru_unit_validate(op: OpView) -> None:
    require_timestep(op)
    if len(op.definition.input) > 4:
        raise op.error(SchemaError, f"{len(op.definition.input)} inputs, it takes 3 or 4")


@GRU_UNIT.infer
def gru_unit_infer(
    op: OpView,
    H_prev: TensorSpec,
    gates: TensorSpec,
    seq_lengths: TensorSpec | None,
    timestep: TensorSpec,
    unused: TensorSpec | None,
) -> TensorSpec:
    del unused
    check_step(op, H_prev, seq_lengths, timestep)
    check_gates(op, gates, H_prev, 3)
    return TensorSpec(H_prev.dims, H_prev.dtype)


@GRU_UNIT.cost
def gru_unit_cost(op: OpView, H_prev: TensorSpec, gates: TensorSpec, **others: TensorSpec | None) -> Cost:
    del op, others
    return Cost(FLOPS * H_prev.size, H_prev.nbytes + 2 * gates.nbytes // 3, H_prev.nbytes)


@GRU_UNIT.gradient
def gru_unit_gradient(g: GradientRequest) -> list[OperatorDef]:
    lengths = [g.seq_lengths] if g.op.sequence_lengths else []
    return g.emit("GRUUnitGradient", [g.H_prev, g.gates, *lengths, g.timestep, g.H, g.dH], [g.dH_prev, g.dgates])


@kernel(GRU_UNIT)
def gru_unit(op: OpView, H_prev: Array, gates: Array, seq_lengths: Array | None, timestep: Array, H: Array) -> None:
    _, update, output = np.split(gates, 3, axis=2)
    u = sigmoid(update)
    new = u * H_prev + (1 - u) * np.tanh(output)
    H[...] = np.where(goes_on(seq_lengths, timestep), new, 0 if op.drop_states else H_prev)


GRU_UNIT_GRADIENT = schema(
    "GRUUnitGradient",
    """With T = tanh(o), where the step is within the sequence:

    dH_prev = dH * u, and the three thirds of dgates are 0, dH * (H_prev - T) * u * (1 - u) and
    dH * (1 - u) * (1 - T^2). Elsewhere dgates = 0 and dH_prev = dH, or 0 with `drop_states`.""",
    inputs=[
        blob("H_prev", FLOAT, "1 N D"),
        blob("gates", "H_prev", "1 N G", role=Role.DATA),
        *STEP_INPUTS,
        blob("H", "H_prev", "1 N D", role=Role.SHAPE, doc="its numbers are not read"),
        blob("dH", "H_prev", "1 N D", role=Role.DATA),
    ],
    outputs=[blob("dH_prev", like="H_prev"), blob("dgates", like="gates")],
    args=GRU_UNIT_ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> state, gates = [[[1.0]]], [[[0.0, 0.0, 0.0]]]
    >>> dH_prev, dgates = run("GRUUnitGradient", state, gates, [1], [0], [[[0.5]]], [[[4.0]]], outputs=2)
    >>> dH_prev, dgates
    (array([[[2.]]], dtype=float32), array([[[0., 1., 2.]]], dtype=float32))
    """,
)


@GRU_UNIT_GRADIENT.name_inputs
def gru_unit_gradient_inputs(op: OpView, count: int) -> tuple[str, ...]:
    lengths = ("seq_lengths",) if op.sequence_lengths else ()
    return ("H_prev", "gates", *lengths, "timestep", "H", "dH")[:count]


@GRU_UNIT_GRADIENT.validate
def gru_unit_gradient_validate(op: OpView) -> None:
    wanted, count = 6 if op.sequence_lengths else 5, len(op.definition.input)
    if count != wanted:
        raise op.error(SchemaError, f"{count} inputs, with sequence_lengths = {op.sequence_lengths} it takes {wanted}")


@GRU_UNIT_GRADIENT.infer
def gru_unit_gradient_infer(
    op: OpView,
    H_prev: TensorSpec,
    gates: TensorSpec,
    seq_lengths: TensorSpec | None,
    timestep: TensorSpec,
    H: TensorSpec,
    dH: TensorSpec,
) -> tuple[TensorSpec, TensorSpec]:
    del H, dH
    check_step(op, H_prev, seq_lengths, timestep)
    check_gates(op, gates, H_prev, 3)
    return TensorSpec(H_prev.dims, H_prev.dtype), TensorSpec(gates.dims, gates.dtype)


@GRU_UNIT_GRADIENT.cost
def gru_unit_gradient_cost(op: OpView, gates: TensorSpec, dH: TensorSpec, **others: TensorSpec | None) -> Cost:
    del op, others
    return Cost(FLOPS * dH.size, 2 * gates.nbytes // 3 + 2 * dH.nbytes, gates.nbytes + dH.nbytes)


@kernel(GRU_UNIT_GRADIENT)
def gru_unit_gradient_kernel(
    op: OpView,
    H_prev: Array,
    gates: Array,
    seq_lengths: Array | None,
    timestep: Array,
    dH: Array,
    dH_prev: Array,
    dgates: Array,
) -> None:
    _, update, output = np.split(gates, 3, axis=2)
    u, T, on = sigmoid(update), np.tanh(output), goes_on(seq_lengths, timestep)
    thirds = np.zeros_like(u), dH * (H_prev - T) * u * (1 - u), dH * (1 - u) * (1 - T * T)
    dgates[...] = np.where(on, np.concatenate(thirds, axis=2), 0)
    dH_prev[...] = np.where(on, dH * u, 0 if op.drop_states else dH)


GATES = ("r", "u", "o")
UNIT = Unit(
    GATES,
    {"s": "sigmoid(u)", "H": "s * H_prev + (1 - s) * tanh(o)"},
    ("H_prev",),
    {"H": "H_prev"},
)
SLOPES = Unit(
    GATES,
    {
        "s": "sigmoid(u)",
        "T": "tanh(o)",
        "dH_prev": "dH * s",
        "dr": "0",
        "du": "dH * (1 - s) * s * (H_prev - T)",
        "do": "dH * (1 - s) * (1 - T * T)",
    },
    ("dH", "H_prev"),
    {"dH_prev": "dH"},
)
GRU_UNITS = (GRU_UNIT, UNIT), (GRU_UNIT_GRADIENT, SLOPES)
"""What engines write kernels from."""
