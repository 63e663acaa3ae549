"""Orders of operators: legal ones, and those of the genuine Caffe2 where these did not hang on the order of a set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import ArgumentError, NetError
from tazza.graph.order import check_order, depth_first_order, longest_first_order, operator_edges
from tazza.graph.text import parse_net

RECORDED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "memory.json").read_text(encoding="utf-8")
)["orders"]


def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    count = draw(st.integers(1, 12))
    pairs = [(i, j) for j in range(count) for i in range(j)]
    return count, [pair for pair in pairs if draw(st.integers(0, 3)) == 0]


GRAPHS = st.composite(graphs)()


@given(GRAPHS)
def test_nobody_runs_before_whom_it_waits_for(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, edges = graph
    for order in (depth_first_order(range(count), edges), longest_first_order(range(count), edges)):
        check_order(order, range(count), edges)


def test_orders_are_those_of_caffe2() -> None:
    for one in RECORDED:
        edges = [(i, j) for i, j in one["edges"]]
        assert depth_first_order(range(one["nodes"]), edges) == one["depth first"]
        assert longest_first_order(range(one["nodes"]), edges) == one["longest first"]


def test_longer_paths_come_first() -> None:
    edges = [(0, 1), (1, 2), (3, 2), (4, 5)]
    assert longest_first_order(range(6), edges) == [0, 1, 3, 2, 4, 5]


@pytest.mark.parametrize("order", [depth_first_order, longest_first_order])
def test_a_cycle_is_refused(order: Any) -> None:
    with pytest.raises(NetError, match="2 of 3 nodes wait for each other"):
        order(range(3), [(0, 1), (1, 2), (2, 1)])


@pytest.mark.parametrize(
    ("order", "said"), [([0, 1], "2 nodes"), ([0, 1, 1], "2 of them once"), ([0, 2, 1], "node 2 waits for node 1")]
)
def test_an_order_that_is_none_is_refused(order: list[int], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        check_order(order, range(3), [(0, 1), (1, 2)])


def test_a_writer_waits_for_readers_of_the_old_value() -> None:
    """Where nothing else lets it wait; Caffe2 forgot about it, and could run it first."""
    assert operator_edges(parse_net("b = Relu(a)", "a = Relu(y)").op) == [(0, 1)]
    assert operator_edges(parse_net("a = Relu(x)", "a = Relu(y)").op) == [(0, 1)]
    assert operator_edges(parse_net("b = Copy(b)", "b = Copy(b)", "b = Copy(b)").op) == [(0, 1), (0, 2), (1, 2)]
