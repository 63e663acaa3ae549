"""FusedLSTMUnit: what an LSTM does in a step, the product and the unit of it. RecurrentNetwork makes it of a step net.

Letters as in `ops.recurrent.lstm_unit`, K inner size of X:

    X (1, N, K...)    W (4 D, K...)    b (4 D)    rows, gates (1, N, 4 D)    H_prev, C_prev, H, C (1, N, D)

X is H_prev, but where a cell looks at something beside it.
"""

from __future__ import annotations

import math

from tazza.operator import FLOAT, Array, Cost, Effects, OpView, Role, blob, kernel, schema, show_dims
from tazza.ops.nn.fused import NO_GRADIENT
from tazza.ops.recurrent.lstm_unit import LSTM_UNIT_ARGS, lstm_unit, lstm_unit_cost
from tazza.ops.recurrent.step_unit import STEP_INPUTS, check_gates, check_step, require_timestep
from tazza.ops.shape.axis import agree
from tazza.tensor import TensorSpec

FUSED_LSTM_UNIT = schema(
    "FusedLSTMUnit",
    """gates = X W^T + b + rows; H and C are those that LSTMUnit gives for them.

    They overwrite nothing: other units read H_prev for as long as they are computed.""",
    inputs=[
        blob("X", FLOAT, "1 N *K"),
        blob("W", "X", "G *J", role=Role.PARAMETER, doc="G = 4 D; J and K have one product"),
        blob("b", "X", "G", role=Role.PARAMETER),
        blob("rows", "X", "1 N G", role=Role.DATA, doc="what a step adds, such as the product of its input"),
        blob("H_prev", "X", "1 N D", role=Role.DATA),
        blob("C_prev", "X", "1 N D", role=Role.DATA),
        *STEP_INPUTS,
    ],
    outputs=[blob("gates", like="rows"), blob("H", like="H_prev"), blob("C", like="C_prev")],
    args=LSTM_UNIT_ARGS,
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="tazza",
    example="""
    >>> H, W, none = [[[1.0]]], [[0.0], [0.0], [0.0], [0.0]], [0.0, 0.0, 0.0, 0.0]
    >>> gates, H, C = run("FusedLSTMUnit", H, W, none, [[none]], H, [[[2.0]]], [1], [0], outputs=3)
    >>> H.round(3), C
    (array([[[0.381]]], dtype=float32), array([[[1.]]], dtype=float32))
    """,
)


@FUSED_LSTM_UNIT.name_inputs
def fused_lstm_unit_inputs(op: OpView, count: int) -> tuple[str, ...]:
    lengths = ("seq_lengths",) if op.sequence_lengths else ()
    return ("X", "W", "b", "rows", "H_prev", "C_prev", *lengths, "timestep")[:count]


@FUSED_LSTM_UNIT.validate
def fused_lstm_unit_validate(op: OpView) -> None:
    require_timestep(op)


@FUSED_LSTM_UNIT.infer
def fused_lstm_unit_infer(
    op: OpView,
    X: TensorSpec,
    W: TensorSpec,
    b: TensorSpec,
    rows: TensorSpec,
    H_prev: TensorSpec,
    C_prev: TensorSpec,
    seq_lengths: TensorSpec | None,
    timestep: TensorSpec,
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    check_step(op, H_prev, seq_lengths, timestep)
    check_gates(op, rows, H_prev, 4)
    if X.shape_known and W.shape_known:
        K, taken = math.prod(X.shape[2:]), math.prod(W.shape[1:])
        op.require(agree(K, taken), f"X {show_dims(X.shape)} has K = {K}, W {show_dims(W.shape)} takes {taken}")
    del b
    return (
        TensorSpec(rows.dims, rows.dtype),
        TensorSpec(H_prev.dims, H_prev.dtype),
        TensorSpec(C_prev.dims, C_prev.dtype),
    )


@FUSED_LSTM_UNIT.cost
def fused_lstm_unit_cost(
    op: OpView,
    X: TensorSpec,
    W: TensorSpec,
    b: TensorSpec,
    rows: TensorSpec,
    H_prev: TensorSpec,
    C_prev: TensorSpec,
    seq_lengths: TensorSpec | None,
    timestep: TensorSpec,
    gates: TensorSpec,
    H: TensorSpec,
    C: TensorSpec,
) -> Cost:
    unit = lstm_unit_cost(op, H_prev, C_prev, gates, seq_lengths, timestep, None, H, C)
    parameters = W.nbytes + b.nbytes
    flops = unit.flops + 2 * gates.size * (W.size // max(b.size, 1) + 1)
    written = unit.bytes_written + gates.nbytes
    return Cost(flops, X.nbytes + parameters + rows.nbytes + unit.bytes_read - gates.nbytes, written, parameters)


@kernel(FUSED_LSTM_UNIT)
def fused_lstm_unit(
    op: OpView,
    X: Array,
    W: Array,
    b: Array,
    rows: Array,
    H_prev: Array,
    C_prev: Array,
    seq_lengths: Array | None,
    timestep: Array,
    gates: Array,
    H: Array,
    C: Array,
) -> None:
    K = math.prod(W.shape[1:])
    gates[...] = X.reshape(-1, K) @ W.reshape(-1, K).T + b + rows if K else b + rows
    lstm_unit(op, H_prev, C_prev, gates, seq_lengths, timestep, H, C)
