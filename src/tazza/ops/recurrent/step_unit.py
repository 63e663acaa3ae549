"""What the units of recurrent nets share: a step of N sequences, some of which have ended.

`seq_lengths` (N) says how many steps each has; `timestep` holds the number of this one, from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import SchemaError
from tazza.operator import Array, OpView, Role, arg, blob, show_dims
from tazza.ops.shape.axis import agree, require_one_element
from tazza.tensor import DataType, TensorSpec

INT32 = frozenset({DataType.INT32})

STEP_ARGS = (
    arg("sequence_lengths", int, 1, doc="sequences have lengths, and end at them; without, `seq_lengths` is left out"),
    arg("drop_states", int, 0, doc="the state of a sequence that has ended is 0, not what it was"),
)

STEP_INPUTS = (
    blob("seq_lengths", INT32, optional=True, role=Role.INDEX, doc="N elements; there unless `sequence_lengths` is 0"),
    blob("timestep", INT32, host=True, role=Role.INDEX, doc="one element"),
)

UNUSED = blob("unused", optional=True, role=Role.DATA, doc="old nets give lengths all the same")


@dataclass(frozen=True, slots=True)
class Unit:
    """What a unit of a state is written from: formulas over letters, gates and `bias`, one after the other.

    Attributes:
        gates: in their order; the gradient of gate x is called dx.
        texts: name -> formula, which may hang on names before it.
        read: letters with one number for each unit; the last one is of the type that all is computed in.
        kept: letter that is written -> the one that an ended sequence hands on as it is.
    """

    gates: tuple[str, ...]
    texts: Mapping[str, str]
    read: tuple[str, ...]
    kept: Mapping[str, str]

    @property
    def written(self) -> tuple[str, ...]:
        """The letters that are written, with one number for each unit."""
        return tuple(self.kept)


def check_step(op: OpView, state: TensorSpec, lengths: TensorSpec | None, step: TensorSpec) -> None:
    """Check that there is a length for each sequence of a state (1, N, D), and one number of the step."""
    if lengths is not None and lengths.dims is not None and state.dims is not None:
        count = lengths.size if lengths.shape_known else None
        relation = f"seq_lengths {show_dims(lengths.dims)} are not one for each of N = {state.dims[1]} sequences"
        op.require(agree(count, state.dims[1]), relation)
    require_one_element(op, "timestep", step.dims)


def check_gates(op: OpView, gates: TensorSpec, state: TensorSpec, count: int) -> None:
    """Check that gates (1, N, G) are so many for each unit of a state (1, N, D)."""
    if gates.dims is not None and state.dims is not None:
        G, D = gates.dims[2], state.dims[2]
        relation = f"gates have G = {G}, the state has D = {D}"
        op.require(agree(G, None if D is None else count * D), relation, f"G must be {count} D")


def require_timestep(op: OpView) -> None:
    """Check that the operator has as many inputs as `sequence_lengths` says."""
    if not op.has_input("timestep"):
        raise op.error(
            SchemaError,
            f"{len(op.definition.input)} inputs with sequence_lengths = {op.sequence_lengths}, timestep is missing",
            "without lengths, say sequence_lengths=0",
        )


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x))."""
    return cast("Array", 1 / (1 + np.exp(-x)))


def goes_on(seq_lengths: Array | None, timestep: Array) -> Array:
    """Return (1, N, 1) or a scalar: whether the step lies within each sequence."""
    if seq_lengths is None:
        return np.array(True)
    return timestep.reshape(()) < seq_lengths.reshape(1, -1, 1)
