"""Recurrent layers as old programs build them: cells, and functions that run one, or several, over a sequence.

Letters: T steps, N sequences, D elements of an input, H of a state: sequences are (T, N, D), states (1, N, H).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from caffe2.python import workspace
from caffe2.python._recurrent_attention import AttentionCell, LSTMWithAttentionCell, MILSTMWithAttentionCell
from caffe2.python._recurrent_cell import LSTMInitializer, RNNCell
from caffe2.python._recurrent_stack import DropoutCell, MultiRNNCell, MultiRNNCellInitializer, UnrolledCell
from caffe2.python._recurrent_units import BasicRNNCell, LayerNormLSTMCell, LayerNormMILSTMCell, LSTMCell, MILSTMCell
from caffe2.python._refusal import refuses
from caffe2.python.attention import AttentionType

__all__ = [
    "LSTM",
    "MILSTM",
    "AttentionCell",
    "BasicRNN",
    "BasicRNNCell",
    "DropoutCell",
    "GetLSTMParamNames",
    "InitFromLSTMParams",
    "LSTMCell",
    "LSTMInitializer",
    "LSTMWithAttention",
    "LSTMWithAttentionCell",
    "LayerNormLSTM",
    "LayerNormLSTMCell",
    "LayerNormMILSTM",
    "LayerNormMILSTMCell",
    "MILSTMCell",
    "MILSTMWithAttentionCell",
    "MultiRNNCell",
    "MultiRNNCellInitializer",
    "RNNCell",
    "UnrolledCell",
    "cudnn_LSTM",
    "layered_LSTM",
]

OUTPUTS = 4
"""Of each layer: all h, the last h, all c, the last c."""


def _LSTM(
    cell_class: Callable[..., Any],
    model: Any,
    input_blob: Any,
    seq_lengths: Any,
    initial_states: Any,
    dim_in: int,
    dim_out: int | Sequence[int],
    scope: str | None = None,
    outputs_with_grads: Sequence[int] = (0,),
    return_params: bool = False,
    memory_optimization: bool = False,
    forget_bias: float = 0.0,
    forward_only: bool = False,
    drop_states: bool = False,
    return_last_layer_only: bool = True,
    static_rnn_unroll_size: int | None = None,
    **cell_kwargs: Any,
) -> tuple[Any, ...]:
    """Add layers of recurrent cells over a sequence; return all h, the last h, all c, the last c of the last layer.

    Args:
        cell_class: `LSTMCell`, or a class of the same manner.
        model: gets them.
        input_blob: (T, N, D).
        seq_lengths: int32 (N): how many steps each sequence has; None: all have T.
        initial_states: h and c of each layer in turn; parameters if None.
        dim_in: D.
        dim_out: H, or that of each layer.
        scope: what all names begin with.
        outputs_with_grads: which outputs of the last layer get gradients from outside.
        return_params: return the names of the parameters too.
        memory_optimization: make gates again in the backward pass.
        forget_bias: added to the gate of forgetting.
        forward_only: there is no backward pass.
        drop_states: states of a sequence that has ended are 0.
        return_last_layer_only: else the outputs of all layers.
        static_rnn_unroll_size: T, to have all steps in the net itself.
        **cell_kwargs: of the cell.
    """
    sizes = list(dim_out) if isinstance(dim_out, list | tuple) else [dim_out]
    last = len(sizes) - 1
    cells = [
        cell_class(
            input_size=given,
            hidden_size=size,
            forget_bias=forget_bias,
            memory_optimization=memory_optimization,
            name=None if last else scope,
            forward_only=forward_only,
            drop_states=drop_states,
            **cell_kwargs,
        )
        for given, size in zip([dim_in, *sizes], sizes, strict=False)
    ]
    cell: Any = MultiRNNCell(cells, name=scope, forward_only=forward_only) if last else cells[0]
    if static_rnn_unroll_size is not None:
        cell = UnrolledCell(cell, static_rnn_unroll_size)
    _, result = cell.apply_over_sequence(
        model=model,
        inputs=input_blob,
        seq_lengths=seq_lengths,
        initial_states=initial_states,
        outputs_with_grads=[OUTPUTS * last + i for i in outputs_with_grads],
    )
    found = list(result[OUTPUTS * last :] if return_last_layer_only else result)
    if return_params:
        found.append({"input": cell.get_input_params(), "recurrent": cell.get_recurrent_params()})
    return tuple(found)


LSTM = functools.partial(_LSTM, LSTMCell)
BasicRNN = functools.partial(_LSTM, BasicRNNCell)
MILSTM = functools.partial(_LSTM, MILSTMCell)
LayerNormLSTM = functools.partial(_LSTM, LayerNormLSTMCell)
LayerNormMILSTM = functools.partial(_LSTM, LayerNormMILSTMCell)


def GetLSTMParamNames() -> dict[str, list[str]]:
    """Return what the parts of an LSTM's weights and biases are called, in their order.

    >>> GetLSTMParamNames()["biases"]
    ['input_gate_b', 'forget_gate_b', 'output_gate_b', 'cell_b']
    """
    gates = ("input_gate", "forget_gate", "output_gate", "cell")
    return {kind: [f"{gate}_{kind[0]}" for gate in gates] for kind in ("weights", "biases")}


def InitFromLSTMParams(lstm_pblobs: Mapping[str, Any], param_values: Mapping[str, Mapping[str, Any]]) -> None:
    """Feed an LSTM's parameters with their parts.

    Args:
        lstm_pblobs: what `return_params` gave: "input" and "recurrent" -> "weights" and "biases" -> blob.
        param_values: "input" and "recurrent" -> name of a part (`GetLSTMParamNames`) -> its values.
    """
    for given, parts in param_values.items():
        for kind, names in GetLSTMParamNames().items():
            blob = lstm_pblobs[given][kind]
            joined = np.concatenate([np.asarray(parts[name]).reshape(-1) for name in names])
            workspace.FeedBlob(blob, joined.reshape(workspace.FetchBlob(blob).shape).astype(np.float32))


@refuses("it is made of operators that Caffe2 had for GPUs alone", "take LSTM")
def cudnn_LSTM(
    model: Any,
    input_blob: Any,
    initial_states: Any,
    dim_in: int,
    dim_out: int,
    scope: str,
    recurrent_params: Any = None,
    input_params: Any = None,
    num_layers: int = 1,
    return_params: bool = False,
) -> Any:
    """Refuse: its operators are those of one vendor's GPUs.

    Raises:
        UnavailableError: always.
    """


def LSTMWithAttention(
    model: Any,
    decoder_inputs: Any,
    decoder_input_lengths: Any,
    initial_decoder_hidden_state: Any,
    initial_decoder_cell_state: Any,
    initial_attention_weighted_encoder_context: Any,
    encoder_output_dim: int,
    encoder_outputs: Any,
    encoder_lengths: Any,
    decoder_input_dim: int,
    decoder_state_dim: int,
    scope: str,
    attention_type: int = AttentionType.Regular,
    outputs_with_grads: Sequence[int] = (0, 4),
    weighted_encoder_outputs: Any = None,
    lstm_memory_optimization: bool = False,
    attention_memory_optimization: bool = False,
    forget_bias: float = 0.0,
    forward_only: bool = False,
) -> Any:
    """Add an LSTM that attends to what an encoder left; return of each state all values, and the last one.

    The states are h, c and the context, with the coverage behind them if that kind of attention is asked for. Arguments
    are those of `LSTMWithAttentionCell`, blobs that states start from, and those of `LSTM`.
    """
    cell = LSTMWithAttentionCell(
        encoder_output_dim=encoder_output_dim,
        encoder_outputs=encoder_outputs,
        encoder_lengths=encoder_lengths,
        decoder_input_dim=decoder_input_dim,
        decoder_state_dim=decoder_state_dim,
        name=scope,
        attention_type=attention_type,
        weighted_encoder_outputs=weighted_encoder_outputs,
        forget_bias=forget_bias,
        lstm_memory_optimization=lstm_memory_optimization,
        attention_memory_optimization=attention_memory_optimization,
        forward_only=forward_only,
    )
    states = [initial_decoder_hidden_state, initial_decoder_cell_state, initial_attention_weighted_encoder_context]
    if attention_type == AttentionType.SoftCoverage:
        states.append(cell.build_initial_coverage(model))
    return cell.apply_over_sequence(
        model=model,
        inputs=decoder_inputs,
        seq_lengths=decoder_input_lengths,
        initial_states=states,
        outputs_with_grads=outputs_with_grads,
    )[1]


def _layered_LSTM(
    model: Any,
    input_blob: Any,
    seq_lengths: Any,
    initial_states: Any,
    dim_in: int,
    dim_out: int | list[int],
    scope: str,
    outputs_with_grads: Sequence[int] = (0,),
    return_params: bool = False,
    memory_optimization: bool = False,
    forget_bias: float = 0.0,
    forward_only: bool = False,
    drop_states: bool = False,
    create_lstm: Any = None,
) -> tuple[Any, ...]:
    """Add LSTMs, each an operator of its own, that starts from the last states of the one before."""
    sizes = dim_out if isinstance(dim_out, list) else [dim_out]
    assert sizes, "dim_out list can't be empty"
    assert len(sizes) == 1 or not return_params, "return_params not supported for layering"
    given: dict[str, Any] = {
        "seq_lengths": seq_lengths,
        "outputs_with_grads": outputs_with_grads,
        "return_params": return_params,
        "memory_optimization": memory_optimization,
        "forget_bias": forget_bias,
        "forward_only": forward_only,
        "drop_states": drop_states,
    }
    found: tuple[Any, ...] = ()
    name, states = scope, initial_states
    for i, size in enumerate(sizes, 1):
        found = create_lstm(
            model=model, input_blob=input_blob, initial_states=states, dim_in=dim_in, dim_out=size, scope=name, **given
        )
        input_blob, dim_in, states, name = found[0], size, (found[1], found[3]), f"{scope}_layer_{i}"
    return found


layered_LSTM = functools.partial(_layered_LSTM, create_lstm=LSTM)
