"""What nets take of memory, as far as shapes tell."""

from __future__ import annotations

import logging

import pytest

from tazza.errors import TazzaError
from tazza.graph.footprint import footprint
from tazza.graph.text import parse_net
from tazza.proto import DeviceOption

SHAPES = {"a": (2, 3), "b": (5,), "c": (), "d": (0, 3)}
TYPES = dict.fromkeys(SHAPES, 1)


def test_what_is_freed_and_made_again_counts_twice() -> None:
    net = parse_net("a = Relu(x)", "b = Relu(a)", "a = Free(a)", "a = Relu(b)")
    found = footprint([net], SHAPES, TYPES, DeviceOption())
    assert (found.made_bytes, found.peak_bytes, dict(found.by_type)) == (68, 44, {"Relu": 68})


def test_second_names_take_nothing() -> None:
    net = parse_net("a = Relu(x)", "d = Alias(a)", "c = Sum(d, d)")
    assert footprint([net], SHAPES, TYPES, DeviceOption()).by_type == {"Relu": 24, "Sum": 4}


def test_nets_follow_each_other() -> None:
    nets = [parse_net("a = Relu(x)"), parse_net("a = Relu(a)", "b = Relu(a)")]
    assert footprint(nets, SHAPES, TYPES, DeviceOption()).made_bytes == 44
    assert [len(net.op) for net in nets] == [1, 2]


def test_only_the_operators_of_a_device_count() -> None:
    net = parse_net("a = Relu(x) @cuda:1", "b = Relu(x) @cpu", "c = Relu(x)")
    assert footprint([net], SHAPES, TYPES, DeviceOption()).by_type == {"Relu": 24}
    assert footprint([net], SHAPES, TYPES, DeviceOption(device_type=1, device_id=1)).by_type == {"Relu": 24}


def test_what_is_not_known_counts_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = footprint([parse_net("e = Relu(x)", "a = Relu(x)")], SHAPES, TYPES, DeviceOption())
    assert found.made_bytes == 24
    assert "'e'" in caplog.text


def test_a_type_that_is_none_is_refused() -> None:
    with pytest.raises(TazzaError, match="99"):
        footprint([parse_net("a = Relu(x)")], SHAPES, {"a": 99}, DeviceOption())
