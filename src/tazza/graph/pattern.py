"""How the nodes of a match hang together, and finding the largest legal match that begins at a node."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence

from tazza.graph.graph import Node
from tazza.runtime.log import logger

MOST_ASKED = 100_000
"""Nodes that one search asks whether they join; then the largest match found by then counts."""


class Matching(enum.Enum):
    """Which nodes are asked whether they join a match."""

    CONNECTED = "connected"
    """Those that read from it or that it reads from, in the order in which its nodes have joined."""
    SORTED = "sorted"
    """Those that run after all of it, in that order."""
    GENERAL = "general"
    """All nodes, in the order in which they run."""


Joins = Callable[[Sequence[Node], Node], bool]
"""Whether a node may join a partial match."""
Legal = Callable[[Sequence[Node]], bool]
"""Whether a match is complete, and may be rewritten."""


def largest_match(
    seed: Node, nodes: Sequence[Node], matching: Matching, joins: Joins, legal: Legal, *, greedy: bool = False
) -> list[Node]:
    """Return the largest legal match that begins at `seed`, the first found of several; an empty one if there is none.

    All ways to grow are tried, and every part of a match is one too: where nodes may join in several orders, or one
    shuts out another, that is exponential in the size of the match. With `greedy` whoever may join does, and nobody is
    taken out but the last to join, until the match is legal. `legal` is asked last for what is returned, so that it
    may keep notes.

    Args:
        seed: the first node; it may begin a match.
        nodes: all nodes, in the order in which they run.
        matching: who is asked.
        joins: the answer.
        legal: whether a match counts.
        greedy: grow one match, instead of trying all.
    """
    if greedy:
        match = _grow(seed, nodes, matching, joins)
        while match and not legal(match):
            match.pop()
        return match
    search = _Search(nodes, matching, joins, legal)
    search.extend([seed])
    if search.asked > MOST_ASKED:
        logger.warning("a search for matches was ended after %d tries; the largest match until then counts", MOST_ASKED)
    if search.best and search.last is not search.best:
        legal(search.best)
    return search.best


class _Search:
    """Tries all ways to grow, the deepest first: of what is smaller than the best nobody asks whether it is legal."""

    def __init__(self, nodes: Sequence[Node], matching: Matching, joins: Joins, legal: Legal) -> None:
        self._nodes, self._matching, self._joins, self._legal = nodes, matching, joins, legal
        self.best: list[Node] = []
        self.last: list[Node] = []
        self.asked = 0

    def extend(self, match: list[Node]) -> None:
        refused: set[int] = set()  # of this very match: a node that is a neighbour twice is asked once
        for node in candidates(match, self._nodes, self._matching):
            if self.asked > MOST_ASKED:
                break
            if id(node) in refused:
                continue
            refused.add(id(node))
            self.asked += 1
            if self._joins(match, node):
                self.extend([*match, node])
        if len(match) > len(self.best):
            self.last = match
            if self._legal(match):
                self.best = match


def _grow(seed: Node, nodes: Sequence[Node], matching: Matching, joins: Joins) -> list[Node]:
    """Let join who may, and ask the others again until none does."""
    match, grown = [seed], 0
    while grown < len(match):
        grown = len(match)
        for node in candidates(match, nodes, matching):
            if node not in match and joins(match, node):
                match.append(node)
    return match


def candidates(match: Sequence[Node], nodes: Sequence[Node], matching: Matching) -> Iterator[Node]:
    """Yield the active nodes outside of `match` that are asked whether they join it; some of them more than once."""
    if matching is Matching.CONNECTED:
        asked = (node for member in match for node in neighbours(member))
    elif matching is Matching.SORTED:
        asked = (node for node in nodes if node.order > match[-1].order)
    else:
        asked = iter(nodes)
    return (node for node in asked if node.active and node not in match)


def neighbours(node: Node) -> Iterator[Node]:
    """Yield who reads what `node` writes, then who writes what it reads."""
    for value in node.outputs:
        yield from list(value.readers)
    for value in node.inputs:
        if value.producer is not None:
            yield value.producer
