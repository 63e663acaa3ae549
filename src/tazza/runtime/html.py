"""HTML for notebooks: headings and tables, without scripts, styles of a page or anything from elsewhere.

Everything that is passed is text, and is escaped: names in a net from a stranger are never markup. Tables are cut at
`ROWS_MAX` rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape

ROWS_MAX = 300
"""Most rows of a table; what is left out is counted."""
CELL_MAX = 200
"""Most letters of a cell."""


def heading(text: str) -> str:
    """Return a line in bold.

    >>> heading("a < b")
    '<div><b>a &lt; b</b></div>'
    """
    return f"<div><b>{escape(text)}</b></div>"


def preformatted(text: str) -> str:
    """Return text whose spaces and lines stay."""
    return f"<pre>{escape(text)}</pre>"


def table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: Collection[int] = (),
    marked: Collection[int] = (),
) -> str:
    """Return a table.

    Args:
        titles: of the columns.
        rows: of as many cells.
        numbers: columns that are aligned at their right.
        marked: rows in bold.

    >>> table(["name"], [["<b>"]])
    '<table><tr><th style="text-align:left">name</th></tr><tr><td style="text-align:left">&lt;b&gt;</td></tr></table>'
    """
    sides = ["right" if column in numbers else "left" for column in range(len(titles))]
    lines = ["".join(_cell("th", title, side) for title, side in zip(titles, sides, strict=True))]
    for place, row in enumerate(rows[:ROWS_MAX]):
        cells = (_cell("td", text, side, bold=place in marked) for text, side in zip(row, sides, strict=True))
        lines.append("".join(cells))
    left_out = len(rows) - ROWS_MAX
    more = f"<div>and {left_out} more rows</div>" if left_out > 0 else ""
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>{more}"


def _cell(tag: str, text: str, side: str, *, bold: bool = False) -> str:
    shown = text if len(text) <= CELL_MAX else f"{text[:CELL_MAX]}..."
    weight = ";font-weight:bold" if bold else ""
    return f'<{tag} style="text-align:{side}{weight}">{escape(shown)}</{tag}>'
