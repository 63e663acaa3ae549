"""Nets as text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import FormatError
from tazza.graph.text import parse_net, print_net
from tazza.operator import operator_def
from tazza.proto import NetDef, TensorProto

NET = """
# a comment
net: small
type: plan
in: x, W, b
out: y
t = Conv(x, W, b; kernel=3, pads=[1, 0, 1, 0], order='NHWC', a='(;)=')
y, m = Dropout(t; ratio=0.5) @cuda:1 engine=CUDNN name=drop
dt = ReluGradient(y, t) @cpu gradient
n = Iter()
f = ConstantFill(; shape=[2], value=1.0)
Print(y)
"""


def test_a_net_is_read() -> None:
    net = parse_net(NET)
    assert (net.name, net.type, list(net.external_input), list(net.external_output)) == (
        "small",
        "plan",
        ["x", "W", "b"],
        ["y"],
    )
    conv, dropout, gradient, counter, fill, show = net.op
    expected = operator_def("Conv", ["x", "W", "b"], ["t"], kernel=3, pads=[1, 0, 1, 0], order="NHWC", a="(;)=")
    assert conv == expected
    assert list(dropout.output) == ["y", "m"]
    assert (dropout.engine, dropout.name, dropout.arg[0].f) == ("CUDNN", "drop", 0.5)
    assert (dropout.device_option.device_type, dropout.device_option.device_id) == (1, 1)
    assert gradient.is_gradient_op
    assert gradient.HasField("device_option")
    assert (list(counter.input), list(fill.input), list(show.output)) == ([], [], [])


def test_printing_and_reading_give_the_same() -> None:
    net = parse_net(NET)
    assert parse_net(print_net(net)) == net
    assert print_net(parse_net(print_net(net))) == print_net(net)


WRONG = [
    ("y = Relu x", "is no operator"),
    ("y = Relu(x; alpha)", "cannot be read"),
    ("y = Relu(x; alpha=open('f'))", "cannot be read"),
    ("y = Relu(a b)", "'a b' in .* is no name"),
    ("y = Relu(x) somewhere", "'somewhere' behind"),
]


@pytest.mark.parametrize(("line", "text"), WRONG, ids=lambda value: str(value)[:30])
def test_what_is_wrong_is_told(line: str, text: str) -> None:
    with pytest.raises(FormatError, match=text):
        parse_net(line)


def test_what_the_text_cannot_say_is_refused() -> None:
    with pytest.raises(FormatError, match="'t' is no number"):
        print_net(NetDef(op=[operator_def("Fill", [], ["y"], t=TensorProto())]))
    with pytest.raises(FormatError, match="blob named 'a b'"):
        print_net(NetDef(op=[operator_def("Relu", ["a b"], ["y"])]))


NAMES = st.text("abz_/.:1", min_size=1, max_size=4)
SCALARS = st.one_of(st.integers(-9, 2**40), st.floats(-5, 5, width=32), st.text(max_size=6))
VALUES = st.one_of(SCALARS, st.lists(st.integers(-3, 3), min_size=1), st.lists(st.text(max_size=3), min_size=1))


@pytest.mark.slow
@given(
    inputs=st.lists(NAMES, max_size=3),
    outputs=st.lists(NAMES, max_size=3),
    arguments=st.dictionaries(st.sampled_from(["a", "kernel", "x_1"]), VALUES),
)
def test_every_operator_is_read_as_it_was_printed(
    inputs: list[str], outputs: list[str], arguments: dict[str, Any]
) -> None:
    net = NetDef(op=[operator_def("Conv", inputs, outputs, **arguments)])
    assert parse_net(print_net(net)) == net
