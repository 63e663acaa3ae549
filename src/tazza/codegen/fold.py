"""Sums over the lanes of several vectors at once."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.codegen.term import Term
from tazza.codegen.vector import Vector


def fold_lanes(v: Vector, vectors: Sequence[Term]) -> Term:
    """Return a vector whose lane i is the sum of the lanes of vector i; there are as many vectors as lanes.

    Two vectors become one, with sums of pairs, until one is left: for four lanes

        a0 a1 a2 a3, b0 b1 b2 b3 -> a0+a1 b0+b1 a2+a3 b2+b3 ; with the one of c and d -> a b c d
    """
    width = 1
    found = list(vectors)
    while len(found) > 1:
        found = [_pair(v, left, right, width) for left, right in zip(found[::2], found[1::2], strict=True)]
        width *= 2
    return found[0]


def _pair(v: Vector, left: Term, right: Term, width: int) -> Term:
    """Add the odd to the even pieces of `width` lanes, those of `left` and `right` in turn."""
    starts = range(0, v.count, 2 * width)
    even, odd = (
        [base + start + off + i for start in starts for base in (0, v.count) for i in range(width)]
        for off in (0, width)
    )
    return left.shuffle(even, right) + left.shuffle(odd, right)
