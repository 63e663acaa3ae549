"""Levels: what is folded into what, who reads from whom across them, and what stays where from picture to picture."""

from __future__ import annotations

from collections.abc import Iterator

from tazza.graph.text import parse_net
from tazza.observers.view.facts import Findings, data_of, net_drawn
from tazza.observers.view.layout import ENTRY
from tazza.observers.view.scene import Item, Kind, Level, Scene, scene_of
from tazza.operator import make_argument, operator_def
from tazza.proto import NetDef

RESIDUAL = """
h{0} = Conv(x{0}, W{0}, b{0}; kernel=3, pad=1)
h{0} = Relu(h{0})
g{0} = Conv(h{0}, V{0}, c{0}; kernel=3, pad=1)
x{1} = Sum(g{0}, x{0})
x{1} = Relu(x{1})
"""


def scene(net: NetDef) -> Scene:
    return scene_of(net_drawn(net, Findings(), data_of(net), list(net.external_output)))


def residual(blocks: int) -> NetDef:
    lines = "".join(RESIDUAL.format(number, number + 1) for number in range(blocks))
    return parse_net(f"net: res\nout: y\n{lines}y = Softmax(x{blocks})")


def items(level: Level) -> Iterator[Item]:
    for item in level.items:
        yield item
        if item.inside is not None:
            yield from items(item.inside)


def types(found: Scene, item: Item) -> list[str]:
    assert item.inside is not None
    return [found.ops[one.op]["t"] for one in items(item.inside) if one.op is not None]


def test_blocks_that_repeat_are_one_item() -> None:
    found = scene(residual(3))
    assert [item.kind for item in found.root.items] == [Kind.INPUT, Kind.GROUP, Kind.OPERATOR, Kind.OUTPUT]
    blocks = found.root.items[1]
    assert (blocks.name, blocks.times) == ("A", 3)
    assert blocks.inside is not None
    assert [types(found, block) for block in blocks.inside.items] == [["Conv", "Relu", "Conv", "Sum", "Relu"]] * 3
    routes = {(one.source, one.target) for one in blocks.inside.arrangement.routes}
    assert routes == {(ENTRY, 0), (0, 1), (1, 2), (2, 3)}, "one after the other, from the input to the end"
    inner = blocks.inside.items[0].inside
    assert inner is not None
    assert (ENTRY, 3) in {(one.source, one.target) for one in inner.arrangement.routes}, (
        "the sum reads the block's input"
    )


def test_every_operator_is_there_once() -> None:
    found = scene(residual(4))
    assert sorted(item.op for item in items(found.root) if item.op is not None) == list(range(21))
    assert len({item.stays for item in items(found.root)}) == len(list(items(found.root)))


def test_nets_within_an_operator_are_levels() -> None:
    branch = parse_net("out: y", "t = FC(x, W, b)", "y = Relu(t)")
    op = operator_def("If", ["c"], ["y"])
    op.arg.append(make_argument("then_net", branch))
    found = scene(NetDef(op=[operator_def("IsEmpty", ["x"], ["c"]), op], external_output=["y"]))
    owner = next(item for item in found.root.items if item.inside is not None)
    assert owner.op is not None
    assert found.ops[owner.op]["t"] == "If"
    assert owner.inside is not None
    net = owner.inside.items[0]
    assert (net.kind, net.name, types(found, net)) == (Kind.NET, "then_net", ["FC", "Relu"])
    assert [item.name for item in found.root.items if item.kind is Kind.INPUT] == ["x"], "W and b are its parameters"


def test_who_writes_over_what_nobody_read_comes_behind() -> None:
    found = scene(parse_net("out: y", "y = ConstantFill(; shape=[2])", "z = Relu(x)", "y = Relu(z)"))
    edges = {(one.source, one.target) for one in found.root.arrangement.routes}
    assert (1, 3) in edges
    assert (2, 3) in edges


def test_lanes_stay_while_a_net_is_rewritten() -> None:
    """What a pass leaves alone lies where it lay, even where the lane before it became free."""
    written = parse_net("out: y", "a = Relu(x)", "b = Tanh(a)", "c = Sigmoid(a)", "d = Sin(a)", "y = Sum(b, c, d)")
    before = scene(written)
    known = {facts["t"]: before.lanes[f"{facts['t']} {facts['o'][0][0]!r}"] for facts in before.ops}
    assert (known["Sigmoid"], known["Sin"]) == (1, 2)
    after = parse_net("out: y", "a = Relu(x)", "c = Sigmoid(a)", "d = Sin(a)", "y = Sum(c, d)")
    drawn = net_drawn(after, Findings(), data_of(after), ["y"])
    found = scene_of(drawn, before.lanes)
    assert {facts["t"]: found.lanes[f"{facts['t']} {facts['o'][0][0]!r}"] for facts in found.ops} == {
        type: lane for type, lane in known.items() if type != "Tanh"
    }
