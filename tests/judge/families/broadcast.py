"""Operators of two inputs that are broadcast."""

from __future__ import annotations

from typing import Any

from tazza.operator import OpSchema
from tests.judge.hand import Hand, Shape, Sketch, draws

LETTERS = "NCDHW"


@draws(
    *("Add", "Sub", "Mul", "Div"),
    *("EQ", "NE", "LT", "LE", "GT", "GE"),
    *("And", "Or", "Xor"),
)
def binary(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    if "B" in hand.given and "A" not in hand.given:
        return Sketch({}, {"A": hand.given["B"], "B": hand.given["B"]})
    A = hand.shape("A")
    if "B" in hand.given:
        return Sketch({} if hand.chance(0.5) else {"broadcast": 1}, {"A": A, "B": hand.given["B"]})
    if hand.chance(0.45):
        return under(hand, A)
    if hand.chance(0.3):
        return Sketch({"broadcast": 0} if hand.chance(0.3) else {}, {"A": A, "B": A})
    first = hand.integer(0, len(A)) if hand.chance(0.4) else 0
    narrow = tuple(1 if hand.chance(0.3) else extent for extent in A)[first:]
    if "A" in hand.given or not hand.chance(0.4):
        return Sketch({}, {"A": A, "B": narrow})
    both = (tuple(1 if hand.chance(0.25) else extent for extent in A), narrow)
    return Sketch({}, dict(zip(("B", "A") if hand.chance(0.4) else ("A", "B"), both, strict=True)))


def under(hand: Hand, A: Shape, *, flag: bool = True) -> Sketch:
    """Return a sketch in which B lies under A at an axis, said in one of the ways there are."""
    first = hand.integer(0, len(A))
    last = hand.integer(first, len(A)) if hand.chance(0.5) else len(A)
    B = list(A[first:last])
    for i in range(len(B)):
        if not hand.chance(0.12):
            break
        B[i] = 1
    found: dict[str, Any] = {"broadcast": 1} if flag else {}
    if last != len(A) or hand.chance(0.4):
        if len(A) in (4, 5) and first < len(A) and hand.chance(0.3):
            order = "NCHW" if len(A) == 4 else LETTERS
            found |= {"axis_str": order[first]} | ({"order": order} if order != "NCHW" else {})
        else:
            found["axis"] = first
    return Sketch(found, {"A": A, "B": tuple(B)})


@draws("Pow")
def power(hand: Hand, schema: OpSchema) -> Sketch:
    if hand.chance(0.5):
        return Sketch({"exponent": hand.pick((0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -0.5, 2.5))}, {"A": hand.shape("A")})
    return binary(hand, schema)


@draws("SumReduceLike")
def sum_reduce_like(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    return under(hand, hand.shape("A"), flag=False)
