"""From when to when each value of a net is needed: what a memory plan starts from."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tazza.graph.versions import VersionedOps
from tazza.proto import NetDef

OUTSIDE = -1
"""Position of what makes external inputs."""


@dataclass(frozen=True, slots=True)
class LiveRange:
    """One version of a blob (versions count as in `graph.versions`), by positions of operators.

    Args:
        name: the blob.
        version: which of its values.
        first: the operator that writes it; -1 when it comes from outside.
        last: the last operator that reads it, `first` when nobody does; the number of operators when it survives the
            run.
        over: index of the range that the operator `first` reads under the same name: it is overwritten in place.
    """

    name: str
    version: int
    first: int
    last: int
    over: int | None

    @property
    def external(self) -> bool:
        """Whether it comes from outside."""
        return self.first == OUTSIDE


def live_ranges(net: NetDef, keep: Collection[str] = ()) -> list[LiveRange]:
    """Return the range of every version of every blob, in the order in which they are made.

    To the end live: external outputs and `keep` (their last versions), and external inputs, the last version where
    they are written: those are parameters.

    >>> from tazza.graph.text import parse_net
    >>> net = parse_net("in: x", "out: y", "y = Relu(x)", "y = Relu(y)")
    >>> [(r.name, r.first, r.last, r.over) for r in live_ranges(net)]
    [('x', -1, 2, None), ('y', 0, 1, None), ('y', 1, 2, 1)]
    """
    ssa = VersionedOps(net.op)
    end = len(ssa.ops)
    made: dict[tuple[str, int], int] = {}
    for position, versions in enumerate(ssa.ops):
        for name, version in versions.read.items():
            made.setdefault((name, version), OUTSIDE)
        for name, version in versions.written.items():
            made[name, version] = position
    outside = {name for (name, _), first in made.items() if first == OUTSIDE}
    surviving = {*net.external_output, *keep, *net.external_input, *outside}
    places = {key: index for index, key in enumerate(sorted(made, key=lambda key: made[key]))}
    ranges: list[LiveRange] = []
    for name, version in places:
        first = made[name, version]
        readers = ssa.readers.get((name, version), [])
        last = end if name in surviving and ssa.last[name] == version else max([first, *readers])
        over = None
        if first != OUTSIDE and name in ssa.ops[first].read:
            over = places[name, ssa.ops[first].read[name]]
        ranges.append(LiveRange(name, version, first, last, over))
    return ranges
