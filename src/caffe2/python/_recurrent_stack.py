"""Cells made of cells: dropout behind one, several on top of each other, one unrolled into the net itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, scope
from caffe2.python._recurrent_cell import Extra, RNNCell, reference
from caffe2.python.modeling.parameter_sharing import ParameterSharing


class DropoutCell(RNNCell):
    """A cell with dropout on what it puts out, not on the way from step to step."""

    def __init__(
        self, internal_cell: Any, dropout_ratio: float | None = None, use_cudnn: bool = False, **kwargs: Any
    ) -> None:
        """Wrap a cell; the argument `is_test` has to be given."""
        self.internal_cell = internal_cell
        self.dropout_ratio = dropout_ratio
        assert "is_test" in kwargs, "Argument 'is_test' is required"
        self.is_test = kwargs.pop("is_test")
        self.use_cudnn = use_cudnn
        super().__init__(**kwargs)
        self.mask = 0

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        """Do as the cell within."""
        return self.internal_cell.prepare_input(model, input_blob)

    def get_output_state_index(self) -> int:
        """Return what the cell within says."""
        return self.internal_cell.get_output_state_index()

    def get_state_names(self) -> Sequence[str]:
        """Return what the cell within says."""
        return self.internal_cell.get_state_names()

    def get_output_dim(self) -> int:
        """Return what the cell within says."""
        return self.internal_cell.get_output_dim()

    def _apply(
        self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any, extra_inputs: Extra = None
    ) -> Any:
        return self.internal_cell._apply(model, input_t, seq_lengths, states, timestep, extra_inputs)

    def _prepare_output(self, model: Any, states: Sequence[Any]) -> Any:
        return self._dropped(model, self.internal_cell._prepare_output(model, states))

    def _prepare_output_sequence(self, model: Any, state_outputs: Sequence[Any]) -> Any:
        return self._dropped(model, self.internal_cell._prepare_output_sequence(model, state_outputs))

    def _dropped(self, model: Any, output: Any) -> Any:
        if not self.dropout_ratio or self.forward_only:
            return output
        with core.NameScope(self.name or ""):
            dropped = brew.dropout(
                model,
                output,
                f"{output}_with_dropout_mask{self.mask}",
                ratio=float(self.dropout_ratio),
                is_test=self.is_test,
                use_cudnn=self.use_cudnn,
            )
        self.mask += 1
        return dropped


class MultiRNNCellInitializer:
    """Makes the initial states of several cells."""

    def __init__(self, cells: Sequence[Any]) -> None:
        """Take cells."""
        self.cells = cells

    def create_states(self, model: Any) -> list[Any]:
        """Add them, each below the name of its layer and of its cell."""
        states: list[Any] = []
        for i, cell in enumerate(self.cells):
            if cell.initializer is None:
                raise Exception("Either initial states or initializer have to be set")
            with core.NameScope(f"layer_{i}"), core.NameScope(cell.name):
                states.extend(cell.initializer.create_states(model))
        return states


class MultiRNNCell(RNNCell):
    """Cells on top of each other: what one puts out is the input of the next."""

    def __init__(
        self, cells: Sequence[Any], residual_output_layers: Sequence[int] | None = None, **kwargs: Any
    ) -> None:
        """Stack cells, the one at the input first.

        Args:
            cells: their extents have to fit.
            residual_output_layers: layers, not the first, whose input is added to what they put out.
            **kwargs: those of every cell.
        """
        super().__init__(**kwargs)
        self.cells = cells
        self.residual_output_layers: Sequence[int] = [] if residual_output_layers is None else residual_output_layers
        ends = [self._first_state(i) + cell.get_output_state_index() for i, cell in enumerate(cells)]
        last = len(cells) - 1
        first = last  # of the layers whose outputs, added up, are what all put out
        while first > 0 and first in self.residual_output_layers:
            first -= 1
        self.output_connected_layers = list(range(first, last + 1))
        self.output_indices = ends[first:]
        self.state_names = [
            self.layer_scoper(i)(name) for i, cell in enumerate(cells) for name in cell.get_state_names()
        ]
        self.initializer = MultiRNNCellInitializer(cells)

    def _first_state(self, layer: int) -> int:
        return sum(len(cell.get_state_names()) for cell in self.cells[:layer])

    def layer_scoper(self, layer_id: int) -> Callable[[str], str]:
        """Return what puts the names of this and of a layer in front of a name."""
        return lambda name: f"{self.name}/layer_{layer_id}/{name}"

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        """Do as the first cell."""
        given = reference(input_blob)
        with core.NameScope(self.name or ""):
            return self.cells[0].prepare_input(model, given)

    def _apply(
        self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any, extra_inputs: Extra = None
    ) -> list[Any]:
        output, lengths, states, step, extra = self._rectify_apply_inputs(
            input_t, seq_lengths, states, timestep, extra_inputs
        )
        assert len(states) == len(self.state_names)
        after: list[Any] = []
        for i, cell in enumerate(self.cells):
            with core.NameScope(self.name), core.NameScope(f"layer_{i}"):
                own = states[self._first_state(i) : self._first_state(i + 1)]
                taken = cell.prepare_input(model, output) if i else output
                made = cell._apply(model, taken, lengths, own, step, extra_inputs=None if i else extra)
                if i < len(self.cells) - 1:
                    output = self._to_next(model, i, cell._prepare_output(model, made), output)
                after.extend(made)
        return after

    def apply_override(  # pyright: ignore[reportIncompatibleMethodOverride] -- as it was
        self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any, extra_inputs: Extra = None
    ) -> list[Any]:
        """Add one step of all cells."""
        return self._apply(model, input_t, seq_lengths, states, timestep, extra_inputs)

    def _to_next(self, model: Any, layer: int, output: Any, taken: Any) -> Any:
        if layer == 0 or layer not in self.residual_output_layers:
            return output
        return brew.sum(model, [output, taken], self.scope(f"residual_output_{layer}"))

    def get_state_names(self) -> Sequence[str]:
        """Return the names of the states of all cells."""
        return self.state_names

    def get_output_state_index(self) -> int:
        """Return which state is what the last cell puts out."""
        return self._first_state(len(self.cells) - 1) + self.cells[-1].get_output_state_index()

    def _prepare_output(self, model: Any, states: Sequence[Any]) -> Any:
        found = [
            self.cells[i]._prepare_output(model, states[self._first_state(i) : self._first_state(i + 1)])
            for i in self.output_connected_layers
        ]
        return brew.sum(model, found, self.scope("residual_output")) if len(found) > 1 else found[0]

    def _prepare_output_sequence(self, model: Any, state_outputs: Sequence[Any]) -> Any:
        found = [
            self.cells[i]._prepare_output_sequence(
                model, state_outputs[2 * self._first_state(i) : 2 * self._first_state(i + 1)]
            )
            for i in self.output_connected_layers
        ]
        return brew.sum(model, found, self.scope("residual_output_sequence")) if len(found) > 1 else found[0]


class UnrolledCell(RNNCell):
    """A cell whose steps all stand in the net itself, with the same parameters."""

    def __init__(self, cell: Any, T: int) -> None:
        """Take a cell, and the number of steps."""
        super().__init__(name=cell.name, forward_only=cell.forward_only)
        self.T = T
        self.cell = cell

    def apply_over_sequence(  # pyright: ignore[reportIncompatibleMethodOverride] -- as it was
        self,
        model: Any,
        inputs: Any,
        seq_lengths: Any,
        initial_states: Any,
        outputs_with_grads: Sequence[int] | None = None,
    ) -> tuple[Any, Any]:
        """Add all steps; what it returns is what a cell returns that is run over a sequence."""
        given = self.cell.prepare_input(model, inputs)
        rows = model.net.Split(given, [f"{given}_timestep_{i}" for i in range(self.T)], axis=0)
        states, steps = initial_states, list[Any]()
        for t, row in enumerate([rows] if self.T == 1 else rows):
            with ParameterSharing({f"timestep_{t}": ""}), scope.NameScope(f"timestep_{t}"):
                number = model.param_init_net.ConstantFill(
                    [],
                    "timestep",
                    value=t,
                    shape=[1],
                    dtype=core.DataType.INT32,
                    device_option=core.DeviceOption(caffe2_pb2.CPU),
                )
                states = self.cell._apply(
                    model=model, input_t=row, seq_lengths=seq_lengths, states=states, timestep=number
                )
            steps.append(states)
        outputs: list[Any] = []
        for values, last in zip(zip(*steps, strict=True), states, strict=True):
            name = str(values[0])[len("timestep_0/") :]  # as many letters, in a scope too: names are given
            joined = model.net.Concat(list(values), [f"{name}_concat", f"{name}_concat_info"], axis=0)[0]
            outputs += [joined, last]
        for i in set(range(len(outputs))) - set(outputs_with_grads or ()):
            model.net.ZeroGradient(outputs[i], [])
        return self.cell._prepare_output_sequence(model, outputs), tuple(outputs)
