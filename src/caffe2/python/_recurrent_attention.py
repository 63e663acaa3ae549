"""Cells that attend to what an encoder left: a decoder's cell, and the context that goes along from step to step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from caffe2.python import brew, core, scope
from caffe2.python._recurrent_cell import Extra, RNNCell
from caffe2.python._recurrent_units import LSTMCell, MILSTMCell
from caffe2.python.attention import (
    AttentionType,
    apply_dot_attention,
    apply_recurrent_attention,
    apply_regular_attention,
    apply_soft_coverage_attention,
)


class AttentionCell(RNNCell):
    """A decoder's cell with attention: states are those of the cell, the context, and a coverage if there is one."""

    def __init__(
        self,
        encoder_output_dim: int,
        encoder_outputs: Any,
        encoder_lengths: Any,
        decoder_cell: Any,
        decoder_state_dim: int,
        attention_type: int,
        weighted_encoder_outputs: Any,
        attention_memory_optimization: bool,
        **kwargs: Any,
    ) -> None:
        """Put attention behind a cell.

        Args:
            encoder_output_dim: E.
            encoder_outputs: (L, N, E).
            encoder_lengths: int32 (N), how many of L count; all if None.
            decoder_cell: gets the context beside its input.
            decoder_state_dim: H.
            attention_type: one of `AttentionType`.
            weighted_encoder_outputs: (L, N, E); a product of `encoder_outputs` if None.
            attention_memory_optimization: make sums again in the backward pass rather than keep them for all steps.
            **kwargs: those of every cell.
        """
        super().__init__(**kwargs)
        self.encoder_output_dim = encoder_output_dim
        self.encoder_outputs = encoder_outputs
        self.encoder_lengths = encoder_lengths
        self.decoder_cell = decoder_cell
        self.decoder_state_dim = decoder_state_dim
        self.weighted_encoder_outputs = weighted_encoder_outputs
        self.encoder_outputs_transposed: Any = None
        self.coverage_weights: Any = None
        self.hidden_t_intermediate: Any = None
        self.attention_weights_3d: Any = None
        assert attention_type in range(4), f"no kind of attention is {attention_type}"
        self.attention_type = attention_type
        self.attention_memory_optimization = attention_memory_optimization

    @property
    def _own(self) -> int:
        """How many states are not the decoder's."""
        return 2 if self.attention_type == AttentionType.SoftCoverage else 1

    def _apply(
        self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any, extra_inputs: Extra = None
    ) -> list[Any]:
        assert extra_inputs is None
        before, own = states[: -self._own], states[-self._own :]
        decoded = self.decoder_cell._apply(
            model, input_t, seq_lengths, before, timestep, extra_inputs=[(own[0], self.encoder_output_dim)]
        )
        self.hidden_t_intermediate = self.decoder_cell._prepare_output(model, decoded)
        context, self.attention_weights_3d, again, *coverage = self._attended(model, own)
        if self.attention_memory_optimization:
            self.recompute_blobs.extend(again)
        after = [*decoded, context, *coverage]
        index = self.get_output_state_index()
        after[index] = model.Copy(after[index], self.scope("hidden_t_external"))
        model.net.AddExternalOutputs(*after)
        return after

    def _attended(self, model: Any, own: Sequence[Any]) -> Any:
        given: dict[str, Any] = {
            "model": model,
            "encoder_output_dim": self.encoder_output_dim,
            "encoder_outputs_transposed": self.encoder_outputs_transposed,
            "decoder_hidden_state_t": self.hidden_t_intermediate,
            "decoder_hidden_state_dim": self.decoder_state_dim,
            "scope": self.name,
            "encoder_lengths": self.encoder_lengths,
        }
        kind = self.attention_type
        if kind == AttentionType.Dot:
            return apply_dot_attention(**given)
        given["weighted_encoder_outputs"] = self.weighted_encoder_outputs
        if kind == AttentionType.Recurrent:
            return apply_recurrent_attention(attention_weighted_encoder_context_t_prev=own[0], **given)
        if kind == AttentionType.Regular:
            return apply_regular_attention(**given)
        weights = self.coverage_weights
        return apply_soft_coverage_attention(coverage_t_prev=own[1], coverage_weights=weights, **given)

    def get_attention_weights(self) -> Any:
        """Return the weights of the step that was added last, (N, L, 1)."""
        return self.attention_weights_3d

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        """Add what is the same in all steps, of the encoder and of the input."""
        if self.encoder_outputs_transposed is None:
            self.encoder_outputs_transposed = brew.transpose(
                model, self.encoder_outputs, self.scope("encoder_outputs_transposed"), axes=[1, 2, 0]
            )  # (N, E, L)
        if self.weighted_encoder_outputs is None and self.attention_type != AttentionType.Dot:
            self.weighted_encoder_outputs = self._of_encoder(model, "weighted_encoder_outputs")
        return self.decoder_cell.prepare_input(model, input_blob)

    def _of_encoder(self, model: Any, name: str) -> Any:
        size = self.encoder_output_dim
        return brew.fc(model, self.encoder_outputs, self.scope(name), dim_in=size, dim_out=size, axis=2)

    def build_initial_coverage(self, model: Any) -> Any:
        """Add the coverage before the first step, zeros (L), and what scales it in each."""
        assert self.attention_type == AttentionType.SoftCoverage
        self.coverage_weights = self._of_encoder(model, "coverage_weights")
        length = model.net.Slice(model.net.Shape(self.encoder_outputs), starts=[0], ends=[1])
        device = scope.CurrentDeviceScope()
        if device is not None and core.IsGPUDeviceType(device.device_type):
            length = model.net.CopyGPUToCPU(length, "encoder_length_cpu")
        return model.net.ConstantFill(length, self.scope("initial_coverage"), value=0.0, input_as_shape=1)

    def get_state_names(self) -> list[str]:
        """Return the names of the decoder's states, what is put out renamed, and of its own."""
        names = list(self.decoder_cell.get_state_names())
        names[self.get_output_state_index()] = self.scope("hidden_t_external")
        own = ("attention_weighted_encoder_context_t", "coverage_t")[: self._own]
        return names + [self.scope(name) for name in own]

    def get_output_dim(self) -> int:
        """Return H + E."""
        return self.decoder_state_dim + self.encoder_output_dim

    def get_output_state_index(self) -> int:
        """Return which state is what the decoder puts out."""
        return self.decoder_cell.get_output_state_index()

    def _joined(self, model: Any, hidden: Any, context: Any) -> Any:
        with core.NameScope(self.name or ""):
            return brew.concat(model, [hidden, context], "states_and_context_combination", axis=2)

    def _prepare_output(self, model: Any, states: Sequence[Any]) -> Any:
        return self._joined(model, self.hidden_t_intermediate, states[-self._own])

    def _prepare_output_sequence(self, model: Any, state_outputs: Sequence[Any]) -> Any:
        own = 2 * self._own
        decoded = self.decoder_cell._prepare_output_sequence(model, state_outputs[:-own])
        return self._joined(model, decoded, state_outputs[-own])


class LSTMWithAttentionCell(AttentionCell):
    """An LSTM that attends."""

    def __init__(
        self,
        encoder_output_dim: int,
        encoder_outputs: Any,
        encoder_lengths: Any,
        decoder_input_dim: int,
        decoder_state_dim: int,
        name: str | None,
        attention_type: int,
        weighted_encoder_outputs: Any,
        forget_bias: float,
        lstm_memory_optimization: bool,
        attention_memory_optimization: bool,
        forward_only: bool = False,
    ) -> None:
        """Take what both parts take; the decoder's cell is called `<name>/decoder`."""
        super().__init__(
            encoder_output_dim=encoder_output_dim,
            encoder_outputs=encoder_outputs,
            encoder_lengths=encoder_lengths,
            decoder_cell=LSTMCell(
                input_size=decoder_input_dim,
                hidden_size=decoder_state_dim,
                forget_bias=forget_bias,
                memory_optimization=lstm_memory_optimization,
                name=f"{name}/decoder",
            ),
            decoder_state_dim=decoder_state_dim,
            name=name,
            attention_type=attention_type,
            weighted_encoder_outputs=weighted_encoder_outputs,
            attention_memory_optimization=attention_memory_optimization,
            forward_only=forward_only,
        )


class MILSTMWithAttentionCell(AttentionCell):
    """A multiplicative LSTM that attends, to all that the encoder left (in Caffe2 it could not be made)."""

    def __init__(
        self,
        encoder_output_dim: int,
        encoder_outputs: Any,
        decoder_input_dim: int,
        decoder_state_dim: int,
        name: str | None,
        attention_type: int,
        weighted_encoder_outputs: Any,
        forget_bias: float,
        lstm_memory_optimization: bool,
        attention_memory_optimization: bool,
        forward_only: bool = False,
    ) -> None:
        """Take what both parts take; the decoder's cell is called `<name>/decoder`."""
        super().__init__(
            encoder_output_dim=encoder_output_dim,
            encoder_outputs=encoder_outputs,
            encoder_lengths=None,
            decoder_cell=MILSTMCell(
                input_size=decoder_input_dim,
                hidden_size=decoder_state_dim,
                forget_bias=forget_bias,
                memory_optimization=lstm_memory_optimization,
                name=f"{name}/decoder",
            ),
            decoder_state_dim=decoder_state_dim,
            name=name,
            attention_type=attention_type,
            weighted_encoder_outputs=weighted_encoder_outputs,
            attention_memory_optimization=attention_memory_optimization,
            forward_only=forward_only,
        )
