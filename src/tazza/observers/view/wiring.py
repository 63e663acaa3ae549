"""Who reads from whom in a net, for drawing: where an operator is not legal, by its inputs and outputs alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tazza.data_class import dataclass
from tazza.errors import TazzaError
from tazza.graph.versions import VersionedOps
from tazza.operator import touches
from tazza.proto import OperatorDef


@dataclass(frozen=True, slots=True)
class Wiring:
    """Edges between operators by position, who reads each blob from outside, and who writes each blob last.

    `in_place` are the operators that write over what they read.
    """

    edges: tuple[tuple[int, int], ...]
    readers: Mapping[str, tuple[int, ...]]
    last: Mapping[str, int]
    in_place: frozenset[int]


def wiring_of(ops: Iterable[OperatorDef]) -> Wiring:
    """Return the wiring of operators in order; who writes over what nobody has read comes behind who wrote it.

    >>> from tazza.operator import operator_def
    >>> found = wiring_of([operator_def("Relu", ["x"], ["y"]), operator_def("Relu", ["y"], ["y"])])
    >>> found.edges, dict(found.readers), found.in_place
    (((0, 1),), {'x': (0,)}, frozenset({1}))
    """
    known = VersionedOps(map(_told, ops))
    edges: dict[tuple[int, int], None] = {}
    outside: dict[str, list[int]] = {}
    for position, one in enumerate(known.ops):
        for value in one.read.items():
            if value in known.writers:
                edges[known.writers[value], position] = None
            else:
                outside.setdefault(value[0], []).append(position)
        for name, version in one.written.items():
            earlier = name, version - 1
            if earlier in known.writers and earlier not in known.readers:
                edges[known.writers[earlier], position] = None
    in_place = frozenset(at for at, one in enumerate(known.ops) if not one.read.keys().isdisjoint(one.written))
    return Wiring(
        tuple(edges),
        {name: tuple(positions) for name, positions in outside.items()},
        {
            name: known.writers[name, version]
            for name, version in known.last.items()
            if (name, version) in known.writers
        },
        in_place,
    )


def _told(op: OperatorDef) -> OperatorDef:
    """Return an operator of which it can be told what it touches: where it is not legal, one of the same names."""
    try:
        touches(op)
    except TazzaError:
        return OperatorDef(input=op.input, output=op.output)
    return op
