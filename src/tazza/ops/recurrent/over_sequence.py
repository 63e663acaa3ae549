"""A step run for each row of a sequence: the blobs and links that a RecurrentNetwork has, by Caffe2's names.

Of a state, all values lie in `<prefix><before>_states`, (T + 1, N, D); `<after>_all` are those after each step,
(T, N, D), `<after>_last` the last one, (1, N, D).
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.data_class import dataclass
from tazza.ops.recurrent.recurrence import LOCAL_TYPE, TIMESTEP, Alias, Link, Recurrence, State
from tazza.proto import NetDef


@dataclass(frozen=True, slots=True)
class Carried:
    """A state: the blob of a step that is its value before, the one that is its value after, and its initial value."""

    before: str
    after: str
    initial: str


def over_sequence(
    step: NetDef, sequence: tuple[str, str], states: Sequence[Carried], prefix: str, timestep: str = TIMESTEP
) -> tuple[Recurrence, list[str], list[str]]:
    """Return what the operator's arguments say, without a gradient, its inputs and its outputs.

    Args:
        step: one step; what it reads beside states, row and number is the same in all steps.
        sequence: the blob of a step that is its row, and the blob of all rows.
        states: what goes from one step to the next.
        prefix: of blobs that hold states over time.
        timestep: the blob of a step with its number.
    """
    plain = NetDef()
    plain.CopyFrom(step)
    plain.type = LOCAL_TYPE
    over_time = {state.before: f"{prefix}{state.before}_states" for state in states}
    known = {*sequence, timestep, *(name for state in states for name in (state.before, state.initial))}
    shared = [name for name in step.external_input if name not in known]
    inputs = [sequence[1], *(state.initial for state in states), *shared]
    outputs = [f"{state.after}_{end}" for state in states for end in ("all", "last")]
    links = [
        Link(name, over_time[state.before], offset)
        for state in states
        for offset, name in enumerate((state.before, state.after))
    ]
    sources = [over_time[state.before] for state in states for _ in range(2)]
    recurrence = Recurrence(
        plain,
        (*links, Link(*sequence, 0)),
        tuple(State(over_time[state.before], state.initial, inputs.index(state.initial)) for state in states),
        tuple(map(Alias, sources, outputs, (1, -1) * len(states))),
        timestep,
        enable_rnn_executor=1,
    )
    return recurrence, inputs, [*outputs, f"{prefix}step_workspaces"]
