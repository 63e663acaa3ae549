"""What the parts of nets from sequences to sequences have in common: their cells, and what becomes of their outputs."""

from __future__ import annotations

from typing import Any

from caffe2.python import rnn_cell


def lstm_cell(input_size: int, num_units: int, forward_only: bool, name: str | None = None) -> Any:
    """Return a cell that keeps its gates for the backward pass."""
    return rnn_cell.LSTMCell(
        input_size=input_size,
        hidden_size=num_units,
        forget_bias=0.0,
        memory_optimization=False,
        name=name,
        forward_only=forward_only,
    )


def dropped(cell: Any, keep: float | None, forward_only: bool, name: str) -> Any:
    """Return a cell with dropout behind it, unless all of its elements are kept."""
    if keep is None:
        return cell
    return rnn_cell.DropoutCell(
        internal_cell=cell, dropout_ratio=1.0 - keep, name=name, forward_only=forward_only, is_test=False
    )


def flat_outputs(model: Any, outputs: Any, size: int) -> Any:
    """Add outputs of a decoder as rows."""
    names = ["decoder_outputs_flattened", "decoder_outputs_and_contexts_combination_old_shape"]
    return model.net.Reshape([outputs], names, shape=[-1, size])[0]
