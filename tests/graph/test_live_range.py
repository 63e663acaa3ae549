"""From where to where blobs live."""

from __future__ import annotations

import pytest

from tazza.graph.live_range import LiveRange, carried, last_readers, live_ranges
from tazza.graph.text import parse_net
from tazza.operator import operator_def, touches
from tests.nets.nested import Drawing


def test_ranges_go_from_the_first_writer_to_the_last_reader() -> None:
    net = parse_net("a = Relu(x)", "b = Relu(a)", "a = Relu(b)", "c = Sum(a, y)", "c = Relu(c)", "d = Relu(c)")
    assert live_ranges(net.op, {"a": 3}) == {
        "x": LiveRange(None, 0, None),
        "a": LiveRange(0, 3, 3),
        "b": LiveRange(1, 2, None),
        "c": LiveRange(3, 5, None),
        "y": LiveRange(None, 3, None),
        "d": LiveRange(5, None, None),
    }


@pytest.mark.slow
def test_what_nets_within_touch_counts() -> None:
    for seed in range(20):
        net = Drawing(seed).net()
        for name, life in live_ranges(net.op).items():
            writers = [i for i, op in enumerate(net.op) if name in touches(op).writes]
            readers = [i for i, op in enumerate(net.op) if name in touches(op).reads]
            assert (life.defined, life.used) == (min(writers, default=None), max(readers, default=None))


def test_one_that_has_no_end_is_before_nobody() -> None:
    later = LiveRange(5, 6, 1)
    assert LiveRange(0, 4, 1).is_before(later)
    assert not any(one.is_before(later) for one in (LiveRange(None, 4, 1), LiveRange(0, None, 1), LiveRange(0, 5, 1)))
    assert not LiveRange(0, 4, 1).is_before(LiveRange(None, 6, 1))


def test_what_goes_on_to_the_next_run() -> None:
    assert carried([operator_def("Iter", [], ["t"]), operator_def("Relu", ["t"], ["a"])]) == {"t"}


def test_what_a_run_need_not_keep() -> None:
    net = parse_net("in: x", "out: b", "a = Relu(x)", "b = Relu(a)", "c = Relu(b)", "x = Relu(c)", "d = Relu(x)")
    assert last_readers(net) == {"a": 1, "c": 3}
