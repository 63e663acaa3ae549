"""What every cell of a recurrent net has: a step in a net of its own, and that net run over a sequence.

Letters: T steps, N sequences; an input is (T, N, D), a state (1, N, H). The blobs of a cell begin with its name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from caffe2.python import core, recurrent, scope, utils
from caffe2.python.model_helper import ModelHelper
from caffe2.python.modeling.initializers import Initializer

Extra: TypeAlias = Iterable[tuple[Any, int]] | None
"""Blobs beside the input of a step, each with its extent; `prepare_input` does not see them."""


def reference(blob: Any) -> Any:
    """Return a reference; a text gets the current scope in front."""
    if blob is None or isinstance(blob, core.BlobReference):
        return blob
    if isinstance(blob, str):
        return core.ScopedBlobReference(blob)
    raise Exception("Unknown blob reference type")


class RNNCell:
    """One step of a recurrent net; a cell of one's own has `apply_override` and `get_state_names_override`."""

    def __init__(self, name: str | None = None, forward_only: bool = False, initializer: Any = None) -> None:
        """Name the cell; `initializer` has `create_states(model)`, for who gives no initial states."""
        self.name = name
        self.recompute_blobs: list[Any] = []
        self.forward_only = forward_only
        self._initializer = initializer

    @property
    def initializer(self) -> Any:
        """What makes the initial states."""
        return self._initializer

    @initializer.setter
    def initializer(self, value: Any) -> None:
        self._initializer = value

    def scope(self, name: str) -> str:
        """Return a name with that of the cell in front."""
        return name if self.name is None else f"{self.name}/{name}"

    # -- running it ----------------------------------------------------------------------------------------------------

    def apply_over_sequence(
        self,
        model: Any,
        inputs: Any,
        seq_lengths: Any = None,
        initial_states: Sequence[Any] | None = None,
        outputs_with_grads: Sequence[int] | None = None,
    ) -> tuple[Any, Any]:
        """Add an operator that runs the cell for each row of `inputs`.

        Args:
            model: gets it.
            inputs: (T, N, D).
            seq_lengths: int32 (N): how many steps each sequence has.
            initial_states: blobs, one for each state; without them the initializer makes some.
            outputs_with_grads: which of all states get gradients from outside, by default what the cell puts out.

        Returns:
            What it puts out over time, and of each state all values, and the last one.
        """
        first = self._created_states(model) if initial_states is None else initial_states
        prepared = self.prepare_input(model, inputs)
        step = ModelHelper(name=self.name, param_model=model)
        input_t, timestep = step.net.AddScopedExternalInputs("input_t", "timestep")
        names = self.get_state_names()
        utils.raiseIfNotEqual(
            len(first), len(names), "Number of initial state values provided doesn't match the number of states"
        )
        before = step.net.AddScopedExternalInputs(*(f"{name}_prev" for name in names))
        after = self._apply(step, input_t, seq_lengths, before, timestep)
        declared = set(step.net.Proto().external_output)
        for state in after:
            if str(state) not in declared:
                step.net.AddExternalOutput(state)
        if outputs_with_grads is None:
            outputs_with_grads = [2 * self.get_output_state_index()]
        states = recurrent.recurrent_net(
            net=model.net,
            cell_net=step.net,
            inputs=[(input_t, prepared)],
            initial_cell_inputs=list(zip(before, first, strict=True)),
            links=dict(zip(before, after, strict=True)),
            timestep=timestep,
            scope=self.name,
            forward_only=self.forward_only,
            outputs_with_grads=outputs_with_grads,
            recompute_blobs_on_backward=self.recompute_blobs,
        )
        return self._prepare_output_sequence(model, states), states

    def _created_states(self, model: Any) -> list[Any]:
        with scope.NameScope(self.name):
            if self.initializer is None:
                raise Exception("Either initial states or initializer have to be set")
            return self.initializer.create_states(model)

    def apply(self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any) -> tuple[Any, Any]:
        """Add one step; return what it puts out, and the states after it."""
        after = self._apply(model, self.prepare_input(model, input_t), seq_lengths, states, timestep)
        return self._prepare_output(model, after), after

    def _apply(
        self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any, extra_inputs: Extra = None
    ) -> Any:
        """Add one step whose own names begin with that of the cell; those that are given are of the current scope."""
        given = self._rectify_apply_inputs(input_t, seq_lengths, states, timestep, extra_inputs)
        with core.NameScope(self.name):
            return self.apply_override(model, *given)

    def _rectify_apply_inputs(
        self, input_t: Any, seq_lengths: Any, states: Any, timestep: Any, extra_inputs: Extra
    ) -> list[Any]:
        taken: Callable[..., Any] = self.apply_override
        found: list[Any] = [reference(input_t), reference(seq_lengths), [reference(one) for one in states]]
        found.append(reference(timestep))
        if "extra_inputs" in inspect.signature(taken).parameters:
            found.append([(reference(blob), size) for blob, size in extra_inputs] if extra_inputs else extra_inputs)
        return found

    # -- what a cell says of itself ------------------------------------------------------------------------------------

    def apply_override(
        self, model: Any, input_t: Any, seq_lengths: Any, timestep: Any, extra_inputs: Extra = None
    ) -> Any:
        """Add one step and return its states; called with the states before it behind `seq_lengths`."""
        raise NotImplementedError("Abstract method")

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        """Add what depends on the input alone, for all steps at once, or for one: (T, N, D) or (1, N, D)."""
        del model
        return input_blob

    def get_output_state_index(self) -> int:
        """Return which state is what the cell puts out."""
        return 0

    def get_state_names(self) -> Sequence[str]:
        """Return the names of its states, with its own in front."""
        return [self.scope(name) for name in self.get_state_names_override()]

    def get_state_names_override(self) -> Sequence[str]:
        """Return the names of its states."""
        raise NotImplementedError("Abstract method")

    def get_output_dim(self) -> int:
        """Return how many elements it puts out for each sequence."""
        raise NotImplementedError("Abstract method")

    def _prepare_output(self, model: Any, states: Sequence[Any]) -> Any:
        """Add what becomes of the states of one step; return what it puts out."""
        del model
        return states[self.get_output_state_index()]

    def _prepare_output_sequence(self, model: Any, state_outputs: Sequence[Any]) -> Any:
        """Add what becomes of the states over time: of each all values, and the last one."""
        del model
        return state_outputs[2 * self.get_output_state_index()]


class LSTMInitializer:
    """Makes the initial states of an LSTM: parameters of zeros."""

    def __init__(self, hidden_size: int) -> None:
        """Say how many elements a state has."""
        self.hidden_size = hidden_size

    def create_states(self, model: Any) -> list[Any]:
        """Add them."""
        zero = Initializer(operator_name="ConstantFill", value=0.0)
        return [
            model.create_param(param_name=f"initial_{kind}_state", initializer=zero, shape=[self.hidden_size])
            for kind in ("hidden", "cell")
        ]
