"""How convolutions are cut: everything is computed once, times grow with the work, and the least price is taken."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.codegen.kernel import lane_count
from tazza.engines.native.winograd import tiling as module
from tazza.engines.native.winograd.algorithm import FORMS, algorithm
from tazza.engines.native.winograd.tiling import BLOCK_ROWS, ROWS, Problem, Tiling, best_tiling, cache_bytes, cycle_ns
from tazza.runtime.machine import NOMINAL, machine

SIDE = st.integers(1, 40)
COUNT = st.integers(1, 300)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    r = draw(st.sampled_from([3, 5]))
    out = draw(SIDE), draw(SIDE)
    pads = draw(st.integers(0, r - 1)), draw(st.integers(0, r - 1))
    image = tuple(side + r - 1 - pad for side, pad in zip(out, pads, strict=True))
    return Problem(draw(st.integers(1, 9)), draw(COUNT), draw(COUNT), r, (image[0], image[1]), out, pads)


@st.composite
def tilings(draw: st.DrawFn) -> Tiling:
    problem = draw(problems())
    m = draw(st.sampled_from([m for m, r in FORMS if r == problem.r]))
    rows, block_rows = draw(st.sampled_from(ROWS[lane_count()])), draw(st.sampled_from(BLOCK_ROWS))
    threads = draw(st.integers(1, 16))
    slices = draw(st.sampled_from([1, min(threads, -(-problem.K // (2 * lane_count())))]))
    return Tiling(problem, algorithm(m, problem.r), rows, block_rows, slices, threads)


@given(problems(), st.sampled_from([2, 4, 5]))
def test_tiles_cover_every_output_once(problem: Problem, m: int) -> None:
    down, across = problem.across(m)
    assert problem.tiles(m) == problem.N * down * across
    for count, extent in zip((down, across), problem.out, strict=True):
        starts = [i * m for i in range(count)]
        assert sorted({y for start in starts for y in range(start, min(start + m, extent))}) == list(range(extent))
        assert starts[-1] < extent, "no tile is all beyond the image"


@given(tilings())
def test_blocks_and_slices_cover_all_tiles_and_panels_once(tiling: Tiling) -> None:
    block = tiling.rows * tiling.block_rows
    assert (tiling.blocks - 1) * block < tiling.tiles <= tiling.blocks * block
    assert tiling.panels * 2 * lane_count() >= tiling.problem.K > (tiling.panels - 1) * 2 * lane_count()
    assert tiling.slices * tiling.slice_panels >= tiling.panels
    assert tiling.groups * lane_count() >= tiling.problem.C > (tiling.groups - 1) * lane_count()
    assert tiling.has_full_block is (-(-tiling.tiles // tiling.rows) >= tiling.block_rows)


@given(tilings())
def test_scratch_memory_has_room_for_both_matrices(tiling: Tiling) -> None:
    """V of all input channels and M of a slice, for the tiles of a block."""
    L, a = lane_count(), tiling.algorithm.a
    V = tiling.rows * tiling.block_rows * tiling.groups * L
    M = tiling.rows * tiling.block_rows * tiling.slice_panels * 2 * L
    assert tiling.scratch_floats >= a * a * (V + M)


@given(tilings(), st.sampled_from(["N", "C", "K"]))
def test_more_work_takes_longer(tiling: Tiling, what: str) -> None:
    """Twice as many images or channels, cut in the same way."""
    problem = tiling.problem
    more = replace(tiling, problem=replace(problem, **{what: 2 * getattr(problem, what) + 2 * lane_count()}))
    assert more.problem.flops > 2 * problem.flops
    assert more.cycles >= tiling.cycles > 0
    if tiling.threads == 1:
        assert more.cycles > tiling.cycles
    assert more.price >= more.cycles
    assert more.estimate_ns < more.cycles * cycle_ns(), "steps overlap"


@given(tilings(), st.integers(2, 16))
def test_more_threads_never_take_longer(tiling: Tiling, times: int) -> None:
    alone = replace(tiling, threads=1)
    assert replace(tiling, threads=times).cycles <= alone.cycles


@given(problems(), st.integers(1, 8))
def test_the_least_price_of_all(problem: Problem, threads: int) -> None:
    """No way that may be taken is better; with m given, none of that size."""
    every = [
        Tiling(problem, algorithm(m, r), rows, block_rows, slices, threads)
        for (m, r), rows, block_rows, slices in itertools.product(FORMS, ROWS[lane_count()], BLOCK_ROWS, {1, threads})
        if r == problem.r
    ]
    allowed = [one for one in every if one.slices <= one.panels and (one.block_rows == 1 or one.has_full_block)]
    assert best_tiling(problem, threads).price == min(one.price for one in allowed)
    for m in {one.algorithm.m for one in every}:
        found = best_tiling(problem, threads, m)
        assert found.algorithm.m == m
        assert found.price == min(one.price for one in allowed if one.algorithm.m == m)


def test_another_machine_is_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found for one model is not given for another: where filters are dear to bring in, tiles are smaller."""
    problem = Problem(2, 300, 200, 3, (28, 30), (28, 30), (1, 1))
    monkeypatch.setattr(module, "machine", lambda: NOMINAL)
    before = best_tiling(problem, 2)
    poor = replace(NOMINAL, memory_bytes_per_ns=NOMINAL.memory_bytes_per_ns / 1000)
    monkeypatch.setattr(module, "machine", lambda: poor)
    after = best_tiling(problem, 2)
    assert after.filter_bytes < before.filter_bytes
    monkeypatch.setattr(module, "machine", lambda: NOMINAL)
    assert best_tiling(problem, 2) == before


def test_cycles_are_those_of_the_machine() -> None:
    assert cycle_ns() * machine().flops_per_ns == 4 * lane_count()
    assert 0 < cache_bytes() < machine().cache_bytes_per_ns * cycle_ns()


def test_forms_of_filters() -> None:
    tiling = best_tiling(Problem(1, 20, 40, 5, (9, 11), (9, 11), (2, 2)), 1)
    form = tiling.filters(last=True, turned=True)
    assert (form.m, form.r, form.C, form.K, form.last, form.turned) == (tiling.algorithm.m, 5, 20, 40, True, True)
    assert tiling.filter_bytes == form.nbytes
