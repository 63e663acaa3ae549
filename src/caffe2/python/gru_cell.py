"""A gated recurrent unit: the gate of reset stands before the product of h, or behind it.

    r, z = sig(x_r + h R_r), sig(x_z + h R_z);  h' = z h + (1 - z) tanh(x_o + (r h) R_o),  or  tanh(x_o + r (h R_o))

Source: Cho et al.: Learning phrase representations using RNN encoder-decoder, 2014.
"""

from __future__ import annotations

import functools
from typing import Any

from caffe2.python import brew, rnn_cell
from caffe2.python._recurrent_cell import Extra


class GRUCell(rnn_cell.RNNCell):
    """One step; what is left to do with the gates is the operator GRUUnit."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        forget_bias: float,
        memory_optimization: bool,
        drop_states: bool = False,
        linear_before_reset: bool = False,
        **kwargs: Any,
    ) -> None:
        """Take extents; `forget_bias` and `memory_optimization` say nothing here.

        Args:
            input_size: elements of an input.
            hidden_size: elements of h.
            forget_bias: kept.
            memory_optimization: kept.
            drop_states: h of a sequence that has ended is 0, not what it was.
            linear_before_reset: the gate of reset stands behind the product of h, as in cuDNN.
            **kwargs: those of every cell.
        """
        super().__init__(**kwargs)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.forget_bias = float(forget_bias)
        self.memory_optimization = memory_optimization
        self.drop_states = drop_states
        self.linear_before_reset = linear_before_reset

    def apply_override(  # pyright: ignore[reportIncompatibleMethodOverride] -- as it was
        self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any, extra_inputs: Extra = None
    ) -> tuple[Any]:
        """Add one step."""
        del extra_inputs
        net, before = model.net, states[0]
        parts = net.Split([input_t], [f"input_t_{gate}" for gate in ("reset", "update", "output")], axis=2)
        reset, update = self._product(model, before, "reset_gate_t"), self._product(model, before, "update_gate_t")
        reset = net.Sum([reset, parts[0]], "reset_gate_t")
        opened = net.Sigmoid(reset, "reset_gate_t_sigmoid")
        if self.linear_before_reset:
            output = self._product(model, before, "output_gate_t")
            output = net.Mul([opened, output], "output_gate_t_mul")
        else:
            output = self._product(model, net.Mul([opened, before], "modified_hidden_t_prev"), "output_gate_t")
        update = net.Sum([update, parts[1]], "update_gate_t")
        output = net.Sum([output, parts[2]], "output_gate_t_summed")
        gates, _ = net.Concat([reset, update, output], ["gates_t", "_gates_t_concat_dims"], axis=2)
        ends = [] if seq_lengths is None else [seq_lengths]
        after = net.GRUUnit(
            [before, gates, *ends, timestep],
            ["hidden_t"],
            forget_bias=self.forget_bias,
            drop_states=self.drop_states,
            sequence_lengths=seq_lengths is not None,
        )
        net.AddExternalOutputs(after)
        return (after,)

    def _product(self, model: Any, hidden: Any, name: str) -> Any:
        return brew.fc(model, hidden, name, dim_in=self.hidden_size, dim_out=self.hidden_size, axis=2)

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        """Add the product of the input, for all three gates."""
        size = 3 * self.hidden_size
        return brew.fc(model, input_blob, self.scope("i2h"), dim_in=self.input_size, dim_out=size, axis=2)

    def get_state_names(self) -> tuple[str]:
        """Return the name of h."""
        return (self.scope("hidden_t"),)

    def get_output_dim(self) -> int:
        """Return the extent of h."""
        return self.hidden_size


GRU = functools.partial(rnn_cell._LSTM, GRUCell)  # pyright: ignore[reportPrivateUsage] -- others do so too
"""What adds gated recurrent units over a sequence, as `rnn_cell.LSTM` adds LSTMs."""
