"""Parts of nets from sequences to sequences: vocabularies, encoders of embedded words, decoders, with attention or not.

Letters: S steps of the encoder, T of the decoder, N sequences.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, rnn_cell
from caffe2.python.attention import AttentionType
from caffe2.python.models.seq2seq._cells import dropped, flat_outputs, lstm_cell
from tazza.db import sentences

PAD, GO, EOS, UNK = sentences.MARKS
PAD_ID, GO_ID, EOS_ID, UNK_ID = range(4)

ATTENTION = {"regular": AttentionType.Regular, "recurrent": AttentionType.Recurrent, "dot": AttentionType.Dot}
"""What the kinds are called; "none" is none."""


def gen_vocab(corpus: Any, unk_threshold: int) -> defaultdict[str, int]:
    """Return numbers of marks, and of words that a file has more than `unk_threshold` times; a new word gets the next.

    Raises:
        FileError, FormatError: the file cannot be read, or is no text.
    """
    vocab: defaultdict[str, int] = defaultdict(lambda: len(vocab))
    vocab.update(sentences.read_vocabulary(corpus, unk_threshold))
    return vocab


def get_numberized_sentence(sentence: str, vocab: Mapping[str, int]) -> list[int]:
    """Return the numbers of words; of one that the vocabulary lacks that of `UNK`."""
    return sentences.numbers_of(sentence, vocab)


def _below(scope: str | None, name: str) -> str:
    return f"{scope}/{name}" if scope else name


def get_layer_scope(scope: str | None, layer_type: str, i: int) -> str:
    """Return the name of a layer, below a scope if there is one.

    >>> get_layer_scope("model", "encoder", 0), get_layer_scope(None, "encoder", 1)
    ('model/encoder/layer0', 'encoder/layer1')
    """
    return _below(scope, f"{layer_type}/layer{i}")


# -- cells, and layers of them -----------------------------------------------------------------------------------------


def rnn_unidirectional_layer(
    model: Any,
    inputs: Any,
    input_lengths: Any,
    input_size: int,
    num_units: int,
    dropout_keep_prob: float | None,
    forward_only: bool,
    return_sequence_output: bool,
    return_final_state: bool,
    scope: str | None = None,
) -> tuple[Any, Any, Any]:
    """Add an LSTM that starts from zeros; return its outputs (S, N, H), its last h and its last c, (1, N, H).

    Args:
        model: gets it.
        inputs: (S, N, `input_size`).
        input_lengths: int32 (N).
        input_size: elements of an input.
        num_units: H.
        dropout_keep_prob: which share of the outputs is kept, 0 to 1; all if None.
        forward_only: there is no backward pass, and no dropout.
        return_sequence_output: the outputs get gradients.
        return_final_state: the last states get gradients.
        scope: what all names begin with.
    """
    cell_state, hidden_state = (
        model.param_init_net.ConstantFill([], _below(scope, f"initial_{kind}_state"), shape=[num_units], value=0.0)
        for kind in ("cell", "hidden")
    )
    cell = lstm_cell(input_size, num_units, forward_only, _below(scope, "lstm"))
    outputs, states = dropped(cell, dropout_keep_prob, forward_only, _below(scope, "dropout")).apply_over_sequence(
        model=model,
        inputs=inputs,
        seq_lengths=input_lengths,
        initial_states=(hidden_state, cell_state),
        outputs_with_grads=[0] * return_sequence_output + [1, 3] * return_final_state,
    )
    return outputs, states[1], states[3]


def rnn_bidirectional_layer(
    model: Any,
    inputs: Any,
    input_lengths: Any,
    input_size: int,
    num_units: int,
    dropout_keep_prob: float | None,
    forward_only: bool,
    return_sequence_output: bool,
    return_final_state: bool,
    scope: str | None = None,
) -> tuple[Any, Any, Any]:
    """Add two LSTMs, one of which reads from the end; return both side by side, H twice as large.

    Arguments and results are those of `rnn_unidirectional_layer`; what is not asked for is None.
    """
    net = model.net
    layer = functools.partial(
        rnn_unidirectional_layer,
        model,
        input_lengths=input_lengths,
        input_size=input_size,
        num_units=num_units,
        dropout_keep_prob=dropout_keep_prob,
        forward_only=forward_only,
        return_sequence_output=return_sequence_output,
        return_final_state=return_final_state,
    )
    outputs_fw, hidden_fw, cell_fw = layer(inputs, scope=_below(scope, "fw"))
    reversed_inputs = net.ReversePackedSegs([inputs, input_lengths], [_below(scope, "reversed_inputs")])
    outputs_bw, hidden_bw, cell_bw = layer(reversed_inputs, scope=_below(scope, "bw"))
    outputs_bw = net.ReversePackedSegs([outputs_bw, input_lengths], [_below(scope, "outputs_bw")])

    def joined(name: str, *halves: Any) -> Any:
        return net.Concat(list(halves), [_below(scope, name), _below(scope, f"{name}_dim")], axis=2)[0]

    outputs = joined("outputs", outputs_fw, outputs_bw) if return_sequence_output else None
    if not return_final_state:
        return outputs, None, None
    hidden = joined("final_hidden_state", hidden_fw, hidden_bw)
    return outputs, hidden, joined("final_cell_state", cell_fw, cell_bw)


# -- encoder -----------------------------------------------------------------------------------------------------------


def build_embeddings(model: Any, vocab_size: int, embedding_size: int, name: str, freeze_embeddings: bool) -> Any:
    """Add a table with a row for each word; it is trained unless it is frozen."""
    table = model.param_init_net.GaussianFill([], name, shape=[vocab_size, embedding_size], std=0.1)
    if not freeze_embeddings:
        model.params.append(table)
    return table


def _embedded(model: Any, embeddings: Any, inputs: Any, num_gpus: int, name: str) -> Any:
    """Add the rows of words; the table of a net for GPUs lies on the CPU."""
    if num_gpus == 0:
        return model.net.Gather([embeddings, inputs], [name])
    with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU)):
        rows = model.net.Gather([embeddings, inputs], [f"{name}_cpu"])
    return model.CopyCPUToGPU(rows, name)


def build_embedding_encoder(
    model: Any,
    encoder_params: Mapping[str, Any],
    num_decoder_layers: int,
    inputs: Any,
    input_lengths: Any,
    vocab_size: int,
    embeddings: Any,
    embedding_size: int,
    use_attention: bool,
    num_gpus: int = 0,
    forward_only: bool = False,
    scope: str | None = None,
) -> tuple[Any, Any, list[Any], list[Any], list[int]]:
    """Add an encoder of words.

    Args:
        model: gets it.
        encoder_params: "encoder_layer_configs", for each layer its "num_units" and, if some outputs are dropped, its
            "dropout_keep_prob"; "use_bidirectional_encoder", of the first layer.
        num_decoder_layers: as many layers from the last one give their last states.
        inputs: int32 (S, N).
        input_lengths: int32 (N).
        vocab_size: unused.
        embeddings: the rows of all words.
        embedding_size: elements of a row.
        use_attention: the outputs of the last layer get gradients.
        num_gpus: 0 for a net on the CPU.
        forward_only: there is no backward pass.
        scope: what all names begin with.

    Returns:
        Outputs of the last layer, None, last h and last c of each layer, and how many elements these have.
    """
    del vocab_size
    outputs = _embedded(model, embeddings, inputs, num_gpus, _below(scope, "embedded_encoder_inputs"))
    layers = encoder_params["encoder_layer_configs"]
    bidirectional = encoder_params.get("use_bidirectional_encoder", False)
    units, size = list[int](), embedding_size
    hidden_states, cell_states = list[Any](), list[Any]()
    for i, config in enumerate(layers):
        both = bidirectional and i == 0
        add = rnn_bidirectional_layer if both else rnn_unidirectional_layer
        outputs, hidden, cell = add(
            model=model,
            inputs=outputs,
            input_lengths=input_lengths,
            input_size=size,
            num_units=config["num_units"],
            dropout_keep_prob=config.get("dropout_keep_prob", None),
            forward_only=forward_only,
            return_sequence_output=use_attention or i < len(layers) - 1,
            return_final_state=i >= len(layers) - num_decoder_layers,
            scope=get_layer_scope(scope, "encoder", i),
        )
        size = config["num_units"] * (2 if both else 1)
        units.append(size)
        hidden_states.append(hidden)
        cell_states.append(cell)
    return outputs, None, hidden_states, cell_states, units


# -- decoder -----------------------------------------------------------------------------------------------------------


class LSTMWithAttentionDecoder:
    """A stack of cells that makes words, with attention to what an encoder left, or without."""

    def scope(self, name: str) -> str:
        """Return a name below that of the decoder."""
        return name if self.name is None else f"{self.name}/{name}"

    def __init__(
        self,
        encoder_outputs: Any,
        encoder_output_dim: int,
        encoder_lengths: Any,
        vocab_size: int,
        attention_type: str,
        embedding_size: int,
        decoder_num_units: int,
        decoder_cells: Sequence[Any],
        residual_output_layers: Sequence[int] | None = None,
        name: str | None = None,
        weighted_encoder_outputs: Any = None,
    ) -> None:
        """Put cells together.

        Args:
            encoder_outputs: (S, N, E).
            encoder_output_dim: E.
            encoder_lengths: int32 (N), how many of S count; all if None.
            vocab_size: unused.
            attention_type: "regular", "recurrent", "dot" or "none".
            embedding_size: unused.
            decoder_num_units: elements of the last cell's h.
            decoder_cells: the one at the input first.
            residual_output_layers: layers whose input is added to what they put out.
            name: what all names begin with.
            weighted_encoder_outputs: (S, N, E); a product of `encoder_outputs` if None.
        """
        del vocab_size, embedding_size
        self.name = name
        self.num_layers = len(decoder_cells)
        self.use_attention = attention_type != "none"
        cell: Any = rnn_cell.MultiRNNCell(
            decoder_cells, residual_output_layers=residual_output_layers, name=self.scope("decoder")
        )
        self.output_indices: list[int] = cell.output_indices
        self.decoder_output_dim = decoder_num_units
        if self.use_attention:
            assert attention_type in ATTENTION, f"Unknown type {attention_type}"
            self.output_indices = [*cell.output_indices, 2 * self.num_layers]
            self.decoder_output_dim += encoder_output_dim
            cell = rnn_cell.AttentionCell(
                encoder_output_dim=encoder_output_dim,
                encoder_outputs=encoder_outputs,
                encoder_lengths=encoder_lengths,
                decoder_cell=cell,
                decoder_state_dim=decoder_num_units,
                name=self.scope("attention_decoder"),
                attention_type=ATTENTION[attention_type],
                weighted_encoder_outputs=weighted_encoder_outputs,
                attention_memory_optimization=True,
            )
        self.cell: Any = cell

    def get_state_names(self) -> Sequence[str]:
        """Return the names of its states."""
        return self.cell.get_state_names()

    def get_outputs_with_grads(self) -> list[int]:
        """Return which outputs of a run over a sequence get gradients from outside."""
        return [2 * index for index in self.output_indices]

    def get_output_dim(self) -> int:
        """Return how many elements it puts out."""
        return self.decoder_output_dim

    def get_attention_weights(self) -> Any:
        """Return the weights of the step that was added last, (N, S, 1)."""
        assert self.use_attention, "a decoder without attention has no weights of it"
        return self.cell.get_attention_weights()

    def apply(self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any) -> tuple[Any, Any]:
        """Add one step; return what it puts out, and the states after it."""
        return self.cell.apply(model=model, input_t=input_t, seq_lengths=seq_lengths, states=states, timestep=timestep)

    def apply_over_sequence(self, model: Any, inputs: Any, seq_lengths: Any, initial_states: Any) -> tuple[Any, Any]:
        """Add an operator that runs it for each row of `inputs`; return what a cell's returns."""
        return self.cell.apply_over_sequence(
            model=model,
            inputs=inputs,
            seq_lengths=seq_lengths,
            initial_states=initial_states,
            outputs_with_grads=self.get_outputs_with_grads(),
        )


def build_initial_rnn_decoder_states(
    model: Any,
    encoder_units_per_layer: Sequence[int],
    decoder_units_per_layer: Sequence[int],
    final_encoder_hidden_states: Sequence[Any],
    final_encoder_cell_states: Sequence[Any],
    use_attention: bool,
) -> list[Any]:
    """Return the states that a decoder starts from: for each layer h and c, then the context of attention.

    The last layers of the encoder give theirs to the first of the decoder, through a product where they have another
    number of elements; layers above, and the context, start from parameters of zeros.
    """
    skipped = max(len(encoder_units_per_layer) - len(decoder_units_per_layer), 0)
    given = list(
        zip(
            encoder_units_per_layer[skipped:],
            final_encoder_hidden_states[skipped:],
            final_encoder_cell_states[skipped:],
            strict=False,
        )
    )
    states: list[Any] = []
    for i, size in enumerate(decoder_units_per_layer):
        names = [f"decoder_initial_{kind}_state_{i}" for kind in ("hidden", "cell")]
        if i >= len(given):
            states += [_zeros(model, name, size) for name in names]
        elif given[i][0] == size:
            states += given[i][1:]
        else:
            states += [
                brew.fc(model, state, name, dim_in=given[i][0], dim_out=size, axis=2)
                for name, state in zip(names, given[i][1:], strict=True)
            ]
    if use_attention:
        states.append(_zeros(model, "initial_attention_weighted_encoder_context", encoder_units_per_layer[-1]))
    return states


def _zeros(model: Any, name: str, size: int) -> Any:
    made = model.param_init_net.ConstantFill([], name, shape=[size], value=0.0)
    model.params.append(made)
    return made


def build_embedding_decoder(
    model: Any,
    decoder_layer_configs: Sequence[Mapping[str, Any]],
    inputs: Any,
    input_lengths: Any,
    encoder_lengths: Any,
    encoder_outputs: Any,
    weighted_encoder_outputs: Any,
    final_encoder_hidden_states: Sequence[Any],
    final_encoder_cell_states: Sequence[Any],
    encoder_units_per_layer: Sequence[int],
    vocab_size: int,
    embeddings: Any,
    embedding_size: int,
    attention_type: str,
    forward_only: bool,
    num_gpus: int = 0,
    scope: str | None = None,
) -> tuple[Any, int]:
    """Add a decoder of words; return what it puts out, (T N, H), and H.

    Args:
        model: gets it.
        decoder_layer_configs: for each layer its "num_units" and, if some outputs are dropped, "dropout_keep_prob".
        inputs: int32 (T, N).
        input_lengths: int32 (N).
        encoder_lengths: int32 (N).
        encoder_outputs: (S, N, E).
        weighted_encoder_outputs: (S, N, E); a product of `encoder_outputs` if None.
        final_encoder_hidden_states: of each layer of the encoder.
        final_encoder_cell_states: of each layer of the encoder.
        encoder_units_per_layer: how many elements these have.
        vocab_size: unused.
        embeddings: the rows of all words.
        embedding_size: elements of a row.
        attention_type: "regular", "recurrent", "dot" or "none".
        forward_only: nothing is dropped.
        num_gpus: 0 for a net on the CPU.
        scope: what the names of the decoder begin with.
    """
    embedded = _embedded(model, embeddings, inputs, num_gpus, _below(scope, "embedded_decoder_inputs"))
    units = [config["num_units"] for config in decoder_layer_configs]
    cells: list[Any] = []
    for i, (size, config) in enumerate(zip([embedding_size, *units], decoder_layer_configs, strict=False)):
        cell, keep = lstm_cell(size, units[i], forward_only), config.get("dropout_keep_prob", None)
        cells.append(dropped(cell, keep, forward_only, get_layer_scope(scope, "decoder_dropout", i)))
    states = build_initial_rnn_decoder_states(
        model=model,
        encoder_units_per_layer=encoder_units_per_layer,
        decoder_units_per_layer=units,
        final_encoder_hidden_states=final_encoder_hidden_states,
        final_encoder_cell_states=final_encoder_cell_states,
        use_attention=attention_type != "none",
    )
    decoder = LSTMWithAttentionDecoder(
        encoder_outputs=encoder_outputs,
        encoder_output_dim=encoder_units_per_layer[-1],
        encoder_lengths=encoder_lengths,
        vocab_size=vocab_size,
        attention_type=attention_type,
        embedding_size=embedding_size,
        decoder_num_units=units[-1],
        decoder_cells=cells,
        weighted_encoder_outputs=weighted_encoder_outputs,
        name=scope,
    )
    outputs, _ = decoder.apply_over_sequence(
        model=model, inputs=embedded, seq_lengths=input_lengths, initial_states=states
    )
    return flat_outputs(model, outputs, decoder.get_output_dim()), decoder.get_output_dim()


def output_projection(
    model: Any,
    decoder_outputs: Any,
    decoder_output_size: int,
    target_vocab_size: int,
    decoder_softmax_size: int | None,
) -> Any:
    """Add scores of words, through a layer of `decoder_softmax_size` elements if there is one."""
    if decoder_softmax_size is not None:
        decoder_outputs = brew.fc(
            model,
            decoder_outputs,
            "decoder_outputs_scaled",
            dim_in=decoder_output_size,
            dim_out=decoder_softmax_size,
        )
        decoder_output_size = decoder_softmax_size
    filled: list[Any] = []
    for name, shape in (("w", [target_vocab_size, decoder_output_size]), ("b", [target_vocab_size])):
        filled.append(model.param_init_net.XavierFill([], f"output_projection_{name}", shape=shape))
    model.params.extend(filled)
    return model.net.FC([decoder_outputs, *filled], ["output_logits"])
