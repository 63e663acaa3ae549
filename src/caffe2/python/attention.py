"""Attention of a decoder's step over what an encoder left, as a part of a recurrent cell.

Letters: L steps of the encoder, N sequences, E elements of what the encoder left, H of the decoder's state h.

    regular      e = v tanh(w + h A)             recurrent   e = v tanh(w + h A + c B), c the context before
    coverage     e = v tanh(w + h A + s U)       dot         e = s (h A), or s h where E = H
    weights      a = softmax(e) over L           context     c' = sum of a s over L

s (L, N, E) is what the encoder left, w a product of it; the coverage adds up all weights so far.

Sources: Bahdanau, Cho, Bengio: Neural machine translation by jointly learning to align and translate, 2015; Luong,
Pham, Manning: Effective approaches to attention-based neural machine translation, 2015; Tu et al.: Modeling coverage
for neural machine translation, 2016.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from caffe2.python import brew

Attended: TypeAlias = tuple[Any, Any, list[Any]]
"""The context (1, N, E), the weights (N, L, 1), and blobs that are better made again than kept."""


class AttentionType:
    """Which kind."""

    Regular, Recurrent, Dot, SoftCoverage = range(4)


def s(scope: Any, name: str) -> str:
    """Return a name below a scope."""
    return f"{scope}/{name}"


def _weights(model: Any, logits: Any, scope: Any, encoder_lengths: Any) -> Any:
    """Add weights (N, L, 1); steps behind the end of an encoder's sequence get none."""
    if encoder_lengths is not None:
        logits = model.net.SequenceMask([logits, encoder_lengths], ["masked_attention_logits"], mode="sequence")
    return brew.softmax(model, logits, s(scope, "attention_weights_3d"), engine="CUDNN", axis=1)


def _context(model: Any, transposed: Any, size: int, weights: Any, scope: Any) -> Any:
    """Add the context (1, N, E)."""
    context = brew.batch_mat_mul(model, [transposed, weights], s(scope, "attention_weighted_encoder_context"))
    shape = [context, s(scope, "attention_weighted_encoder_context_old_shape")]
    return model.net.Reshape(context, shape, shape=[1, -1, size])[0]


def _logits(model: Any, sums: Any, size: int, scope: Any) -> Any:
    """Add v tanh(sums), (N, L, 1)."""
    sums = model.net.Tanh(sums, sums)
    logits = brew.fc(model, sums, s(scope, "attention_logits"), dim_in=size, dim_out=1, axis=2, freeze_bias=True)
    return brew.transpose(model, logits, s(scope, "attention_logits_transposed"), axes=[1, 0, 2])


def _row(model: Any, blob: Any, dim_in: int, dim_out: int, name: str) -> Any:
    """Add a product of a state (1, N, dim_in), as (N, dim_out)."""
    product = brew.fc(model, blob, name, dim_in=dim_in, dim_out=dim_out, axis=2)
    return model.net.Squeeze(product, product, dims=[0])


def _attended(model: Any, logits: Any, transposed: Any, size: int, scope: Any, encoder_lengths: Any) -> tuple[Any, Any]:
    weights = _weights(model, logits, scope, encoder_lengths)
    return _context(model, transposed, size, weights, scope), weights


def apply_recurrent_attention(
    model: Any,
    encoder_output_dim: int,
    encoder_outputs_transposed: Any,
    weighted_encoder_outputs: Any,
    decoder_hidden_state_t: Any,
    decoder_hidden_state_dim: int,
    attention_weighted_encoder_context_t_prev: Any,
    scope: Any,
    encoder_lengths: Any = None,
) -> Attended:
    """Add attention that knows the context before."""
    size = encoder_output_dim
    before = attention_weighted_encoder_context_t_prev
    context = _row(model, before, size, size, s(scope, "weighted_prev_attention_context"))
    name = s(scope, "weighted_decoder_hidden_state")
    hidden = _row(model, decoder_hidden_state_t, decoder_hidden_state_dim, size, name)
    both = model.net.Add([context, hidden], s(scope, "decoder_hidden_encoder_outputs_sum_tmp"))
    added = [weighted_encoder_outputs, both]
    sums = model.net.Add(added, s(scope, "decoder_hidden_encoder_outputs_sum"), broadcast=1)
    logits = _logits(model, sums, size, scope)
    return (*_attended(model, logits, encoder_outputs_transposed, size, scope, encoder_lengths), [sums])


def apply_regular_attention(
    model: Any,
    encoder_output_dim: int,
    encoder_outputs_transposed: Any,
    weighted_encoder_outputs: Any,
    decoder_hidden_state_t: Any,
    decoder_hidden_state_dim: int,
    scope: Any,
    encoder_lengths: Any = None,
) -> Attended:
    """Add additive attention."""
    size = encoder_output_dim
    name = s(scope, "weighted_decoder_hidden_state")
    hidden = _row(model, decoder_hidden_state_t, decoder_hidden_state_dim, size, name)
    added = [weighted_encoder_outputs, hidden]
    sums = model.net.Add(added, s(scope, "decoder_hidden_encoder_outputs_sum"), broadcast=1, use_grad_hack=1)
    logits = _logits(model, sums, size, scope)
    return (*_attended(model, logits, encoder_outputs_transposed, size, scope, encoder_lengths), [sums])


def apply_dot_attention(
    model: Any,
    encoder_output_dim: int,
    encoder_outputs_transposed: Any,
    decoder_hidden_state_t: Any,
    decoder_hidden_state_dim: int,
    scope: Any,
    encoder_lengths: Any = None,
) -> Attended:
    """Add attention by products; the state is brought to E elements where it has others."""
    size, hidden = encoder_output_dim, decoder_hidden_state_t
    if decoder_hidden_state_dim != size:
        name = s(scope, "weighted_decoder_hidden_state")
        hidden = brew.fc(model, hidden, name, dim_in=decoder_hidden_state_dim, dim_out=size, axis=2)
    row = model.net.Squeeze(hidden, s(scope, "squeezed_weighted_decoder_hidden_state"), dims=[0])  # (N, E)
    column = model.net.ExpandDims(row, row, dims=[2])  # (N, E, 1)
    logits = model.net.BatchMatMul([encoder_outputs_transposed, column], s(scope, "attention_logits"), trans_a=1)
    return (*_attended(model, logits, encoder_outputs_transposed, size, scope, encoder_lengths), [])


def apply_soft_coverage_attention(
    model: Any,
    encoder_output_dim: int,
    encoder_outputs_transposed: Any,
    weighted_encoder_outputs: Any,
    decoder_hidden_state_t: Any,
    decoder_hidden_state_dim: int,
    scope: Any,
    encoder_lengths: Any,
    coverage_t_prev: Any,
    coverage_weights: Any,
) -> tuple[Any, Any, list[Any], Any]:
    """Add additive attention that knows what was attended to; return the coverage after it, (1, N, L), too."""
    net, size = model.net, encoder_output_dim
    name = s(scope, "weighted_decoder_hidden_state")
    hidden = _row(model, decoder_hidden_state_t, decoder_hidden_state_dim, size, name)
    added = [weighted_encoder_outputs, hidden]
    both = net.Add(added, s(scope, "decoder_hidden_encoder_outputs_sum_tmp"), broadcast=1)
    covered = net.Squeeze(coverage_t_prev, s(scope, "coverage_t_prev_2d"), dims=[0])  # (N, L)
    covered = brew.transpose(model, covered, s(scope, "coverage_t_prev_transposed"))  # (L, N)
    scaled = [coverage_weights, covered]
    covered = net.Mul(scaled, s(scope, "scaled_coverage_weights"), broadcast=1, axis=0)  # (L, N, E)
    sums = net.Add([both, covered], s(scope, "decoder_hidden_encoder_outputs_sum"))
    logits = _logits(model, sums, size, scope)
    context, weights = _attended(model, logits, encoder_outputs_transposed, size, scope, encoder_lengths)
    flat = net.Squeeze(weights, s(scope, "attention_weights_2d"), dims=[2])
    return context, weights, [sums], net.Add([coverage_t_prev, flat], s(scope, "coverage_t"), broadcast=1)
