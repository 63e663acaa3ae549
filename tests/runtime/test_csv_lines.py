"""Whatever cells hold, a reader gets them back; nothing else in the package writes CSV."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import tazza
from tazza.runtime.csv_lines import csv_lines
from tazza.runtime.files import encodable

HOSTILE = st.text(st.sampled_from("a,\"'\n\r\t\0 \udcff\u2028=ä") | st.characters(), max_size=6)


@given(st.lists(st.lists(HOSTILE, min_size=1, max_size=4), max_size=4))
def test_cells_come_back(rows: list[list[str]]) -> None:
    data = "".join(csv_lines(rows)).encode()
    read = list(csv.reader(io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")))
    assert read == [[encodable(cell) for cell in row] for row in rows]


def test_no_other_place_writes_them() -> None:
    package = Path(tazza.__file__).parent
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"csv\.(writer|DictWriter)\(", path.read_text())
    }
    assert found == {"runtime/csv_lines.py"}
