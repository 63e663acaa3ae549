"""How the nodes of a match hang together, and growing a match from its first node."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence

from tazza.graph.graph import Node


class Matching(enum.Enum):
    """Which nodes are asked whether they join a match."""

    CONNECTED = "connected"
    """Those that read from it or that it reads from; each as soon as a neighbour has joined."""
    SORTED = "sorted"
    """All nodes that run after the first, in that order."""
    GENERAL = "general"
    """All nodes, in the order in which they run."""


Joins = Callable[[Sequence[Node], Node], bool]
"""Whether a node may join a partial match."""


def grow(seed: Node, nodes: Sequence[Node], matching: Matching, joins: Joins) -> list[Node]:
    """Return the match that begins at `seed`, as large as `joins` lets it become.

    A node that was refused once is asked again only when another neighbour of it joins.
    """
    match = [seed]
    if matching is Matching.CONNECTED:
        for member in match:  # grows while it is walked
            for node in neighbours(member):
                if node.active and node not in match and joins(match, node):
                    match.append(node)
        return match
    for node in nodes:
        later = matching is Matching.GENERAL or node.order > seed.order
        if later and node.active and node is not seed and joins(match, node):
            match.append(node)
    return match


def neighbours(node: Node) -> Iterator[Node]:
    """Yield who reads what `node` writes, then who writes what it reads."""
    for value in node.outputs:
        yield from list(value.readers)
    for value in node.inputs:
        if value.producer is not None:
            yield value.producer
