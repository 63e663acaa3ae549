r"""Lines of CSV, as every reader takes them: the one place that writes them.

A cell with a comma, a quote, or an end of line of any kind is quoted; a name of a file that is no UTF-8 comes with
backslashes, as in messages. Lines end in LF alone.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from tazza.runtime.files import encodable

END = "\r\n"
"""What the writer ends lines in: up to Python 3.12 it quotes only letters of this."""


def csv_lines(rows: Iterable[Iterable[object]]) -> Iterator[str]:
    r"""Give a line for each row, with its end; None is an empty cell.

    >>> list(csv_lines([["a", 1, None], ["b\rc", "d,e", 0.5]]))
    ['a,1,\n', '"b\rc","d,e",0.5\n']
    """
    line = io.StringIO(newline="")
    writer = csv.writer(line, lineterminator=END)
    for row in rows:
        line.seek(0)
        line.truncate()
        writer.writerow(row)
        yield encodable(line.getvalue().removesuffix(END)) + "\n"
