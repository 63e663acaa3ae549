"""Things that threads take: each is taken once, again in every run, and one that takes long does not hold up others."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import pytest

from tazza.codegen.fields import Fields
from tazza.codegen.kernel import compiled, unavailable
from tazza.codegen.loop import when, while_loop
from tazza.codegen.term import Lines, Term
from tazza.codegen.writer import Writer
from tazza.engines.native.panel_product.taking import Taking, give_back, taken_bytes

pytestmark = pytest.mark.skipif(unavailable() is not None, reason="nothing can be compiled here")
BLOCK = Fields("threads count all_own shared back waits", addresses="taken:i64 times:i64 numbers:i64 done:i64")
LOOKS, GIVEN_UP = 1 << 26, 1000
"""How often one looks whether all is done, and what is added to what is done by who gives up."""


def write(lines: Lines) -> None:
    """Count how often each thing is done; where one waits, the first thing of the first thread does so for the rest."""
    writer = Writer(lines, BLOCK)
    w = writer.w
    ways = [w[name].differs(0) for name in ("all_own", "shared", "back", "waits")]

    def one(i: Term, number: Term) -> None:
        w.times.at(i).add_atomically(1, "seq_cst")
        w.numbers[i] = number
        w.done.add_atomically(1, "seq_cst")

        def goes_on(looks: Sequence[Term]) -> Term:
            weary = looks[0].equals(LOOKS)
            given_up = weary.choose(lines.number(GIVEN_UP), 0)
            return ~(w.done.add_atomically(given_up, "seq_cst").equals(w.count) | weary)

        def wait() -> None:
            while_loop(lines, [0], goes_on, lambda looks: [looks[0] + 1])

        when(ways[3] & i.equals(0), wait)

    Taking(writer, w.taken).each(w.count, (ways[0], ways[1]), ways[2], one)


def _finish(lines: Lines) -> None:
    at = BLOCK.lazily(lines)
    give_back(lines, at.threads, at.taken)


def run(threads: int, count: int, *, all_own: bool = False, shared: bool = True, back: bool = False) -> list[int]:
    """Return how often each thing was done, in two runs; what is to wait waits where things are shared."""
    address = compiled("taking of things", write, _finish)
    taken = np.frombuffer(taken_bytes(threads), np.int64).copy()
    times, numbers, done = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64), np.zeros(1, np.int64)
    waits = shared and threads > 1
    at = [one.ctypes.data for one in (taken, times, numbers, done)]
    block = np.array([threads, count, all_own, shared, back, waits, *at], np.int64)
    kernel = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)(address)
    for _ in range(2):
        done[:] = 0
        assert kernel(block.ctypes.data, None, None, None) == 0
        assert done[0] == count * (threads if all_own else 1)
        assert not taken.any()
    for who in range(threads):
        own = np.arange(count * who // threads, count * (who + 1) // threads)
        if not all_own:
            np.testing.assert_array_equal(numbers[own], own - count * who // threads)
    assert times[count] == 0
    return times[:count].tolist()


@pytest.mark.parametrize(("threads", "count"), [(1, 5), (2, 7), (3, 17), (3, 2), (2, 0)])
@pytest.mark.parametrize("back", [False, True])
def test_each_thing_is_taken_once(threads: int, count: int, back: bool) -> None:
    assert run(threads, count, back=back) == [2] * count
    assert run(threads, count, shared=False, back=back) == [2] * count


def test_where_all_do_everything_nobody_takes_it_from_them() -> None:
    assert run(3, 5, all_own=True, shared=False) == [6] * 5
