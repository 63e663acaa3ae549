"""Tables that fit the terminal: no cell is cut, and words are not broken where they may stay whole.

A table as wide as the terminal is printed as it is. In a wider one the columns that may lie `below` leave the line of
their row and stand under it; then the widest text is broken between its words. Into files and pipes a table goes whole.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tazza.data_class import dataclass

GAP = 2
"""Blanks between columns."""
INDENT = 4
"""Blanks before what stands below a row."""
NARROWEST = 8
"""Letters that a column of text keeps."""
WHOLE = sys.maxsize
"""Columns of files and pipes."""
_JOINTS = re.compile(r"(?<=[ _./:,\-\[\]()])")
"""Behind these a word is broken that is longer than its column."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: numbers stand at the right; what may lie `below` leaves the line where that is too wide."""

    title: str
    number: bool = False
    below: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a row, and the style that marks it."""

    cells: tuple[str, ...]
    style: str = ""


def print_table(
    console: Console, columns: Sequence[Column], rows: Iterable[Row], *, title: str = "", foot: Row | None = None
) -> None:
    """Print rows under their titles, and a last one, `foot`, that sums them up."""
    listed = list(rows)
    width = console.width if console.is_terminal else WHOLE
    for line in table_lines(columns, listed, foot, width, title):
        console.print(line, highlight=False, soft_wrap=True)


def table_lines(
    columns: Sequence[Column], rows: Sequence[Row], foot: Row | None, width: int, title: str = ""
) -> Iterator[Text]:
    """Yield the lines of a table in a terminal of so many columns.

    >>> columns = [Column("flag"), Column("n", number=True), Column("meaning", below=True)]
    >>> for line in table_lines(columns, [Row(("fast", "10", "as fast as it goes"))], None, 16):
    ...     print(str(line))
    flag   n
        meaning
    fast  10
        as fast as
        it goes
    """
    head = Row(tuple(column.title for column in columns), "bold")
    whole = [head, *rows, *([] if foot is None else [foot])]
    inline, below = _placed(columns, whole, width)
    widths = _widths(columns, whole, inline, width)
    if title:
        yield Text(title, "bold italic")
    for row in whole:
        yield from _in_line(columns, row, inline, widths)
        told = "  ".join(row.cells[k] for k in below if row.cells[k])
        yield from (Text(" " * INDENT + part, row.style) for part in broken(told, width - INDENT) if told)


def broken(text: str, width: int) -> list[str]:
    """Return a text in lines of at most so many columns: between words, else behind a joint, else anywhere.

    Blanks that a text begins with stand in front of each line, as far as there is room.

    >>> broken("as fast as it goes", 10), broken("a.very_long_name", 8), broken("abcdef", 4), broken("  a b", 4)
    (['as fast as', 'it goes'], ['a.very_', 'long_', 'name'], ['abcd', 'ef'], ['  a', '  b'])
    """
    told = text.lstrip(" ")
    blanks = min(len(text) - len(told), max(width - 2, 0)) if told else 0
    return [" " * blanks + line for line in _lines(told, width - blanks)]


def _lines(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width:
            lines[-1] = joined
        elif cell_len(word) <= width:
            lines.append(word)
        else:
            lines += list(_pieces(word, width))
    return [line for line in lines if line] or [""]


def _pieces(word: str, width: int) -> Iterator[str]:
    held = ""
    for part in _JOINTS.split(word):
        rest = part
        if held and cell_len(held + rest) > width:
            yield held
            held = ""
        held += rest
        while cell_len(held) > width:
            fits = next(k for k in range(len(held), 0, -1) if cell_len(held[:k]) <= width or k == 1)
            yield held[:fits]
            held = held[fits:]
    if held:
        yield held


def _placed(columns: Sequence[Column], rows: Sequence[Row], width: int) -> tuple[list[int], list[int]]:
    """Return which columns stand in the line of a row, and which below it."""
    every = list(range(len(columns)))
    if _needed(rows, every) <= width:
        return every, []
    inline = [k for k in every if not columns[k].below]
    return inline, [k for k in every if columns[k].below]


def _needed(rows: Sequence[Row], shown: Sequence[int]) -> int:
    return sum(_widest(rows, k) for k in shown) + GAP * (len(shown) - 1)


def _widest(rows: Sequence[Row], column: int) -> int:
    return max(cell_len(row.cells[column]) for row in rows)


def _widths(columns: Sequence[Column], rows: Sequence[Row], shown: Sequence[int], width: int) -> dict[int, int]:
    """Return the widths of columns; the widest text gives room until the line fits, or all are narrow."""
    widths = {k: _widest(rows, k) for k in shown}
    too_wide = sum(widths.values()) + GAP * (len(widths) - 1) - width
    while too_wide > 0:
        texts = {k: found for k, found in widths.items() if not columns[k].number and found > NARROWEST}
        if not texts:
            break
        widest = max(texts, key=lambda k: texts[k])
        widths[widest] -= 1
        too_wide -= 1
    return widths


def _in_line(columns: Sequence[Column], row: Row, shown: Sequence[int], widths: dict[int, int]) -> Iterator[Text]:
    cells = [broken(row.cells[k], widths[k]) for k in shown]
    for number in range(max(map(len, cells))):
        parts: list[str] = []
        for k, lines in zip(shown, cells, strict=True):
            text = lines[number] if number < len(lines) else ""
            blanks = " " * (widths[k] - cell_len(text))
            parts.append(blanks + text if columns[k].number else text + blanks)
        yield Text((" " * GAP).join(parts).rstrip(), row.style)
