"""How convolutions are cut: everything is computed once, times grow with the work, and the least price is taken."""

from __future__ import annotations

import itertools
import math
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


RACED_US: dict[tuple[int, int, int, int, int], dict[int, int]] = {
    # N, C, K, side, r: the fastest tiling of each m, on two cores with AVX-512; of one image with filters from memory
    (1, 64, 192, 56, 3): {2: 1700, 4: 1242, 5: 1404},
    (1, 96, 128, 28, 3): {2: 367, 4: 353, 5: 434},
    (1, 128, 192, 28, 3): {2: 825, 4: 730, 5: 878},
    (1, 96, 208, 14, 3): {2: 217, 4: 264, 5: 298},
    (1, 112, 224, 14, 3): {2: 237, 4: 275, 5: 293},
    (1, 128, 256, 14, 3): {2: 309, 4: 323, 5: 375},
    (1, 144, 288, 14, 3): {2: 398, 4: 445, 5: 468},
    (1, 160, 320, 14, 3): {2: 476, 4: 546, 5: 586},
    (1, 160, 320, 7, 3): {2: 251, 4: 380, 5: 545},
    (1, 192, 384, 7, 3): {2: 293, 4: 525, 5: 711},
    (1, 16, 64, 56, 3): {2: 141, 4: 104, 5: 117},
    (1, 32, 128, 28, 3): {2: 122, 4: 97, 5: 125},
    (1, 48, 192, 14, 3): {2: 90, 4: 108, 5: 131},
    (1, 64, 256, 14, 3): {2: 158, 4: 174, 5: 201},
    (1, 64, 64, 56, 3): {2: 580, 4: 403, 5: 394},
    (1, 128, 128, 28, 3): {2: 463, 4: 432, 5: 543},
    (1, 256, 256, 14, 3): {2: 680, 4: 849, 5: 803},
    (1, 512, 512, 7, 3): {2: 1279, 4: 1802, 5: 2476},
    (1, 64, 64, 224, 3): {2: 7330, 4: 5060, 5: 4995},
    (1, 64, 128, 112, 3): {2: 3700, 4: 2410, 5: 3148},
    (1, 128, 128, 112, 3): {2: 6393, 4: 4596, 5: 4971},
    (1, 256, 256, 56, 3): {2: 6614, 4: 5409, 5: 5390},
    (1, 256, 512, 28, 3): {2: 3388, 4: 2932, 5: 3262},
    (1, 512, 512, 28, 3): {2: 8275, 4: 6455, 5: 6316},
    (1, 512, 512, 14, 3): {2: 2709, 4: 2905, 5: 2994},
    (16, 64, 64, 56, 3): {2: 6554, 4: 4284, 5: 4493},
    (16, 128, 128, 28, 3): {2: 5738, 4: 4102, 5: 4684},
    (16, 256, 256, 14, 3): {2: 5970, 4: 5195, 5: 4333},
    (16, 512, 512, 7, 3): {2: 8104, 4: 5253, 5: 8158},
    (16, 64, 192, 56, 3): {2: 18240, 4: 12955, 5: 16489},
    (16, 96, 128, 28, 3): {2: 4303, 4: 3024, 5: 3676},
    (16, 64, 128, 112, 3): {2: 49034, 4: 33497, 5: 37718},
    (16, 256, 512, 28, 3): {2: 46396, 4: 29886, 5: 32973},
    (16, 512, 512, 14, 3): {2: 22854, 4: 19021, 5: 15039},
    (1, 16, 32, 28, 5): {2: 50, 4: 33},
    (1, 32, 96, 28, 5): {2: 282, 4: 169},
    (1, 48, 128, 7, 5): {2: 80, 4: 104},
    (1, 20, 50, 12, 5): {2: 45, 4: 53},
    (16, 16, 48, 14, 5): {2: 264, 4: 180},
    (16, 32, 96, 28, 5): {2: 2899, 4: 1499},
    (64, 20, 50, 12, 5): {2: 1429, 4: 749},
}
RELATIONS = [0.5, 0.7, 1.0, 1.5, 2.0]
"""What memory and cache may give, of what was nominal, on machines and in moments where these were measured."""


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
    assert more.estimate_ns == more.cycles * cycle_ns()


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


@pytest.mark.skipif(lane_count() != 16, reason="the times were taken with vectors of 16")
@pytest.mark.parametrize("memory", RELATIONS)
@pytest.mark.parametrize("cached", RELATIONS)
def test_tiles_that_were_fastest_are_taken(memory: float, cached: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever rate a moment gave: 7 % are lost over all layers, a third with one (filters are kept small for that)."""
    found = replace(
        NOMINAL,
        memory_bytes_per_ns=memory * NOMINAL.memory_bytes_per_ns,
        cache_bytes_per_ns=cached * NOMINAL.cache_bytes_per_ns,
    )
    monkeypatch.setattr(module, "machine", lambda: found)
    lost: list[float] = []
    for (N, C, K, side, r), times in RACED_US.items():
        taken = best_tiling(Problem(N, C, K, r, (side, side), (side, side), (r // 2, r // 2)), 2).algorithm.m
        lost.append(times[taken] / min(times.values()))
    assert max(lost) < 1.35, [(layer, one) for layer, one in zip(RACED_US, lost, strict=True) if one >= 1.35]
    assert math.prod(lost) ** (1 / len(lost)) < 1.07


@given(tilings())
def test_loads_overlap_with_products(tiling: Tiling) -> None:
    """Filters that come at once leave the computing; those that come slowly take at least as long as bringing them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "machine", lambda: replace(NOMINAL, memory_bytes_per_ns=1e12, cache_bytes_per_ns=1e12))
        computing = tiling.cycles
        patch.setattr(module, "machine", lambda: NOMINAL)
        rate = math.sqrt(tiling.slices) * module.MEMORY_GAIN * NOMINAL.memory_bytes_per_ns
        loading = tiling.filter_bytes / (rate * cycle_ns())
        assert max(computing, loading) <= tiling.cycles * (1 + 1e-9)


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
    assert cache_bytes() > machine().cache_bytes_per_ns * cycle_ns(), "those are read alone, a copy writes too"


def test_forms_of_filters() -> None:
    tiling = best_tiling(Problem(1, 20, 40, 5, (9, 11), (9, 11), (2, 2)), 1)
    form = tiling.filters(last=True, turned=True)
    assert (form.m, form.r, form.C, form.K, form.last, form.turned) == (tiling.algorithm.m, 5, 20, 40, True, True)
    assert tiling.filter_bytes == form.nbytes
