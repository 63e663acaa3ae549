"""Layers, lanes and routes: what holds for every net, and where the items of a few lie."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.observers.view.layout import ENTRY, LANES_MAX, Arrangement, Way, arrange

Edges = list[tuple[int, int]]


@st.composite
def nets(draw: st.DrawFn) -> tuple[int, Edges]:
    """Draw a number of items and edges that follow their order, some from outside, some to the end."""
    count = draw(st.integers(1, 30))
    pairs = draw(st.lists(st.tuples(st.integers(ENTRY, count - 1), st.integers(0, count)), max_size=60))
    return count, [(source, target) for source, target in pairs if source < target]


@settings(max_examples=40)
@given(nets())
def test_laws(net: tuple[int, Edges]) -> None:
    count, edges = net
    found = arrange(count, edges)
    places = list(zip(found.layers, found.lanes, strict=True))
    assert len(set(places)) == count, "no two items in one place"
    layers = {ENTRY: 0, count: found.depth + 1, **dict(enumerate(found.layers))}
    assert all(layers[source] < layers[target] for source, target in edges)
    assert {(route.source, route.target) for route in found.routes} == set(edges), "every edge has one route"
    lanes = {ENTRY: 0, count: 0, **dict(enumerate(found.lanes))}
    for route in found.routes:
        rows = range(layers[route.source] + 1, layers[route.target])
        assert (route.way is Way.SHORT) == (len(rows) == 0)
        if route.way is Way.LANE:
            assert all((row, route.lane) not in places for row in rows), "a lane that an edge takes is free"
        if route.way is Way.GUTTER:
            assert route.lane == max(lanes[route.source], lanes[route.target])
            assert route.track < found.tracks[route.lane]
    _check_no_two_share_a_way(found, layers)
    _check_open(found, layers)


def _check_no_two_share_a_way(found: Arrangement, layers: dict[int, int]) -> None:
    spans: dict[tuple[Way, int, int], dict[int, tuple[int, int]]] = {}
    for route in found.routes:
        if route.way is not Way.SHORT:
            own = spans.setdefault((route.way, route.lane, route.track), {})
            begin, end = own.get(route.source, (layers[route.source], 0))
            own[route.source] = begin, max(end, layers[route.target])
    for own in spans.values():
        assert all(end <= begin for (_, end), (begin, _) in pairwise(sorted(own.values())))


def _check_open(found: Arrangement, layers: dict[int, int]) -> None:
    for item in found.open:
        layer, lane = found.layers[item], found.lanes[item]
        assert all(found.lanes[other] <= lane for other, own in enumerate(found.layers) if own == layer)
        for route in found.routes:
            if route.way is not Way.SHORT and layers[route.source] < layer < layers[route.target]:
                assert (route.lane, int(route.way)) <= (lane, int(Way.LANE))


def test_a_chain_stays_in_one_lane_and_what_skips_it_in_the_gutter() -> None:
    found = arrange(4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    assert found.layers == (1, 2, 3, 4)
    assert found.lanes == (0, 0, 0, 0)
    assert [route.way for route in found.routes if (route.source, route.target) == (0, 3)] == [Way.GUTTER]


def test_a_branch_goes_down_its_own_lane() -> None:
    found = arrange(6, [(0, 1), (1, 2), (2, 3), (0, 4), (3, 5), (4, 5)])
    assert found.lanes == (0, 0, 0, 0, 1, 0)
    assert [route.lane for route in found.routes if route.way is Way.LANE] == [1]


def test_what_reads_nothing_lies_above_its_reader() -> None:
    found = arrange(5, [(0, 1), (1, 2), (3, 4), (2, 4)])
    assert found.layers == (1, 2, 3, 3, 4)
    assert found.lanes[3] == 1


def test_wide_layers_are_broken() -> None:
    found = arrange(1 + 3 * LANES_MAX, [(0, item) for item in range(1, 1 + 3 * LANES_MAX)])
    assert max(found.lanes) == LANES_MAX - 1
    assert found.depth == 4


def test_lanes_of_before_are_kept() -> None:
    edges = [(0, 1), (0, 2), (1, 3), (2, 3)]
    assert arrange(4, edges, {2: 0, 1: 1}).lanes == (0, 1, 0, 0)
