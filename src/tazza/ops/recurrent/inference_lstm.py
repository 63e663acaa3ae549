"""A whole stack of LSTM layers as it is run, without a gradient: InferenceLSTM.

Letters: T steps of B sequences with F features, H hidden units, L layers of D = 1 or 2 directions.

    X (T, B, F), or (B, T, F) with `batch_first`    hidden, cell (L*D, B, H)    Y as X, with D*H features
    W: of each layer, and each direction of it, the weights of what comes in (4H, F or D*H) and of the hidden units
       (4H, H), and with `has_biases` their biases (4H) and (4H); gates stand in the order in, forget, cell, out

Source: PyTorch, torch.nn.LSTM, whose parameters these are.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import SchemaError
from tazza.operator import FLOAT, Array, Cost, Effects, OpView, Role, arg, blob, ends, kernel, schema, show_dims
from tazza.ops.recurrent.step_unit import sigmoid
from tazza.ops.shape.axis import shapes_agree
from tazza.tensor import TensorSpec

INFERENCE_LSTM = schema(
    "InferenceLSTM",
    """Y = the hidden units of the last layer at each step; hidden_last and cell_last = those of all layers at the last.

    The second direction of a layer goes from the last step to the first.""",
    inputs=[
        blob("X", FLOAT),
        blob("hidden", "X", "S B H", role=Role.DATA),
        blob("cell", "X", "S B H", role=Role.DATA),
        blob("W", "X", variadic=True, role=Role.PARAMETER, doc="see the module"),
    ],
    outputs=[blob("Y", "X"), blob("hidden_last", like="hidden"), blob("cell_last", like="cell")],
    args=[
        arg("num_layers", int, 1, minimum=1, doc="L"),
        arg("has_biases", bool, True, doc="whether there are biases"),
        arg("batch_first", bool, False, doc="whether X and Y have the sequences first"),
        arg("bidirectional", bool, False, doc="whether each layer goes in both directions"),
    ],
    effects=Effects.PURE,
    no_gradient=ends("it is made for running alone"),
    source="Caffe2; PyTorch, torch.nn.LSTM",
    example="""
    >>> zeros = np.zeros((1, 1, 2), np.float32)
    >>> W = np.zeros((8, 3), np.float32), np.zeros((8, 2), np.float32)
    >>> run("InferenceLSTM", np.ones((4, 1, 3), np.float32), zeros, zeros, *W, outputs=3, has_biases=0)[0].shape
    (4, 1, 2)
    """,
)


def directions(op: OpView) -> int:
    """Return D."""
    return 2 if op.bidirectional else 1


@INFERENCE_LSTM.validate
def inference_lstm_validate(op: OpView) -> None:
    each = 4 if op.has_biases else 2
    wanted, given = op.num_layers * directions(op) * each, op.input_letters.count("W")
    if given != wanted:
        relation = f"{given} parameters for {op.num_layers} layers of {directions(op)} directions, which have {wanted}"
        raise op.error(SchemaError, relation, f"each has {each}")


@INFERENCE_LSTM.infer
def inference_lstm_infer(
    op: OpView, X: TensorSpec, hidden: TensorSpec, cell: TensorSpec, W: tuple[TensorSpec, ...]
) -> tuple[TensorSpec, ...]:
    if X.dims is None or hidden.dims is None:
        return TensorSpec(None, X.dtype), hidden, cell
    op.require(len(X.dims) == 3, f"X has the shape {show_dims(X.dims)}, it must have 3 dimensions")
    D, (states, B, H) = directions(op), hidden.dims
    S, features = op.num_layers * D, X.dims[2]
    sequences = X.dims[0 if op.batch_first else 1]
    op.require(states in (None, S), f"hidden has {states} states for {op.num_layers} layers of {D} directions")
    op.require(None in (B, sequences) or B == sequences, f"hidden is of {B} sequences, X of {sequences}")
    width = None if H is None else 4 * H
    for place, one in enumerate(W):
        each = 4 if op.has_biases else 2
        layer, part = place // (D * each), place % each
        comes_in = features if layer == 0 else None if H is None else D * H
        wanted = (width,) if part > 1 else (width, H if part else comes_in)
        if one.dims is not None:
            relation = f"parameter {place} has the shape {show_dims(one.dims)}, it must have {show_dims(wanted)}"
            op.require(shapes_agree(one.dims, wanted), relation)
    return TensorSpec((*X.dims[:2], None if H is None else D * H), X.dtype), hidden, cell


@INFERENCE_LSTM.cost
def inference_lstm_cost(
    op: OpView,
    X: TensorSpec,
    hidden: TensorSpec,
    cell: TensorSpec,
    W: tuple[TensorSpec, ...],
    Y: TensorSpec,
    hidden_last: TensorSpec,
    cell_last: TensorSpec,
) -> Cost:
    del op
    T_B, parameters = X.shape[0] * X.shape[1], sum(one.size for one in W)
    states = hidden.nbytes + cell.nbytes
    bytes_read = X.nbytes + states + sum(one.nbytes for one in W)
    return Cost(2 * T_B * parameters, bytes_read, Y.nbytes + hidden_last.nbytes + cell_last.nbytes)


@kernel(INFERENCE_LSTM)
def inference_lstm(
    op: OpView,
    X: Array,
    hidden: Array,
    cell: Array,
    W: tuple[Array, ...],
    Y: Array,
    hidden_last: Array,
    cell_last: Array,
) -> None:
    each, D = 4 if op.has_biases else 2, directions(op)
    goes = X.swapaxes(0, 1) if op.batch_first else X  # (T, B, F), and (T, B, D*H) behind the first layer
    for layer in range(op.num_layers):
        sides: list[Array] = []
        for state in range(layer * D, layer * D + D):
            w_in, w_hidden, *biases = W[state * each : state * each + each]
            gates = goes @ w_in.T + sum(biases, np.zeros((), X.dtype))  # (T, B, 4H)
            h, c = hidden[state], cell[state]
            side = np.empty((*gates.shape[:2], h.shape[-1]), X.dtype)
            steps = range(len(gates))
            for t in reversed(steps) if state % D else steps:
                i, f, g, o = np.split(gates[t] + h @ w_hidden.T, 4, axis=1)
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                h = side[t] = sigmoid(o) * np.tanh(c)
            hidden_last[state], cell_last[state] = h, c
            sides.append(side)
        goes = np.concatenate(sides, axis=2)
    Y[...] = goes.swapaxes(0, 1) if op.batch_first else goes
