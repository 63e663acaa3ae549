"""From when to when values are needed."""

from __future__ import annotations

from tazza.graph.liveness import LiveRange, live_ranges
from tazza.graph.text import parse_net


def test_ranges_of_versions() -> None:
    net = parse_net("in: x, w", "out: z", "y = Relu(x)", "y = Relu(y)", "u = Relu(x)", "z = Sum(y, w)", "w = Sum(w, z)")
    assert live_ranges(net) == [
        LiveRange("x", 0, -1, 5, None),
        LiveRange("w", 0, -1, 4, None),
        LiveRange("y", 0, 0, 1, None),
        LiveRange("y", 1, 1, 3, 2),
        LiveRange("u", 0, 2, 2, None),
        LiveRange("z", 0, 3, 5, None),
        LiveRange("w", 1, 4, 5, 1),
    ]


def test_what_is_kept_lives_to_the_end() -> None:
    net = parse_net("in: x", "out: z", "y = Relu(x)", "z = Relu(y)")
    assert [r.last for r in live_ranges(net) if r.name == "y"] == [1]
    assert [r.last for r in live_ranges(net, {"y"}) if r.name == "y"] == [2]


def test_names_that_are_used_anew_are_ranges_of_their_own() -> None:
    net = parse_net("in: x", "out: z", "t = Relu(x)", "y = Relu(t)", "t = Relu(x)", "z = Sum(t, y)")
    ranges = [(r.first, r.last, r.over) for r in live_ranges(net) if r.name == "t"]
    assert ranges == [(0, 1, None), (2, 3, None)]


def test_inputs_that_are_not_listed_survive_as_well() -> None:
    ranges = live_ranges(parse_net("y = Relu(x)"))
    assert [(r.name, r.first, r.last, r.external) for r in ranges] == [("x", -1, 1, True), ("y", 0, 0, False)]
