"""States that a net carries from run to run, one for each example of a batch, on several ranks.

Each rank has the states of the joint batch: it takes those of its share in front of a step, and all bring theirs
together behind it. So a checkpoint of one rank holds all of them, and any number of ranks goes on from it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tazza.distributed.data_parallel import WORLD
from tazza.distributed.membership import Membership
from tazza.errors import NetError
from tazza.operator import find_argument, operator_def
from tazza.proto import NetDef, OperatorDef

OWN, ALL = "_of_rank", "_of_all"


def share_states(init_net: NetDef, train_net: NetDef, carried: Mapping[str, str], membership: Membership) -> None:
    """Let nets that `parallel_nets` has made for states (1, n, ...) of n examples have those of all ranks; in place.

    Args:
        init_net: makes each state by an operator with a `shape`, such as ConstantFill.
        train_net: reads each state, and copies over it what it becomes.
        carried: by the name of a state, what it becomes.
        membership: which rank this is.

    Raises:
        NetError: no such operator makes a state, or nothing is copied over it.
    """
    taken: list[OperatorDef] = []
    for state, after in carried.items():
        shape = _whole_shape(init_net, state, membership.size)
        position = _copy_of(train_net, after, state)
        examples = shape[1] // membership.size
        starts, ends = [0] * len(shape), [-1] * len(shape)
        starts[1], ends[1] = membership.rank * examples, (membership.rank + 1) * examples
        for op in train_net.op[:position]:
            op.input[:] = [f"{state}{OWN}" if name == state else name for name in op.input]
        taken.append(operator_def("Slice", [state], [f"{state}{OWN}"], starts=starts, ends=ends))
        joined = [
            operator_def("Allgather", [WORLD, after], [f"{state}{ALL}"]),
            operator_def("Reshape", [f"{state}{ALL}"], [state, f"{state}{ALL}_shape"], shape=shape),
        ]
        _replace(train_net, position, joined)
    _replace(train_net, None, taken)


def _whole_shape(init_net: NetDef, state: str, ranks: int) -> list[int]:
    """Let a state have the examples of all ranks, and return its shape."""
    maker = next((op for op in init_net.op if state in op.output), None)
    shape = None if maker is None else find_argument(maker, "shape")
    if shape is None or len(shape.ints) < 2 or shape.ints[0] != 1:
        raise NetError(f"net {init_net.name!r} does not make the state {state!r} as (1, examples, ...)")
    shape.ints[1] *= ranks
    return list(shape.ints)


def _copy_of(net: NetDef, source: str, target: str) -> int:
    """Return the position of the operator that copies one blob over the other."""
    for position, op in enumerate(net.op):
        if list(op.input) == [source] and list(op.output) == [target]:
            return position
    raise NetError(f"net {net.name!r} does not copy {source!r} over {target!r}")


def _replace(net: NetDef, position: int | None, ops: list[OperatorDef]) -> None:
    """Put operators into the place of one, or, for None, in front of all."""
    before, behind = ([], list(net.op)) if position is None else (list(net.op[:position]), list(net.op[position + 1 :]))
    made = NetDef(op=[*before, *ops, *behind])
    del net.op[:]
    net.op.extend(made.op)
