"""Words of a block by name: what a launch writes is what the code reads."""

from __future__ import annotations

import struct

import pytest

from tazza.codegen.block import Slot
from tazza.codegen.fields import Fields
from tazza.codegen.term import Lines, Term
from tazza.errors import SchemaError

HEAD = Fields("threads rows", own="status")
FIELDS = Fields("width", doubles="scale", addresses="X", after=HEAD)
GIVEN = {"threads": 2, "rows": 3, "width": 5, "scale": 0.25, "X": Slot("X")}


def test_words_lie_in_the_order_of_the_names() -> None:
    words = FIELDS.words(**GIVEN)
    assert dict(zip(FIELDS, words, strict=True)) == {**GIVEN, "status": 0, "scale": _bits(0.25)}
    assert list(FIELDS)[: len(HEAD)] == list(HEAD)


def test_an_address_is_that_of_its_letter_if_nothing_else_is_said() -> None:
    found = [FIELDS.words(threads=1, rows=1, width=1, scale=0.5, **given)[-1] for given in ({}, {"X": 0})]
    assert found == [Slot("X"), 0]


def _bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


@pytest.mark.parametrize("first", [0, 4])
@pytest.mark.parametrize(("name", "type"), [("threads", "i64"), ("status", "i64"), ("scale", "double"), ("X", "ptr")])
def test_a_word_is_read_where_it_lies_as_what_it_is(name: str, type: str, first: int) -> None:
    lines = Lines()
    found = getattr(FIELDS.lazily(lines, first), name)
    text = lines.text("void @f(ptr %block)")
    assert f"i64 {first + list(FIELDS).index(name)}" in text
    assert f"{found} = load {type}, ptr" in text


def test_words_are_read_once_at_the_start_and_behind_them_one_after_the_other() -> None:
    lines = Lines()
    at = FIELDS.loaded(lines, 1)
    loads = len(lines.lines)
    assert at["width"] is at.width
    assert len(lines.lines) == loads
    tail = at.tail()
    tail.take(1, "ptr")
    assert len(tail.take(2, "double")) == 2
    last = tail.take_place()
    places = [int(line.rpartition(" ")[2]) for line in lines.lines if "getelementptr" in line]
    assert places[0] == 1 + FIELDS.place("X"), "addresses first"
    assert sorted(places) == list(range(1, 1 + len(FIELDS) + 4))
    assert last.text in lines.lines[-1]
    assert [line.split("load ")[1].split(",")[0] for line in lines.lines[loads:] if "load" in line] == [
        *("ptr", "double", "double")
    ]


def test_words_may_lie_in_a_table_of_their_own() -> None:
    lines = Lines()
    found = HEAD.lazily(lines, 1, Term(lines, "ptr", "%table")).rows
    assert lines.text("void @f(ptr %table)").count("getelementptr i64, ptr %table, i64 2") == 1
    assert found.text in lines.lines[-1]


@pytest.mark.parametrize("wrong", [{"columns": 7}, {"status": 1, "other": 2}])
def test_what_has_no_place_or_is_missing_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(SchemaError, match=r"words of the block threads, rows, status, width, scale, X: .* on one side"):
        FIELDS.words(**GIVEN, **wrong)
    with pytest.raises(SchemaError, match="rows, width on one side"):
        FIELDS.words(threads=1, scale=0.5)


def test_a_name_stands_once() -> None:
    with pytest.raises(SchemaError, match="one name: threads, rows, status, rows"):
        Fields("rows", after=HEAD)


def test_another_name_is_no_word() -> None:
    with pytest.raises(SchemaError, match="no word 'height' in a block of threads, rows"):
        FIELDS.place("height")


@pytest.mark.parametrize("name", ["address", "tail", "_block"])
def test_a_word_hides_nothing_of_what_reads_it(name: str) -> None:
    with pytest.raises(SchemaError, match=f"what reads a block has {name} itself"):
        Fields(f"threads {name}")
