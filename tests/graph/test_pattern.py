"""Matching: what every transform can rely on, against a search that tries everything."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from random import Random

import pytest

from tazza.graph import pattern
from tazza.graph.graph import Graph, Node
from tazza.graph.pattern import Matching, candidates, largest_match
from tazza.graph.text import parse_net
from tazza.graph.transform import TRANSFORMS
from tazza.proto import NetDef

CHAIN = "in: x\na = Relu(x)\nb = Tanh(a)\nc = Sigmoid(b)\nd = Softmax(c)\nout: d"
"""1 -> 2 -> 3 -> 4."""


def anyone(partial: Sequence[Node], node: Node) -> bool:
    """Let every node join."""
    del partial, node
    return True


def match_of(graph: Graph, matching: Matching, wanted: Sequence[str]) -> list[str]:
    """Return the types of the largest match whose nodes have the types `wanted`, in that order."""
    nodes = list(graph.nodes())
    (seed,) = [node for node in nodes if node.type == wanted[0]]

    def joins(partial: Sequence[Node], node: Node) -> bool:
        return len(partial) < len(wanted) and node.type == wanted[len(partial)]

    found = largest_match(seed, nodes, matching, joins, lambda match: len(match) == len(wanted))
    return [node.type for node in found]


@pytest.mark.parametrize(
    ("matching", "wanted", "matches"),
    [
        (Matching.GENERAL, ("Softmax", "Tanh", "Relu"), True),
        (Matching.CONNECTED, ("Tanh", "Relu", "Sigmoid"), True),
        (Matching.CONNECTED, ("Softmax", "Tanh", "Relu"), False),
        (Matching.SORTED, ("Relu", "Tanh", "Softmax"), True),
        (Matching.SORTED, ("Tanh", "Relu"), False),
    ],
)
def test_a_chain_is_matched_in_the_order_of_the_pattern(
    matching: Matching, wanted: tuple[str, ...], matches: bool
) -> None:
    assert match_of(Graph.of(parse_net(CHAIN)), matching, wanted) == (list(wanted) if matches else [])


def test_a_part_counts_where_the_whole_is_not_legal() -> None:
    nodes = list(Graph.of(parse_net(CHAIN)).nodes())
    asked: list[int] = []

    def legal(match: Sequence[Node]) -> bool:
        asked.append(len(match))
        return len(match) <= 2

    for greedy in (False, True):
        asked.clear()
        found = largest_match(nodes[0], nodes, Matching.SORTED, anyone, legal, greedy=greedy)
        assert len(found) == 2
        assert asked[-1] == 2, "the validator may keep notes: it is asked last for what is rewritten"


def test_a_node_that_was_refused_is_asked_again() -> None:
    net = "in: x\na = Relu(x)\nb = Tanh(x)\nc = Sum(a, b)\nout: c"
    nodes = list(Graph.of(parse_net(net)).nodes())

    def after_the_sum(partial: Sequence[Node], node: Node) -> bool:
        return node.type == "Sum" or any(one.type == "Sum" for one in partial)

    for greedy in (False, True):
        found = largest_match(nodes[0], nodes, Matching.GENERAL, after_the_sum, lambda _: True, greedy=greedy)
        assert {node.type for node in found} == {"Relu", "Tanh", "Sum"}


def random_graph(random: Random, size: int) -> Graph:
    """Return a graph of nodes that read one or two of those before."""
    lines = ["in: x"]
    for number in range(size):
        known = ["x", *(f"v{one}" for one in range(number))]
        reads = random.sample(known, min(len(known), random.choice([1, 1, 2])))
        lines.append(f"v{number} = Sum({', '.join(reads)})")
    return Graph.of(parse_net("\n".join(lines)))


def every_match(seed: Node, nodes: Sequence[Node], matching: Matching, joins: pattern.Joins) -> list[tuple[Node, ...]]:
    """Return all matches, by trying every order of every set of nodes: another way than growing one."""
    others = [node for node in nodes if node is not seed]
    found: list[tuple[Node, ...]] = []
    for size in range(len(others) + 1):
        for rest in permutations(others, size):
            match = (seed, *rest)
            if all(
                node in set(candidates(match[:place], nodes, matching)) and joins(match[:place], node)
                for place, node in enumerate(match)
                if place > 0
            ):
                found.append(match)
    return found


@pytest.mark.parametrize("seed", range(200))
def test_random_patterns_agree_with_a_search_that_tries_everything(seed: int) -> None:
    random = Random(seed)
    nodes = list(random_graph(random, random.randint(2, 6)).nodes())
    matching = random.choice(list(Matching))
    salt = random.random()

    def joins(partial: Sequence[Node], node: Node) -> bool:  # any answer, that hangs on who is there in which order
        key = (salt, *(nodes.index(one) for one in partial), -1, nodes.index(node))
        return Random(repr(key)).random() < 0.6

    def legal(match: Sequence[Node]) -> bool:
        return Random(repr((salt, sorted(nodes.index(one) for one in match)))).random() < 0.5

    first = random.choice(nodes)
    legal_ones = [match for match in every_match(first, nodes, matching, joins) if legal(match)]
    found = largest_match(first, nodes, matching, joins, legal)
    assert len(found) == max((len(match) for match in legal_ones), default=0)
    assert not found or tuple(found) in legal_ones


def test_a_search_without_end_is_ended(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(pattern, "MOST_ASKED", 1000)
    nodes = list(random_graph(Random(1), 14).nodes())
    found = largest_match(nodes[0], nodes, Matching.GENERAL, anyone, lambda match: len(match) < 14)
    assert len(found) == 13
    assert "was ended after 1000 tries" in caplog.text


DEAD = """
in: x, y
out: z
a = Relu(x)
b = Tanh(a)
d = Relu(y)
z = Sigmoid(d)
e = Tanh(d)
"""


@pytest.mark.parametrize("name", list(TRANSFORMS))
def test_every_transform_works_alone_on_a_net_with_dead_operators(name: str) -> None:
    net: NetDef = parse_net(DEAD)
    made = TRANSFORMS[name]().apply(net)
    assert "z" in {output for op in made.net.op for output in op.output}
