"""Cells: what one step of a recurrent net computes.

    basic            h' = act(x + h R)
    LSTM             i, f, o, g = x + h R;  c' = sig(f + bias) c + sig(i) tanh(g);  h' = sig(o) tanh(c')
    MI-LSTM          gates = alpha x p + beta1 p + beta2 x + b, p = h R
    layer-normed     gates are normalized first

x is the input behind its product, which is computed for all steps at once. Sources: Hochreiter, Schmidhuber: Long
short-term memory, 1997; Wu et al.: On multiplicative integration with recurrent neural networks, 2016; Ba et al.: Layer
normalization, 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from caffe2.python import brew
from caffe2.python._recurrent_cell import Extra, LSTMInitializer, RNNCell
from caffe2.python.modeling.initializers import Initializer


class BasicRNNCell(RNNCell):
    """h' = act(x + h R), with `activation` "relu" or "tanh"."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        forget_bias: float,
        memory_optimization: bool,
        drop_states: bool = False,
        initializer: Any = None,
        activation: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Take extents; `forget_bias`, `memory_optimization` and `initializer` say nothing here."""
        del forget_bias, memory_optimization, initializer
        super().__init__(**kwargs)
        self.drop_states = drop_states
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.activation = activation
        if activation not in ("relu", "tanh"):
            raise RuntimeError(f"BasicRNNCell with unknown activation function ({activation})")

    def apply_override(  # pyright: ignore[reportIncompatibleMethodOverride] -- as it was
        self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any, extra_inputs: Extra = None
    ) -> tuple[Any]:
        """Add one step."""
        del extra_inputs
        before = states[0]
        gates = brew.fc(model, before, "gates_t", dim_in=self.hidden_size, dim_out=self.hidden_size, axis=2)
        brew.sum(model, [gates, input_t], gates)
        activate = model.net.Tanh if self.activation == "tanh" else model.net.Relu
        after = activate(gates, "hidden_t")
        return (after if seq_lengths is None else self._within(model, before, after, seq_lengths, timestep),)

    def _within(self, model: Any, before: Any, after: Any, seq_lengths: Any, timestep: Any) -> Any:
        """Add what keeps the state of sequences that have ended, or makes it 0: the step hits those that are longer."""
        net = model.net
        step = net.CopyFromCPUInput(timestep, "timestep_gpu")
        runs = net.GT([seq_lengths, step], "valid_b", broadcast=1)
        ended = net.LE([seq_lengths, step], "invalid_b", broadcast=1)
        runs, ended = net.Cast(runs, "valid", to="float"), net.Cast(ended, "invalid", to="float")
        new = net.Mul([after, runs], "hidden_valid", broadcast=1, axis=1)
        if self.drop_states:
            return new
        old = net.Mul([before, ended], "hidden_invalid", broadcast=1, axis=1)
        return net.Add([new, old], after)

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        """Add the product of the input."""
        return brew.fc(model, input_blob, self.scope("i2h"), dim_in=self.input_size, dim_out=self.hidden_size, axis=2)

    def get_state_names(self) -> tuple[str]:
        """Return the name of h."""
        return (self.scope("hidden_t"),)

    def get_output_dim(self) -> int:
        """Return the extent of h."""
        return self.hidden_size


class LSTMCell(RNNCell):
    """Long short-term memory; cells below it make their gates in another way (`_gates`)."""

    _left: tuple[str, str] = "hidden_state", "cell_state"
    """What a step calls its states."""
    _cell_first = False
    """Whether c is declared before h."""
    _tells_lengths = True
    """Whether the unit is told that there are lengths, which it takes for granted."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        forget_bias: float,
        memory_optimization: bool,
        drop_states: bool = False,
        initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        """Take extents.

        Args:
            input_size: elements of an input.
            hidden_size: elements of h and c.
            forget_bias: added to the gate of forgetting.
            memory_optimization: make gates again in the backward pass rather than keep them for all steps.
            drop_states: h and c of a sequence that has ended are 0, not what they were.
            initializer: makes initial states; by default parameters of zeros.
            **kwargs: those of every cell: `name`, `forward_only`.
        """
        super().__init__(initializer=initializer, **kwargs)
        self.initializer = initializer or LSTMInitializer(hidden_size=hidden_size)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.forget_bias = float(forget_bias)
        self.memory_optimization = memory_optimization
        self.drop_states = drop_states
        self.gates_size = 4 * hidden_size

    def apply_override(  # pyright: ignore[reportIncompatibleMethodOverride] -- as it was
        self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any, extra_inputs: Extra = None
    ) -> tuple[Any, Any]:
        """Add one step."""
        gates = self._gates(model, input_t, *self._joined(model, states[0], extra_inputs))
        ends = [] if seq_lengths is None else [seq_lengths]
        said = {"sequence_lengths": bool(ends)} if self._tells_lengths or not ends else {}
        hidden, cell = model.net.LSTMUnit(
            [*states, gates, *ends, timestep],
            list(self._left),
            forget_bias=self.forget_bias,
            drop_states=self.drop_states,
            **said,
        )
        model.net.AddExternalOutputs(*((cell, hidden) if self._cell_first else (hidden, cell)))
        if self.memory_optimization:
            self.recompute_blobs = [gates]
        return hidden, cell

    def _joined(self, model: Any, hidden: Any, extra_inputs: Extra) -> tuple[Any, int]:
        """Return h, with what stands beside the input behind it, and its extent."""
        if extra_inputs is None:
            return hidden, self.hidden_size
        blobs, sizes = zip(*extra_inputs, strict=True)
        joined = brew.concat(model, [hidden, *blobs], "gates_concatenated_input_t", axis=2)
        return joined, self.hidden_size + sum(sizes)

    def _gates(self, model: Any, input_t: Any, hidden: Any, size: int) -> Any:
        """Add the gates, (1, N, 4 H), from the input and from h of so many elements."""
        gates = brew.fc(model, hidden, "gates_t", dim_in=size, dim_out=self.gates_size, axis=2)
        return brew.sum(model, [gates, input_t], gates)

    def _normalized(self, model: Any, gates: Any) -> Any:
        return brew.layer_norm(model, gates, "gates_t_norm", dim_in=self.gates_size, axis=-1)[0]

    def get_input_params(self) -> dict[str, str]:
        """Return the names of the parameters of the input."""
        return {"weights": self.scope("i2h") + "_w", "biases": self.scope("i2h") + "_b"}

    def get_recurrent_params(self) -> dict[str, str]:
        """Return the names of the parameters of h."""
        return {"weights": self.scope("gates_t") + "_w", "biases": self.scope("gates_t") + "_b"}

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        """Add the product of the input."""
        return brew.fc(model, input_blob, self.scope("i2h"), dim_in=self.input_size, dim_out=self.gates_size, axis=2)

    def get_state_names_override(self) -> Sequence[str]:
        """Return the names of h and c."""
        return ["hidden_t", "cell_t"]

    def get_output_dim(self) -> int:
        """Return the extent of h."""
        return self.hidden_size


class LayerNormLSTMCell(LSTMCell):
    """An LSTM whose gates are normalized."""

    _left = "hidden_t", "cell_t"
    _tells_lengths = False

    def _gates(self, model: Any, input_t: Any, hidden: Any, size: int) -> Any:
        return self._normalized(model, super()._gates(model, input_t, hidden, size))


class MILSTMCell(LSTMCell):
    """An LSTM whose gates are products of what the input and h give."""

    _left = "hidden_t_intermediate", "cell_t"
    _cell_first = True
    _tells_lengths = False

    def _gates(self, model: Any, input_t: Any, hidden: Any, size: int) -> Any:
        net = model.net
        previous = brew.fc(model, hidden, "prev_t", dim_in=size, dim_out=self.gates_size, axis=2)
        alpha, beta_h, beta_i, b = (
            model.create_param(name, shape=[self.gates_size], initializer=Initializer("ConstantFill", value=value))
            for name, value in (("alpha", 1.0), ("beta1", 1.0), ("beta2", 1.0), ("b", 0.0))
        )
        scaled = net.ElementwiseLinear([input_t, alpha, beta_h], "alpha_by_input_t_plus_beta_h", axis=2)
        product = net.Mul([scaled, previous], "alpha_by_input_t_plus_beta_h_by_prev_t")
        plain = net.ElementwiseLinear([input_t, beta_i, b], "beta_i_by_input_t_plus_b", axis=2)
        return brew.sum(model, [product, plain], "gates_t")


class LayerNormMILSTMCell(MILSTMCell):
    """Both."""

    def _gates(self, model: Any, input_t: Any, hidden: Any, size: int) -> Any:
        return self._normalized(model, super()._gates(model, input_t, hidden, size))
