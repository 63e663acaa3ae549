"""Nets that are joined alike."""

from __future__ import annotations

import pytest

from tazza.graph.likeness import unlike_in_place, unlike_wiring
from tazza.graph.text import parse_net

BASE = ("a = Relu(x)", "b = Relu(a)", "c = Sum(a, b)")


@pytest.mark.parametrize(
    ("lines", "position"),
    [
        (("q = Relu(x)", "r = Relu(q)", "s = Sum(q, r)"), None),
        (("b = Relu(x)", "c = Relu(b)", "b = Sum(b, c)"), None),
        (("a = Relu(x)", "b = Relu(a)", "c = Sum(b, a)"), 2),
        (("a = Relu(x)", "b = Tanh(a)", "c = Sum(a, b)"), 1),
        (("a = Relu(x)", "b = Relu(a) @cuda:0", "c = Sum(a, b)"), 1),
        (BASE[:2], 2),
    ],
)
def test_the_first_operator_that_is_joined_otherwise(lines: tuple[str, ...], position: int | None) -> None:
    one, other = parse_net(*BASE), parse_net(*lines)
    assert unlike_wiring(one, other) == unlike_wiring(other, one) == position


def test_devices_are_compared_as_they_are_meant() -> None:
    assert unlike_wiring(parse_net("a = Relu(x)"), parse_net("a = Relu(x) @cpu")) is None


@pytest.mark.parametrize(
    ("one", "other", "position"),
    [
        ("x = Sum(x, y)", "x = Sum(y, x)", 0),
        ("x = Sum(x, y)", "p = Sum(p, q)", None),
        ("x = Relu(x)", "x = Tanh(x)", 0),
    ],
)
def test_what_is_written_over(one: str, other: str, position: int | None) -> None:
    assert unlike_in_place(parse_net(one), parse_net(other)) == position
