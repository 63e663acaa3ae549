"""Draw how an image becomes columns, for docs/walk: one channel of the walk's convolution, by the code that does it.

The channel's elements are numbered, `Columns` lays them out, and the picture shows where each number came to lie. One
window has colours, so that it can be found again as a column.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tazza.engines.gemm.conv import Sizes, describe
from tazza.graph.text import parse_net
from tazza.operator import find_schema
from tazza.tensor import DataType, TensorSpec
from tools.draw_walk import CONV, FOLDER, SHAPES, Canvas

Numbers: TypeAlias = NDArray[np.float32]
Fill: TypeAlias = Callable[[tuple[int, int], float], str]

NAME = "columns"
CELL = (22.0, 17.0)
"""Width and height of an element."""
WINDOW = 9
"""The window that has colours: the third of the second row."""
COLORS = ("#f4b6b6", "#f9d9a6", "#f6f3a8", "#bfe3b4", "#b5d8ef", "#d9c3ea")
"""Of the elements of a window, in their order."""
PAD, PLAIN = "#eeeeee", "#ffffff"


def laid_out() -> tuple[Numbers, Numbers, tuple[int, ...]]:
    """Return the numbered channel in its border (H, W), its columns (kH * kW, P), and the sizes of the convolution."""
    op = find_schema("Conv").view(parse_net(CONV).op[0])
    specs = [TensorSpec(SHAPES[name], DataType.FLOAT) for name in ("X", "W")]
    window = tuple(specs[1].shape[2:])
    x = np.zeros(SHAPES["X"], np.float32)
    numbered: Numbers = np.arange(1, x[0, 0].size + 1, dtype=np.float32)
    x[0, 0] = numbered.reshape(SHAPES["X"][2:])
    sizes = describe(op, *specs)
    assert isinstance(sizes, Sizes)
    columns = sizes.columns
    assert columns is not None
    assert columns.stage_shape is not None
    buffer: Numbers = np.empty(columns.shape, np.float32)
    stage: Numbers = np.empty(columns.stage_shape, np.float32)
    for step in columns.im2col(x, buffer, stage)[0]:
        step()
    elements = math.prod(window)
    return stage[0, 0], buffer[:elements].reshape(elements, -1), window


def draw_columns() -> str:
    """Return the picture as SVG."""
    image, columns, window = laid_out()
    canvas = Canvas("One channel of an image, and its columns")
    chosen = [float(number) for number in columns[:, WINDOW]]
    assert all(chosen), "the window that has colours lies inside of the image"
    color_of: dict[float, str] = dict(zip(chosen, COLORS, strict=True))
    left, top = 10.0, 34.0
    canvas.text(left, 20.0, "a channel in its border of zeros")
    _draw_grid(canvas, image, (left, top), partial(_of_image, color_of))
    right = left + CELL[0] * image.shape[1] + 50
    rows = [f"({i}, {j})" for i in range(window[0]) for j in range(window[1])]
    told = f"its columns: a row for each element of a window, a column for each of {columns.shape[1]} windows"
    canvas.text(right, 20.0, told)
    for k, name in enumerate(rows):
        canvas.text(right, top + CELL[1] * k + 12, name)
    _draw_grid(canvas, columns, (right + 45, top), partial(_of_columns, color_of))
    below = top + CELL[1] * (len(rows) + 1)
    canvas.text(
        right,
        below + 4,
        "the coloured window: its columns lie two apart (dilation); windows move two down, one to the right (strides)",
    )
    canvas.text(right, below + 20, "an empty cell is a zero of the border")
    return canvas.svg()


def _of_image(color_of: dict[float, str], place: tuple[int, int], number: float) -> str:
    del place
    return color_of.get(number, PLAIN if number else PAD)


def _of_columns(color_of: dict[float, str], place: tuple[int, int], number: float) -> str:
    if place[1] == WINDOW:
        return color_of.get(number, PAD)
    return PLAIN if number else PAD


def _draw_grid(canvas: Canvas, numbers: Numbers, corner: tuple[float, float], fill: Fill) -> None:
    rows, columns = numbers.shape
    for row, column in product(range(rows), range(columns)):
        number = float(numbers[row, column])
        x, y = corner[0] + CELL[0] * column, corner[1] + CELL[1] * row
        canvas.box(x, y, CELL, fill((row, column), number), "#aaaaaa")
        if number:
            canvas.text(x + 4, y + 12, str(int(number)))


def main() -> None:
    """Draw it."""
    (FOLDER / f"{NAME}.svg").write_text(draw_columns(), encoding="utf-8")


if __name__ == "__main__":
    main()
