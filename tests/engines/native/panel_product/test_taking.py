"""Things that threads take: each is taken once, again in every run, and one that takes long does not hold up others."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tazza.codegen.emit import Lines
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import compiled, unavailable
from tazza.codegen.rows import element
from tazza.codegen.writer import Writer
from tazza.engines.native.panel_product.taking import Taking, give_back, taken_bytes

pytestmark = pytest.mark.skipif(unavailable() is not None, reason="nothing can be compiled here")
BLOCK = Fields("threads count all_own shared back waits", addresses="taken times numbers done")
LOOKS, GIVEN_UP = 1 << 26, 1000
"""How often one looks whether all is done, and what is added to what is done by who gives up."""


def write(lines: Lines) -> None:
    """Count how often each thing is done; where one waits, the first thing of the first thread does so for the rest."""
    writer = Writer(lines, BLOCK)
    w = writer.w
    ways = [lines.let(f"icmp ne i64 {w[name]}, 0") for name in ("all_own", "shared", "back", "waits")]

    def one(i: str, number: str) -> None:
        time = element(lines, w["times"], i, "i64")
        lines.do(f"atomicrmw add ptr {time}, i64 1 seq_cst")
        lines.do(f"store i64 {number}, ptr {element(lines, w['numbers'], i, 'i64')}")
        lines.do(f"atomicrmw add ptr {w['done']}, i64 1 seq_cst")
        first = lines.let(f"and i1 {ways[3]}, {lines.let(f'icmp eq i64 {i}, 0')}")
        look, rest = lines.fresh("look"), lines.fresh("rest")
        source = lines.block
        lines.do(f"br i1 {first}, label %{look}, label %{rest}")
        lines.label(look)
        looks, more = f"%{lines.fresh('looks')}", f"%{lines.fresh('more')}"
        lines.do(f"{looks} = phi i64 [ 0, %{source} ], [ {more}, %{look} ]")
        lines.do(f"{more} = add i64 {looks}, 1")
        weary = lines.let(f"icmp eq i64 {more}, {LOOKS}")
        given_up = lines.let(f"select i1 {weary}, i64 {GIVEN_UP}, i64 0")
        seen = lines.let(f"atomicrmw add ptr {w['done']}, i64 {given_up} seq_cst")
        all_done = lines.let(f"icmp eq i64 {seen}, {w['count']}")
        lines.do(f"br i1 {lines.let(f'or i1 {all_done}, {weary}')}, label %{rest}, label %{look}")
        lines.label(rest)

    Taking(writer, w["taken"]).each(w["count"], (ways[0], ways[1]), ways[2], one)


def _finish(lines: Lines) -> None:
    at = BLOCK.read(lines)
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
