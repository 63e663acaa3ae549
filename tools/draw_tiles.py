"""Draw one tile of a convolution by Winograd, for docs/walk: F(2, 3), with numbers that the algorithm's matrices give.

Letters of `engines.native.winograd.algorithm`: d a tile of the image (4 x 4), g a filter (3 x 3), y outputs (2 x 2).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tazza.engines.native.winograd.algorithm import Matrix, algorithm
from tools.draw_walk import FOLDER, Canvas

NAME = "tiles"
M, R = 2, 3
FILTER = ((1, 0, 2), (0, 1, 0), (3, 0, 1))
CELL = (34.0, 17.0)
"""Width and height of an element."""
TILE, NEXT, BOTH, PLAIN, RESULT = "#b5d8ef", "#f9d9a6", "#bfe3b4", "#ffffff", "#f4b6b6"

Numbers = NDArray[np.object_]


def numbers(matrix: Matrix) -> Numbers:
    """Return a matrix of the algorithm as an array of fractions."""
    return np.array(matrix, object)


def parts() -> dict[str, Numbers]:
    """Return an image, a filter, and what becomes of the first tile; what comes out is what a convolution gives."""
    form = algorithm(M, R)
    counted = [[Fraction((3 * i + 5 * j) % 7) for j in range(6)] for i in range(6)]
    image, g = np.array(counted, object), np.array([[Fraction(v) for v in row] for row in FILTER], object)
    d = image[: form.a, : form.a]
    B, G, A = numbers(form.data), numbers(form.filters), numbers(form.inverse)
    spread, taps = B @ d @ B.T, G @ g @ G.T
    y = A @ (taps * spread) @ A.T
    plain = [[(d[i : i + R, j : j + R] * g).sum() for j in range(M)] for i in range(M)]
    assert (y == np.array(plain, object)).all(), "the algorithm computes the convolution"
    return {"image": image, "g": g, "B": B, "G": G, "A": A, "spread": spread, "taps": taps, "y": y}


def draw_tiles() -> str:
    """Return the picture as SVG."""
    found = parts()
    a = M + R - 1
    canvas = Canvas("A tile of an image, its products with a filter, and the outputs that they make")
    left, top = 10.0, 34.0
    canvas.text(left, 20, f"an image: its tiles share {R - 1} columns")
    _grid(canvas, found["image"], (left, top), None)
    lower = top + CELL[1] * 7 + 12
    canvas.text(left, lower - 14, f"a filter g of {R} x {R}")
    _grid(canvas, found["g"], (left, lower), RESULT)
    middle = left + CELL[0] * 6 + 40
    canvas.text(middle, 20, "the tile d, summed and subtracted: B^T d B")
    _grid(canvas, found["spread"], (middle, top), TILE)
    canvas.text(middle, lower - 14, "the filter, once for all tiles: G g G^T")
    _grid(canvas, found["taps"], (middle, lower), RESULT)
    right = middle + CELL[0] * a + 150
    canvas.text(right, 20, f"{a * a} products, number by number, where {M * M * R * R} are meant")
    _grid(canvas, found["spread"] * found["taps"], (right, top), BOTH)
    canvas.text(right, lower - 14, f"summed to {M} x {M} outputs y: A^T (...) A")
    _grid(canvas, found["y"], (right, lower), BOTH)
    matrices = lower + CELL[1] * a + 30
    at = left
    for name, letter in (("B^T", "B"), ("G", "G"), ("A^T", "A")):
        canvas.text(at, matrices, name)
        _grid(canvas, found[letter], (at + 26, matrices - 12), PLAIN)
        at += 26 + CELL[0] * found[letter].shape[1] + 40
    return canvas.svg()


def _shared(row: int, column: int) -> str:
    """Return the colour of an element of the image: of the first tile, the one to its right, or both."""
    a = M + R - 1
    if row >= a:
        return PLAIN
    first, second = column < a, column >= M
    return BOTH if first and second else TILE if first else NEXT


def _grid(canvas: Canvas, numbers: Numbers, corner: tuple[float, float], fill: str | None) -> None:
    for (row, column), number in np.ndenumerate(numbers):
        x, y = corner[0] + CELL[0] * column, corner[1] + CELL[1] * row
        canvas.box(x, y, CELL, _shared(row, column) if fill is None else fill, "#aaaaaa")
        canvas.text(x + 4, y + 12, str(number))


def main() -> None:
    """Draw it."""
    (FOLDER / f"{NAME}.svg").write_text(draw_tiles(), encoding="utf-8")


if __name__ == "__main__":
    main()
