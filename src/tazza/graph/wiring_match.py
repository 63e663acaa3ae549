"""Finding pieces of a wiring: what is wanted of nodes, one after the other along edges.

A pattern is a graph of `Wanted`. It is laid at a node, and from there along edges out of it: where `whole` is said of a
wanted node, all edges that leave the node have to be in the pattern, in that order, as often as they are there; else
the pattern ends there, whatever it lists behind. What leads into a node is nobody's question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

from tazza.data_class import dataclass
from tazza.graph.wiring import Wired, Wiring


@dataclass(eq=False, slots=True)
class Wanted:
    """What one node of a match has to be.

    Args:
        accepts: whether a node is that.
        whole: whether `targets` stand for all that the node leads to.
        targets: what is wanted of these.
    """

    accepts: Callable[[Wired], bool]
    whole: bool = False
    targets: list[Wanted] = field(default_factory=list["Wanted"])


def first_wanted(pattern: Sequence[Wanted]) -> Wanted | None:
    """Return the wanted node that a pattern is laid at: the last that no other leads to; None where there is none."""
    reached = {target for one in pattern for target in one.targets}
    return next((one for one in reversed(pattern) if one not in reached), None)


def match_at(node: Wired, wanted: Wanted) -> list[Wired]:
    """Return the nodes on which a pattern comes to lie when it is laid at `node`, which is first; none if it fails.

    >>> from tazza.graph.text import parse_net
    >>> wiring = Wiring.of(parse_net("y = Relu(x)", "z = Sum(y, x)"))
    >>> blob = Wanted(lambda node: node in wiring.blobs)
    >>> relu = Wanted(lambda node: node.name == "Relu", whole=True, targets=[blob])
    >>> [match_at(node, relu) for node in wiring.nodes]
    [[y = Relu(x), y], [], [], [], []]
    """
    found: dict[Wanted, Wired] = {}
    ahead = [(node, wanted)]
    while ahead:
        here, one = ahead.pop()
        if one in found:
            if found[one] is not here:
                return []
            continue
        if not one.accepts(here):
            return []
        found[one] = here
        if one.whole:
            if len(one.targets) != len(here.targets):
                return []
            ahead += reversed(list(zip(here.targets, one.targets, strict=True)))
    return list(dict.fromkeys(found.values()))


def matches(wiring: Wiring, pattern: Sequence[Wanted]) -> Iterator[list[Wired]]:
    """Yield the matches at all nodes that are there by now; between two of them the wiring may be changed."""
    wanted = first_wanted(pattern)
    for node in [] if wanted is None else list(wiring.nodes):
        match = match_at(node, wanted) if wanted is not None and node in wiring.nodes else []
        if match:
            yield match
