"""The table of classes at the end of a training."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from tazza.cli.class_table import SHOWN_MAX, print_classes
from tazza.models.confusion import Confusion


def printed(confusion: Confusion) -> list[str]:
    """Return the lines that are printed on 80 columns."""
    text = StringIO()
    print_classes(Console(file=text, width=80), confusion)
    return text.getvalue().splitlines()


def test_the_worst_come_first() -> None:
    confusion = Confusion(4, {(0, 0): 9, (0, 1): 1, (1, 1): 5, (1, 0): 5, (2, 2): 7}, ("cat", "[b]dog", "bird", "none"))
    _, title, *rows = printed(confusion)
    assert title.split() == ["class", "(2", "of", "4)", "images", "found", "precision", "mostly", "taken", "for"]
    assert [row.split() for row in rows] == [
        ["[b]dog", "10", "50.0%", "83.3%", "cat", "(5)"],
        ["cat", "10", "90.0%", "64.3%", "[b]dog", "(1)"],
    ]


def test_a_thousand_classes_with_long_names() -> None:
    pairs = {(number, (number + 7) % 1000): 123_456 for number in range(1000)}
    lines = printed(Confusion(1000, pairs, [f"a long name of a class {number}" for number in range(1000)]))
    assert len(lines) == SHOWN_MAX + 2
    assert max(map(len, lines)) <= 80
    assert all("…" in line for line in lines[2:])


def test_nothing_is_said_where_all_are_found() -> None:
    assert printed(Confusion(2, {(0, 0): 3, (1, 1): 4})) == []
