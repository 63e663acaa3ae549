"""Orders in which operators can run: what must come first comes first, and what is freed early is freed early.

Nodes are numbered; an edge (i, j) lets j wait for i. All choices follow from the order of nodes and edges, so that the
same graph has the same order in every process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from tazza.errors import ArgumentError, NetError
from tazza.graph.dependency import Access, dependencies
from tazza.operator import touches
from tazza.proto import OperatorDef

Node = TypeVar("Node", bound=Hashable)


def operator_edges(ops: Sequence[OperatorDef]) -> list[tuple[int, int]]:
    """Return who has to run before whom: who writes a blob before all who read it later, and what else is needed.

    What else is needed keeps later writers behind earlier readers and writers, where no other edges do.

    >>> from tazza.graph.text import parse_net
    >>> operator_edges(parse_net("a = Relu(x)", "b = Relu(a)", "a = Relu(y)", "c = Relu(a)").op)
    [(0, 1), (0, 3), (1, 2), (2, 3)]

    Raises:
        SchemaError, ArgumentError, FormatError: an operator with nets is not legal.
    """
    accesses = [Access((*one.reads, *one.after), one.writes) for one in map(touches, ops)]
    writers: defaultdict[Hashable, list[int]] = defaultdict(list)
    earlier: list[int] = []  # bit i of earlier[j]: i runs before j
    edges: list[tuple[int, int]] = []
    for position, (access, needed) in enumerate(zip(accesses, dependencies(accesses).parents, strict=True)):
        found = {writer for name in access.reads for writer in writers[name]}
        reached = 0
        for one in found:
            reached |= earlier[one] | 1 << one
        for one in reversed(needed):
            if not reached >> one & 1:
                found.add(one)
                reached |= earlier[one] | 1 << one
        edges += [(one, position) for one in found]
        earlier.append(reached)
        for name in access.writes:
            writers[name].append(position)
    return sorted(edges)


def depth_first_order(
    nodes: Iterable[Node], edges: Iterable[tuple[Node, Node]], last: Iterable[Node] | None = None
) -> list[Node]:
    """Return an order in which what has just become possible comes next, and the last of several first.

    >>> depth_first_order(range(4), [(0, 1), (1, 3), (2, 3)])
    [2, 0, 1, 3]

    Args:
        nodes: all of them.
        edges: of each the second waits for the first.
        last: nodes that wait for nobody, the one that comes first last; as `nodes` has them where it is missing.

    Raises:
        NetError: some wait for each other.
    """
    waiting = dict.fromkeys(nodes, 0)
    behind: dict[Node, list[Node]] = {node: [] for node in waiting}
    for one, other in edges:
        behind[one].append(other)
        waiting[other] += 1
    ready = [node for node, count in waiting.items() if not count] if last is None else list(last)
    order: list[Node] = []
    while ready:
        node = ready.pop()
        order.append(node)
        for other in behind[node]:
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    if len(order) < len(waiting):
        raise NetError(f"{len(waiting) - len(order)} of {len(waiting)} nodes wait for each other: there is a cycle")
    return order


def longest_first_order(nodes: Iterable[Node], edges: Iterable[tuple[Node, Node]]) -> list[Node]:
    """Return an order in which longer paths to the end come before shorter ones.

    Each node that waits for nobody has a longest path; these paths join to a tree towards the end. Its branches are
    walked from the deepest to the flattest one.

    >>> longest_first_order(range(6), [(0, 1), (1, 3), (2, 3), (4, 5)])
    [0, 1, 2, 3, 4, 5]

    Raises:
        NetError: some wait for each other.
    """
    listed, pairs = list(nodes), list(edges)
    behind: dict[Node, list[Node]] = {node: [] for node in listed}
    for one, other in pairs:
        behind[one].append(other)
    height: dict[Node, int] = {}
    for node in reversed(depth_first_order(listed, pairs)):
        height[node] = 1 + max((height[other] for other in behind[node]), default=-1)
    led = {other for _, other in pairs}
    sources = [node for node in listed if node not in led]
    return depth_first_order(listed, pairs, _flattest_first(sources, behind, height))


def check_order(order: Sequence[Node], nodes: Iterable[Node], edges: Iterable[tuple[Node, Node]]) -> None:
    """Check that an order has each node once, and those that wait behind those they wait for.

    Raises:
        ArgumentError: it has not.
    """
    place = {node: position for position, node in enumerate(order)}
    listed = set(nodes)
    if len(order) != len(listed) or place.keys() != listed:
        raise ArgumentError(f"an order of {len(order)} nodes, {len(place)} of them once, is asked for {len(listed)}")
    for one, other in edges:
        if place[one] > place[other]:
            raise ArgumentError(f"node {other} waits for node {one}, and comes before it")


def _flattest_first(sources: Sequence[Node], behind: dict[Node, list[Node]], height: dict[Node, int]) -> list[Node]:
    """Return the leaves of the tree of longest paths, branches by what stands on them."""
    branches: defaultdict[Node | None, dict[Node, None]] = defaultdict(dict)
    depth: dict[Node, int] = {}
    for source in sources:
        node, below = source, 0
        while True:
            depth[node] = max(depth.get(node, 0), below)
            following = max(behind[node], key=lambda other: height[other]) if behind[node] else None
            branches[following][node] = None
            if following is None:
                break
            node, below = following, below + 1
    leaves: list[Node] = []
    left: list[Node | None] = [None]
    while left:
        node = left.pop()
        if node is not None and node not in branches:
            leaves.append(node)
        left.extend(sorted(branches.get(node, {}), key=lambda one: depth[one])[::-1])
    return leaves
