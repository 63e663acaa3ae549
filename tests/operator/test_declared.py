"""Declarations: a schema that speaks of letters which it has not, or not so, is refused when it is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tazza.errors import SchemaError
from tazza.operator import SCHEMAS, OpSchema, as_many, blob, each, pairs, schema, together
from tests.judge.draw import compute, draw

X, W = blob("X", variadic=True), blob("W", variadic=True)
Y, Z = blob("Y", variadic=True), blob("Z", optional=True)


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ({"in_place": {"Q": "W"}}, "in_place names 'Q', which is no output"),
        ({"in_place": {"Y": ("X", "Q")}}, "in_place names 'Q', which is no input"),
        ({"must_in_place": {"Y": each("Q")}}, "must_in_place names 'Q', which is no input"),
        ({"outputs": [blob("Y", like="Q")]}, "like of Y names 'Q', which is no input"),
        ({"outputs": [blob("Y", "Q")]}, "dtypes of Y names 'Q', which is no input"),
        ({"inputs": [X, blob("W", like="X")]}, "like of W names 'X', which is no output"),
        ({"inputs": [X, blob("W", "Y")]}, "dtypes of W names 'Y', which is no input"),
        ({"inputs": [X, W, X]}, "two inputs have the letter 'X'"),
        ({"outputs": [Y, Y]}, "two outputs have the letter 'Y'"),
        ({"relations": [pairs("X", "q")]}, "pairs names 'q', which is no letter"),
        ({"relations": [pairs("X", "Y")]}, "pairs names 'Y', which is no input"),
        ({"relations": [pairs("X", "W"), pairs("V", "W")]}, "pairs of V, W is the second one among its inputs"),
        ({"relations": [pairs("Y", "Z")]}, "pairs names 'Z', which is not variadic"),
        ({"relations": [pairs("X")]}, "pairs names 'X', not different letters"),
        ({"relations": [as_many("q", "X")]}, "as_many names 'q', which is no letter"),
        ({"relations": [as_many("Y", "Y")]}, "as_many names 'Y', 'Y', not different letters"),
        ({"relations": [as_many("Z", "X")]}, "as_many names 'Z', which is not variadic"),
        ({"relations": [together("Z", "q")]}, "together names 'q', which is no letter"),
        ({"relations": [together("Z", "X")]}, "together names 'X', which is not optional"),
    ],
)
def test_what_is_no_letter_is_refused(declared: dict[str, Any], text: str) -> None:
    given: dict[str, Any] = {"inputs": [X, W, blob("V", variadic=True)], "outputs": [Y, Z], **declared}
    try:
        with pytest.raises(SchemaError, match=text):
            schema("TestDeclared", "For tests.", **given)
    finally:
        SCHEMAS.unregister("TestDeclared")


LATER: list[tuple[Callable[[OpSchema], Any], str]] = [
    (lambda made: made.batched("X", "Q"), "batched names 'Q', which is no input"),
    (lambda made: made.hands_on("Y"), "hands_on names 'Y', which is no input"),
    (lambda made: made.reads_through("Y"), "reads_through names 'Y', which is no input"),
    (lambda made: made.commutes("Q"), "commutes names 'Q', which is no input"),
    (lambda made: made.gives_rate("X"), "gives_rate names 'X', which is no output"),
    (lambda made: made.trains_unless("is_test", "Y"), "trains_unless names 'is_test', which is no argument"),
    (lambda made: made.predicts("Q"), "predicts names 'Q', which is no output"),
]


@pytest.mark.parametrize(("declare", "text"), LATER)
def test_what_is_declared_afterwards_is_checked_as_well(declare: Callable[[OpSchema], Any], text: str) -> None:
    made = schema("TestDeclared", "For tests.", inputs=[X], outputs=[Y])
    try:
        with pytest.raises(SchemaError, match=text):
            declare(made)
    finally:
        SCHEMAS.unregister("TestDeclared")


UNDONE = [type for type in sorted(SCHEMAS.keys()) if SCHEMAS[type].undone is not None]


@pytest.mark.parametrize("type", UNDONE)
def test_what_is_undone_comes_back_to_the_last_bit(type: str) -> None:
    declared, pairs_tried = SCHEMAS[type], Counter[bool]()
    assert declared.undone is not None
    for seed in range(6):
        there = draw(type, seed)
        (X,), (Y,) = there.inputs.values(), compute(there).values()
        for again in range(6):
            back = draw(declared.undone.type, again, given={"X": Y.shape})
            undoes = declared.gives_back(declared.view(there.definition), back.schema.view(back.definition))
            pairs_tried[undoes] += 1
            if undoes:
                (Z,) = compute(replace(back, inputs={"X": Y})).values()
                assert (Z.dtype, Z.shape, Z.tobytes()) == (X.dtype, X.shape, X.tobytes()), (there, back)
    assert pairs_tried[True] > 0
    assert (pairs_tried[False] > 0) == (declared.undone.when is not None)


def test_what_undoes_is_undone() -> None:
    assert len(UNDONE) > 4
    by = {type: undone.type for type in UNDONE if (undone := SCHEMAS[type].undone) is not None}
    assert {type: by.get(by[type]) for type in by} == {type: type for type in by}
