"""Tiles of images: every one has its place, edges count as 0, and what is asked for is what will be used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen.fields import Fields
from tazza.codegen.kernel import lane_count, unavailable
from tazza.codegen.term import Lines, Term
from tazza.codegen.writer import LINE
from tazza.engines.native.winograd.algorithm import algorithm
from tazza.engines.native.winograd.writer import Expected, ImageWriter, Source
from tests.launching import run_kernel

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
N, H, W, C = 3, 9, 7, 21
DOWN, ACROSS = 3, 2  # tiles of 4 x 4 outputs
BLOCK = Fields("threads H W C tiles_down tiles_across x_image x_row x_pixel begin count", addresses="X Y")


def image() -> Array:
    return np.random.default_rng(3).standard_normal((N, H, W, C)).astype(np.float32)


def run(name: str, write: Callable[[ImageWriter], None], X: Array, Y: Array, begin: int, count: int) -> None:
    """Run a kernel on an image whose rows and pixels lie as they do in X."""

    def work(lines: Lines) -> None:
        write(ImageWriter(lines, BLOCK))

    steps = (step // 4 for step in X.strides[:3])
    words = (H, W, C, DOWN, ACROSS, *steps, begin, count, X.ctypes.data, Y.ctypes.data)
    run_kernel(f"winograd writer: {name}", work, 1, *words)


@pytest.mark.parametrize(("begin", "count"), [(0, N * DOWN * ACROSS), (4, 9), (5, 0)])
def test_every_tile_once(begin: int, count: int) -> None:
    """Across first, then down, then the next image; a part of them begins anywhere."""
    found = np.full((N * DOWN * ACROSS, 4), -1, np.int64)

    def write(w: ImageWriter) -> None:
        def tile(place: Term, *where: Term) -> None:
            for k, value in enumerate((place, *where)):
                w.w.Y.of("i64")[place * 4 + k] = value

        w.each_tile(w.w.begin, w.w.count, 4, tile)

    run("tiles", write, image(), found, begin, count)
    every = [(n, 4 * i, 4 * j) for n in range(N) for i in range(DOWN) for j in range(ACROSS)]
    assert found[:count].tolist() == [[place, *every[begin + place]] for place in range(count)]
    assert (found[count:] == -1).all()


@pytest.mark.parametrize("spread", [False, True], ids=["dense", "every second pixel"])
def test_edges_count_as_nothing(spread: bool) -> None:
    """Transformed tiles of an image with pads of 1 and 2, against one that was padded beforehand."""
    L, top, left = lane_count(), 1, 2
    plan = algorithm(4, 3)
    a, groups = plan.a, -(-C // lane_count())
    X = np.repeat(image(), 2, axis=2)[:, :, ::2] if spread else image()
    found = np.full((N * DOWN * ACROSS, a * a, groups * L), np.nan, np.float32)

    def write(w: ImageWriter) -> None:
        def tile(place: Term, number: Term, row: Term, column: Term) -> None:
            y, x = row - top, column - left
            edges = w.inside(y, a, w.w.H), w.inside(x, a, w.w.W)

            def keep(group: Term, index: int, value: Term) -> None:
                within = (place * (a * a) + index) * groups + group
                w.put(value, w.w.Y, within * L)

            w.transform_tile(w.at(w.w.X, "x", number, y, x), "x", edges, w.w.C, plan.data, keep)

        w.each_tile(w.lines.number(0), w.w.count, 4, tile)

    run("edges", write, X, found, 0, len(found))
    padded = np.zeros((N, 4 * DOWN + 2, 4 * ACROSS + 2, C))
    inside = padded[:, top : top + H, left : left + W]
    inside[...] = X[:, : inside.shape[1], : inside.shape[2]]
    B = np.array(plan.data, float)
    tiles = [
        padded[n, 4 * i : 4 * i + a, 4 * j : 4 * j + a] for n in range(N) for i in range(DOWN) for j in range(ACROSS)
    ]
    expected = np.einsum("ai,tijc,bj->tabc", B, np.stack(tiles), B).reshape(len(found), a * a, C)
    np.testing.assert_allclose(found[..., :C], expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    assert not found[..., C:].any(), "channels beyond C are 0"


def test_masks_join_rows_columns_and_lanes() -> None:
    L = lane_count()
    found = np.zeros((3, 2), np.uint32)

    def write(w: ImageWriter) -> None:
        number = w.lines.number
        # Of -1, 0, 1 the last two; of 5, 6 the first.
        down, across = w.inside(number(-1), 3, number(2)), w.inside(number(5), 2, number(6))
        for i, row in enumerate(w.masks(down, across, number(5, f"i{L}").bitcast(w.v.mask))):
            for j, mask in enumerate(row):
                w.w.Y.of("i32")[2 * i + j] = mask.bitcast(f"i{L}").to_unsigned("i32")

    run("masks", write, image(), found, 0, 0)
    assert found.tolist() == [[0, 0], [5, 0], [5, 0]]


@pytest.mark.slow
@pytest.mark.parametrize("turns", [1, 5, 30])
def test_each_line_is_asked_for_once(turns: int) -> None:
    """All turns together ask for m rows of each tile, from where the tile has something new, and for nothing twice."""
    m, begin, count = 4, 2, 7
    X = image()
    asked = np.zeros(N * H * W * C, np.int64)

    class Counting(ImageWriter):
        def ask(self, pointer: Term, write: bool, line: Term) -> None:
            """Count the line in place of asking for it, where it lies within the image."""
            first, place = self.w.X.as_integer(), pointer.as_integer()
            at = self.w.Y.of("i64").at((place - first) // 4 + line * LINE)
            at.store(at.load() + 1)

    def work(lines: Lines) -> None:
        w = Counting(lines, BLOCK)
        expected = Expected(w.w.begin, w.w.count, m, (Source(w.w.X, "x", up=-1),), turns)
        for turn in range(turns):
            w.expect(expected, lines.number(turn))

    words = (H, W, C, DOWN, ACROSS, H * W * C, W * C, C, begin, count, X.ctypes.data, asked.ctypes.data)
    run_kernel(f"winograd writer: expected {turns}", work, 1, *words)
    right = np.zeros_like(asked)
    for tile in range(begin, begin + count):
        n, i, j = tile // (DOWN * ACROSS), tile // ACROSS % DOWN, tile % ACROSS
        for row in range(m):
            start = ((n * H + m * i + row + 1) * W + m * j) * C
            right[start : start + m * C : LINE] += 1
    np.testing.assert_array_equal(asked, right)
