"""Blobs are emptied behind their last readers, and nobody misses them."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.graph.release import with_release
from tazza.graph.text import parse_net, print_operator
from tazza.nets import NETS
from tazza.nets.plan.rewrite import survivors_of
from tazza.operator import touches
from tazza.tensor import Tensor
from tazza.workspace import Workspace
from tests.nets.nested import Drawing, feed

BRANCHES = ("in: x", "out: o", "a = Relu(x)", "b = Relu(a)", "c = Relu(a)", "o = Sum(b, c)")


def test_each_is_emptied_behind_its_last_reader() -> None:
    made = with_release(parse_net(*BRANCHES))
    assert [print_operator(op) for op in made.op][3:] == [
        "a = Free(a)",
        "o = Sum(b, c)",
        "b = Free(b)",
        "c = Free(c)",
    ]


def test_what_is_to_stay_stays() -> None:
    freed = [
        op.output[0]
        for op in with_release(parse_net(*BRANCHES), {"a"}, lambda name: name != "b").op
        if op.type == "Free"
    ]
    assert freed == ["c"]


def test_second_names_stay() -> None:
    lines = ("in: x", "a = Relu(x)", "b = Alias(a)", "c = Relu(b)", "d = Relu(c)")
    assert [op.output[0] for op in with_release(parse_net(*lines)).op if op.type == "Free"] == ["c"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(NETS))
def test_results_are_the_same(kind: str) -> None:
    """Of random nets with nets inside; what is freed is gone."""
    for seed in range(8):
        net = Drawing(seed).net()
        net.type, net.num_workers = kind, 2
        made = with_release(net)
        freed = {op.output[0] for op in made.op if op.type == "Free"}
        before, after = Workspace(), Workspace()
        for home, one in ((before, net), (after, made)):
            feed(home)
            home.run_net_once(one)
        made_by_net = {name for op in net.op for name in touches(op).writes} - freed
        for name in survivors_of(net) if kind == "plan" else made_by_net:
            wanted = before.blob(name).value
            assert isinstance(after.blob(name).value, Tensor) == isinstance(wanted, Tensor)
            if isinstance(wanted, Tensor) and wanted.allocated:
                np.testing.assert_array_equal(after.fetch(name), before.fetch(name), f"{name}, seed {seed}")
