"""How convolutions are cut: everything is computed once, times grow with the work, and the least price is taken."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.codegen.kernel import lane_count
from tazza.engines.native.winograd import tiling as module
from tazza.engines.native.winograd.algorithm import FORMS, algorithm
from tazza.engines.native.winograd.filters import Filters
from tazza.engines.native.winograd.tiling import BLOCK_ROWS, ROWS, Problem, Tiling, best_tiling, cache_bytes, cycle_ns
from tazza.runtime.machine import NOMINAL, machine
from tazza.tensor.offer import BYTES_PER_NS

SIDE = st.integers(1, 40)
COUNT = st.integers(1, 300)


Layer: TypeAlias = tuple[int, int, int, int, int]
T = TypeVar("T")
RACED_US: dict[Layer, dict[int, int]] = {
    # N, C, K, side, r: the fastest tiling of each m, on two cores with AVX-512. Of one image, nothing that a call
    # touches was in the cache of a core, but for V and M in half of the calls.
    (1, 64, 192, 56, 3): {2: 1559, 4: 996, 5: 1292},
    (1, 96, 128, 28, 3): {2: 421, 4: 347, 5: 381},
    (1, 128, 192, 28, 3): {2: 634, 4: 546, 5: 571},
    (1, 96, 208, 14, 3): {2: 200, 4: 222, 5: 227},
    (1, 112, 224, 14, 3): {2: 245, 4: 227, 5: 239},
    (1, 128, 256, 14, 3): {2: 275, 4: 264, 5: 285},
    (1, 144, 288, 14, 3): {2: 335, 4: 311, 5: 294},
    (1, 160, 320, 14, 3): {2: 442, 4: 441, 5: 424},
    (1, 160, 320, 7, 3): {2: 167, 4: 229},
    (1, 192, 384, 7, 3): {2: 230, 4: 311},
    (1, 16, 64, 56, 3): {2: 221, 4: 149, 5: 168},
    (1, 32, 128, 28, 3): {2: 147, 4: 114, 5: 144},
    (1, 48, 192, 14, 3): {2: 91, 4: 91, 5: 120},
    (1, 64, 256, 14, 3): {2: 136, 4: 139, 5: 170},
    (1, 64, 64, 56, 3): {2: 521, 4: 360, 5: 403},
    (1, 128, 128, 28, 3): {2: 544, 4: 459, 5: 577},
    (1, 256, 256, 14, 3): {2: 612, 4: 646, 5: 728},
    (1, 512, 512, 7, 3): {2: 863, 4: 2151},
    (1, 64, 64, 224, 3): {2: 7016, 4: 5018, 5: 4992},
    (1, 64, 128, 112, 3): {2: 3267, 4: 2270, 5: 2264},
    (1, 128, 128, 112, 3): {2: 6326, 4: 4461, 5: 4889},
    (1, 256, 256, 56, 3): {2: 8462, 4: 5633, 5: 6423},
    (1, 256, 512, 28, 3): {2: 4423, 4: 3218, 5: 3921},
    (1, 512, 512, 28, 3): {2: 8553, 4: 6493, 5: 7401},
    (1, 512, 512, 14, 3): {2: 2332, 4: 2824, 5: 2771},
    (1, 16, 32, 28, 5): {2: 64, 4: 39},
    (1, 32, 96, 28, 5): {2: 264, 4: 164},
    (1, 48, 128, 7, 5): {2: 57, 4: 64},
    (1, 20, 50, 12, 5): {2: 42, 4: 36},
    (1, 24, 64, 14, 5): {2: 51, 4: 43},
    (1, 32, 64, 14, 5): {2: 65, 4: 51},
    (1, 16, 48, 14, 5): {2: 33, 4: 30},
    (1, 32, 128, 14, 5): {2: 118, 4: 97},
    (1, 32, 128, 7, 5): {2: 51, 4: 55},
    (16, 64, 64, 56, 3): {2: 6554, 4: 4284, 5: 4493},
    (16, 128, 128, 28, 3): {2: 5738, 4: 4102, 5: 4684},
    (16, 256, 256, 14, 3): {2: 5970, 4: 5195, 5: 4333},
    (16, 512, 512, 7, 3): {2: 8104, 4: 5253, 5: 8158},
    (16, 64, 192, 56, 3): {2: 18240, 4: 12955, 5: 16489},
    (16, 96, 128, 28, 3): {2: 4303, 4: 3024, 5: 3676},
    (16, 64, 128, 112, 3): {2: 49034, 4: 33497, 5: 37718},
    (16, 256, 512, 28, 3): {2: 46396, 4: 29886, 5: 32973},
    (16, 512, 512, 14, 3): {2: 22854, 4: 19021, 5: 15039},
    (16, 16, 48, 14, 5): {2: 264, 4: 180},
    (16, 32, 96, 28, 5): {2: 2899, 4: 1499},
    (64, 20, 50, 12, 5): {2: 1429, 4: 749},
}
TILINGS_US: dict[Layer, dict[tuple[int, int, int, int], int]] = {
    # of some of these: m, rows, block_rows, slices
    (1, 24, 64, 14, 5): {
        (4, 8, 1, 2): 43,
        (4, 8, 1, 1): 43,
        (4, 12, 1, 2): 52,
        (2, 8, 4, 2): 61,
        (2, 10, 4, 1): 75,
        (4, 8, 2, 1): 61,
    },
    (1, 32, 128, 14, 5): {
        (4, 8, 1, 2): 100,
        (4, 8, 2, 2): 106,
        (4, 8, 1, 1): 97,
        (4, 12, 1, 2): 123,
        (2, 10, 3, 1): 141,
        (2, 10, 4, 1): 189,
        (4, 8, 2, 1): 158,
    },
    (1, 32, 96, 28, 5): {
        (4, 10, 1, 2): 169,
        (4, 8, 1, 2): 174,
        (4, 8, 2, 1): 164,
        (4, 10, 2, 1): 180,
        (2, 8, 2, 2): 291,
        (2, 10, 4, 2): 300,
        (4, 8, 4, 1): 194,
    },
    (1, 128, 192, 28, 3): {
        (4, 14, 2, 2): 644,
        (4, 14, 1, 1): 546,
        (5, 10, 4, 2): 789,
        (5, 14, 1, 1): 787,
        (4, 14, 4, 1): 1033,
    },
    (1, 96, 208, 14, 3): {
        (2, 10, 1, 2): 213,
        (2, 14, 1, 2): 223,
        (2, 10, 3, 2): 200,
        (4, 8, 1, 1): 226,
        (5, 14, 1, 2): 255,
        (5, 10, 1, 1): 436,
        (2, 10, 4, 1): 247,
    },
    (1, 160, 320, 14, 3): {
        (2, 14, 2, 2): 530,
        (2, 14, 2, 1): 534,
        (5, 10, 1, 2): 424,
        (2, 12, 3, 2): 496,
        (4, 14, 2, 2): 655,
        (5, 10, 1, 1): 782,
    },
    (1, 64, 256, 14, 3): {
        (2, 10, 1, 2): 148,
        (2, 14, 1, 2): 152,
        (2, 14, 2, 2): 136,
        (4, 8, 1, 1): 168,
        (4, 14, 2, 2): 199,
        (5, 10, 1, 1): 319,
        (2, 14, 4, 2): 158,
    },
    (1, 64, 192, 56, 3): {
        (4, 10, 2, 1): 1254,
        (4, 14, 2, 2): 1084,
        (4, 14, 1, 2): 996,
        (4, 8, 8, 1): 1351,
        (5, 10, 8, 1): 1545,
        (2, 12, 12, 1): 2145,
        (4, 14, 8, 1): 1486,
    },
    (1, 128, 128, 28, 3): {
        (4, 14, 2, 1): 493,
        (4, 14, 1, 1): 488,
        (4, 10, 1, 2): 459,
        (4, 8, 1, 1): 555,
        (2, 12, 4, 2): 691,
        (4, 14, 4, 1): 975,
        (4, 10, 4, 1): 643,
    },
    (1, 160, 320, 7, 3): {
        (2, 8, 2, 2): 167,
        (2, 10, 2, 2): 194,
        (2, 10, 1, 2): 211,
        (2, 14, 1, 1): 257,
        (2, 10, 2, 1): 304,
        (2, 8, 2, 1): 265,
    },
    (1, 32, 128, 28, 3): {
        (4, 10, 1, 2): 116,
        (4, 8, 1, 2): 124,
        (4, 14, 1, 2): 114,
        (2, 12, 1, 1): 164,
        (2, 12, 4, 2): 169,
        (5, 10, 4, 2): 198,
        (4, 14, 4, 2): 162,
    },
    (1, 256, 512, 28, 3): {
        (4, 14, 4, 2): 3807,
        (4, 14, 2, 1): 3391,
        (4, 10, 3, 2): 3218,
        (4, 10, 4, 2): 4065,
        (2, 12, 4, 2): 4592,
        (2, 12, 6, 1): 6749,
        (4, 10, 4, 1): 4628,
    },
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
    """Whatever rate a moment gave: 2 % are lost over all layers, a fifth with one; filters that are held count, too.

    Of whole tilings, of which the measured ones are compared: 12 % over all of them, and a third.
    """
    found = replace(
        NOMINAL,
        memory_bytes_per_ns=memory * NOMINAL.memory_bytes_per_ns,
        cache_bytes_per_ns=cached * NOMINAL.cache_bytes_per_ns,
    )
    monkeypatch.setattr(module, "machine", lambda: found)
    tiles = {layer: best_tiling(problem_of(*layer), 2).algorithm.m for layer in RACED_US}
    priced = {layer: {m: us + held_us(layer, m) for m, us in times.items()} for layer, times in RACED_US.items()}
    assert_little_is_lost(priced, tiles, 1.02, 1.2)
    wholes = {
        layer: min(
            times,
            key=lambda one, layer=layer: Tiling(problem_of(*layer), algorithm(one[0], layer[-1]), *one[1:], 2).price,
        )
        for layer, times in TILINGS_US.items()
    }
    assert_little_is_lost(TILINGS_US, wholes, 1.12, 1.34)


def problem_of(N: int, C: int, K: int, side: int, r: int) -> Problem:
    return Problem(N, C, K, r, (side, side), (side, side), (r // 2, r // 2))


def held_us(layer: Layer, m: int) -> float:
    """What the filters of tiles of this size are worth, in time of a run."""
    _, C, K, _, r = layer
    return Filters(m, r, C, K, last=False).nbytes / BYTES_PER_NS / 1000


def assert_little_is_lost(
    times: Mapping[Layer, Mapping[T, float]], taken: Mapping[Layer, T], mean: float, most: float
) -> None:
    """What is taken takes little longer than what was fastest."""
    lost = {layer: of[taken[layer]] / min(of.values()) for layer, of in times.items()}
    assert max(lost.values()) < most, {layer: one for layer, one in lost.items() if one >= most}
    assert math.prod(lost.values()) ** (1 / len(lost)) < mean


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
