"""Wirings: nets that are taken apart and put together again, and single edits of them."""

from __future__ import annotations

import random

import pytest

from tazza.errors import ArgumentError, BoundsError
from tazza.graph.text import parse_net
from tazza.graph.wiring import WiredBlob, WiredOperator, Wiring, move_readers, set_producer
from tazza.graph.wiring_match import Wanted, match_at, matches
from tazza.proto import NetDef, OperatorDef


def drawn(seed: int) -> NetDef:
    """Return a net of operators that nobody declares; names are written again and again."""
    draw = random.Random(seed)
    names = [f"b{number}" for number in range(5)]
    net = NetDef(name="drawn", type="dag", external_input=["b0"], external_output=["b1"])
    for number in range(draw.randint(1, 9)):
        op = net.op.add(type=f"Type{number}", name="named", engine="some")
        op.input.extend(draw.choices(names, k=draw.randint(0, 3)))
        op.output.extend(draw.choices(names, k=draw.randint(0, 2)))
    return net


@pytest.mark.parametrize("seed", range(40))
def test_a_net_that_nobody_edits_comes_back(seed: int) -> None:
    net = drawn(seed)
    made = Wiring.of(net).to_net(net)
    assert list(made.op) == list(net.op)
    assert (made.name, made.type) == (net.name, net.type)


@pytest.mark.parametrize("seed", range(40))
def test_edges_are_known_at_both_ends_and_writers_run_before_readers(seed: int) -> None:
    draw = random.Random(seed)
    wiring = Wiring.of(drawn(seed))
    for _ in range(draw.randint(1, 8)):
        node = draw.choice(wiring.operators)
        new, blob = wiring.add_operator(OperatorDef(type="New")), wiring.add_blob(wiring.free_name("new"))
        wiring.join(new, blob)
        if draw.random() < 0.5:
            wiring.sequence()
        wiring.join(blob, node)
        if draw.random() < 0.3:
            wiring.remove(draw.choice(wiring.nodes))
    for node in wiring.nodes:
        assert all(node in source.targets for source in node.sources)
        assert all(
            list(map(id, node.targets)).count(id(one)) == list(map(id, one.sources)).count(id(node))
            for one in node.targets
        )
    order = wiring.sequence()
    for place, node in enumerate(order):
        assert all(order.index(maker) < place for blob in node.sources for maker in blob.sources)


def test_edges_lead_from_operators_to_blobs_and_back() -> None:
    wiring = Wiring.of(parse_net("y = Relu(x)"))
    relu, x, y = wiring.nodes
    with pytest.raises(ArgumentError, match="edges lead from blobs to operators"):
        wiring.join(x, y)
    with pytest.raises(ArgumentError, match="one is an operator"):
        wiring.exchange(relu, x)
    assert isinstance(x, WiredBlob)
    assert isinstance(relu, WiredOperator)
    with pytest.raises(BoundsError, match="no producer"):
        set_producer(x, relu)


def test_a_blob_takes_over_readers_at_their_places() -> None:
    wiring = Wiring.of(parse_net("y = Sum(x, w, x)"))
    _, x, _, _ = wiring.nodes
    assert isinstance(x, WiredBlob)
    move_readers(x, wiring.add_blob("t"))
    assert list(wiring.to_net().op[0].input) == ["t", "w", "t"]


def test_one_operator_stands_for_several() -> None:
    wiring = Wiring.of(parse_net("y = Relu(x)", "z = Sum(y, u)", "q = Relu(z)"))
    first, x, _, second, u, z, _, _ = wiring.nodes
    assert isinstance(x, WiredBlob)
    assert isinstance(u, WiredBlob)
    assert isinstance(z, WiredBlob)
    wiring.collapse([first, second, z], wiring.add_operator(OperatorDef(type="Both")), [u, x], [z])
    assert [(op.type, list(op.input), list(op.output)) for op in wiring.to_net().op] == [
        ("Both", ["u", "x"], ["z"]),
        ("Relu", ["z"], ["q"]),
    ]


def test_a_node_that_is_wanted_whole_has_no_other_edges() -> None:
    wiring = Wiring.of(parse_net("y = Relu(x)", "z = Relu(y)", "q = Sum(y)"))
    end = Wanted(lambda node: node.name == "Relu")
    blob = Wanted(lambda node: isinstance(node, WiredBlob), whole=True, targets=[end])
    start = Wanted(lambda node: isinstance(node, WiredOperator), whole=True, targets=[blob])
    assert list(matches(wiring, [start, blob, end])) == []
    blob.whole = False
    assert [len(match) for match in matches(wiring, [start, blob, end])] == [2, 2, 2]
    assert match_at(wiring.nodes[1], start) == []
