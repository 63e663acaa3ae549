"""Where the operators of a net are drawn: a layered layout in linear time, for nets, whose operators have an order.

    layer = longest path     an operator lies one layer below the lowest one that it reads from; where a layer is full,
                             in the next one that is not; what reads nothing just above its first reader
    lane = order             operators of a layer stand side by side: each in the leftmost lane of what it reads, or in
                             the next free one to the right, in the order of the net
    long edges               go straight down the lane of one of their ends where it is free that far, or else down a
                             track of the gutter to the right of that lane; edges from one operator share a track

Nothing is sought, counted in crossings or iterated. Lanes that operators had in another picture of the same net may be
given, so that they stay where they were from pass to pass. An `Arrangement` knows rows and columns; how large these
are depends on what is folded, and follows from one pass over them (`geometry.py`, and the same in `graph.js`).

Items are numbered in the order of the net, which every edge follows. Number -1 (`ENTRY`) stands for what lies before
the first one, where edges from outside come in, and the number of items for what lies behind the last one.
"""

from __future__ import annotations

import bisect
import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import IntEnum

from tazza.data_class import dataclass

ENTRY = -1
LANES_MAX = 12
"""Items of a layer; those of wider nets, such as a hundred look-ups side by side, take several layers."""


class Way(IntEnum):
    """How an edge gets to its end."""

    SHORT = 0
    """To the next layer."""
    LANE = 1
    """Straight down a lane."""
    GUTTER = 2
    """Down a track beside a lane."""


@dataclass(frozen=True, slots=True)
class Route:
    """An edge from one item to another, the lane that it takes or lies beside, and its track there."""

    source: int
    target: int
    way: Way = Way.SHORT
    lane: int = 0
    track: int = 0


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Layer and lane of each item, and the routes of edges. `tracks` says how many each lane's gutter has.

    Layer 0 is that of the entry; the exit has a layer of its own below all others. Items of which nothing lies to the
    right in their layer, and past which no edge leads there, are `open`: they may be wide without moving other lanes.
    """

    layers: tuple[int, ...]
    lanes: tuple[int, ...]
    routes: tuple[Route, ...]
    tracks: tuple[int, ...]
    depth: int
    """Layers, without those of entry and exit."""
    open: frozenset[int]


def arrange(count: int, edges: Iterable[tuple[int, int]], lanes: Mapping[int, int] | None = None) -> Arrangement:
    """Return where `count` items lie; `lanes` are those that some of them had before.

    >>> found = arrange(4, [(0, 1), (1, 3), (0, 2), (2, 3), (0, 3)])
    >>> found.layers, found.lanes
    ((1, 2, 2, 3), (0, 0, 1, 0))
    >>> [route for route in found.routes if route.way is not Way.SHORT]
    [Route(source=0, target=3, way=<Way.GUTTER: 2>, lane=0, track=0)]
    """
    graph = _Graph(count)
    for source, target in dict.fromkeys(edges):
        graph.before[target].append(source)
        graph.behind[source].append(target)
    layers = _layers(graph)
    depth = max(layers.values(), default=0)
    layers[ENTRY], layers[count] = 0, depth + 1
    taken = _lanes(graph, layers, {} if lanes is None else lanes)
    routes, tracks = _routes(graph, layers, taken)
    numbers = range(count)
    alone = _open(graph, layers, taken, routes)
    return Arrangement(
        tuple(layers[i] for i in numbers), tuple(taken[i] for i in numbers), routes, tracks, depth, alone
    )


@dataclass(slots=True)
class _Graph:
    """Who reads from whom; the exit is the item of number `count`."""

    count: int
    before: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    behind: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def is_source(self, item: int) -> bool:
        """Whether it reads nothing, and somebody reads it."""
        return not self.before[item] and any(reader < self.count for reader in self.behind[item])


def _layers(graph: _Graph) -> dict[int, int]:
    rows = _Rows()
    found: dict[int, int] = {ENTRY: 0}
    for item in range(graph.count):
        if graph.is_source(item):
            found[item] = 1  # for its readers; it is placed when their layers are known
        else:
            found[item] = rows.place(1 + max((found[one] for one in graph.before[item]), default=0))
    for item in range(graph.count):
        if graph.is_source(item):
            readers = min(found[one] for one in graph.behind[item] if one < graph.count)
            found[item] = rows.place_above(readers)
    return found


class _Rows:
    """How many items each layer has; finds one with room, those that are full being skipped in one step."""

    def __init__(self) -> None:
        self._filled: defaultdict[int, int] = defaultdict(int)
        self._next: dict[int, int] = {}

    def place(self, layer: int) -> int:
        """Take a place in a layer, or in the first one below it that has room."""
        passed: list[int] = []
        while layer in self._next:
            passed.append(layer)
            layer = self._next[layer]
        self._next.update(dict.fromkeys(passed, layer))
        self._filled[layer] += 1
        if self._filled[layer] >= LANES_MAX:
            self._next[layer] = layer + 1
        return layer

    def place_above(self, layer: int) -> int:
        """Take a place in the layer above another one; what reads nothing may make a layer wider than others."""
        above = max(1, layer - 1)
        self._filled[above] += 1
        return above


def _lanes(graph: _Graph, layers: Mapping[int, int], before: Mapping[int, int]) -> dict[int, int]:
    """Return a lane for each item; what reads nothing comes last, beside its first reader."""
    lanes: dict[int, int] = {ENTRY: 0, graph.count: 0}
    taken: defaultdict[int, dict[int, int]] = defaultdict(dict)
    readers_last = sorted(range(graph.count), key=graph.is_source)
    for item in readers_last:
        near = graph.behind[item] if graph.is_source(item) else graph.before[item]
        wanted = before.get(item, min((lanes[one] for one in near if one in lanes), default=0))
        lanes[item] = _free_lane(taken[layers[item]], wanted)
    return lanes


def _free_lane(taken: dict[int, int], wanted: int) -> int:
    """Return the first free lane from the wanted one on, and take it; `taken` leads from each to a later one."""
    passed: list[int] = []
    lane = wanted
    while lane in taken:
        passed.append(lane)
        lane = taken[lane]
    taken.update(dict.fromkeys((*passed, lane), lane + 1))
    return lane


# -- edges -------------------------------------------------------------------------------------------------------------


def _routes(
    graph: _Graph, layers: Mapping[int, int], lanes: Mapping[int, int]
) -> tuple[tuple[Route, ...], tuple[int, ...]]:
    """Return a route for each edge, and the number of tracks beside each lane."""
    filled: defaultdict[int, list[int]] = defaultdict(list)
    for item in sorted(range(graph.count), key=lambda one: layers[one]):
        filled[lanes[item]].append(layers[item])
    reserved: dict[int, tuple[int, int]] = {}
    long: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    found: list[Route] = []
    for source in sorted((ENTRY, *range(graph.count)), key=lambda one: layers[one]):
        for target in graph.behind[source]:
            rows = layers[source], layers[target]
            if rows[1] == rows[0] + 1:
                found.append(Route(source, target))
                continue
            lane = _open_lane((lanes[target], lanes[source]), rows, source, filled, reserved)
            if lane is None:
                long[source, max(lanes[source], lanes[target])].append(target)
            else:
                found.append(Route(source, target, Way.LANE, lane))
    spans = {key: (layers[key[0]], max(layers[target] for target in targets)) for key, targets in long.items()}
    tracks = _tracks(spans)
    for key, targets in long.items():
        found.extend(Route(key[0], target, Way.GUTTER, key[1], tracks[key]) for target in targets)
    width = max((lane for lane in lanes.values()), default=0) + 1
    most = [0] * width
    for (_, lane), track in tracks.items():
        most[lane] = max(most[lane], track + 1)
    return tuple(found), tuple(most)


def _open_lane(
    lanes: Sequence[int],
    rows: tuple[int, int],
    source: int,
    filled: Mapping[int, Sequence[int]],
    reserved: dict[int, tuple[int, int]],
) -> int | None:
    """Return one of these lanes that is free between two rows, and keep it for the edges of `source` that far."""
    above, below = rows
    for lane in lanes:
        items = filled.get(lane, ())
        at = bisect.bisect_right(items, above)
        if at < len(items) and items[at] < below:
            continue
        end, owner = reserved.get(lane, (0, source))
        if end <= above or owner == source:
            reserved[lane] = max(end, below), source
            return lane
    return None


def _open(
    graph: _Graph, layers: Mapping[int, int], lanes: Mapping[int, int], routes: Sequence[Route]
) -> frozenset[int]:
    """Return the items to the right of which there is nothing in their layers.

    Routes that lie farthest to the right come first, and each layer counts for the first one that passes it.
    """
    farthest: dict[int, tuple[int, int]] = {}
    behind: dict[int, int] = {}
    long = (route for route in routes if route.way is not Way.SHORT)
    for route in sorted(long, key=lambda one: (one.lane, one.way), reverse=True):
        layer, end = layers[route.source] + 1, layers[route.target]
        passed: list[int] = []
        while layer < end:
            if layer not in farthest:
                farthest[layer] = route.lane, int(route.way)
            passed.append(layer)
            layer = behind.get(layer, layer + 1)
        behind.update(dict.fromkeys(passed, max(layer, end)))
    outer: dict[int, int] = {}
    for item in range(graph.count):
        outer[layers[item]] = max(outer.get(layers[item], 0), lanes[item])
    return frozenset(
        item
        for item in range(graph.count)
        if outer[layers[item]] == lanes[item] and farthest.get(layers[item], (-1, 0)) <= (lanes[item], int(Way.LANE))
    )


def _tracks(spans: Mapping[tuple[int, int], tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Return a track for each stretch (first and last row) beside a lane; those of a track do not overlap."""
    found: dict[tuple[int, int], int] = {}
    under_way: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    free: defaultdict[int, list[int]] = defaultdict(list)
    made: defaultdict[int, int] = defaultdict(int)
    for key in sorted(spans, key=lambda one: spans[one]):
        lane = key[1]
        first, last = spans[key]
        while under_way[lane] and under_way[lane][0][0] <= first:
            heapq.heappush(free[lane], heapq.heappop(under_way[lane])[1])
        if free[lane]:
            track = heapq.heappop(free[lane])
        else:
            track, made[lane] = made[lane], made[lane] + 1
        found[key] = track
        heapq.heappush(under_way[lane], (last, track))
    return found
