"""Writing the product of a small constant matrix with a vector of vectors, in few instructions.

Points come in pairs p, -p. So two rows of B^T (and of G) often are e + o and e - o, where e and o share no column; and
two columns of A^T are equal but for signs. Both halve the work, and are found in the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from tazza.codegen.term import Term
from tazza.engines.native.winograd.algorithm import Matrix

if TYPE_CHECKING:
    from fractions import Fraction

Row: TypeAlias = "Sequence[Fraction]"


def apply_matrix(matrix: Matrix, values: Sequence[Term]) -> list[Term]:
    """Return the rows of matrix @ values."""
    # matrix @ values = rows @ joined, with sums and differences of values among the latter.
    rows, joined = _pair_columns(matrix, list(values))
    results: dict[int, Term] = {}
    # Rows e + o and e - o: e keeps the columns where they agree, o those where they differ in sign.
    for i, row in enumerate(rows):
        if i in results:
            continue
        partner = next((k for k in range(i + 1, len(rows)) if k not in results and _mirrors(row, rows[k])), None)
        if partner is None:
            results[i] = _combination(row, joined)
            continue
        even, odd = (
            _combination([(a + sign * b) / 2 for a, b in zip(row, rows[partner], strict=True)], joined)
            for sign in (1, -1)
        )
        results[i], results[partner] = even + odd, even - odd
    return [results[i] for i in range(len(rows))]


def _mirrors(row: Row, other: Row) -> bool:
    """Whether the rows differ in signs only, and have at least two columns in common and two in opposition."""
    if any(abs(a) != abs(b) for a, b in zip(row, other, strict=True)):
        return False
    same = sum(a == b != 0 for a, b in zip(row, other, strict=True))
    opposed = sum(a == -b != 0 for a, b in zip(row, other, strict=True))
    return same > 0 and opposed > 0 and same + opposed > 2


def _pair_columns(matrix: Matrix, values: list[Term]) -> tuple[list[list[Fraction]], list[Term]]:
    """Return an equal product in which columns that differ in signs only were replaced by sum and difference."""
    columns = [list(column) for column in zip(*matrix, strict=True)]
    made: list[list[Fraction]] = []
    joined, done = list[Term](), set[int]()
    # Columns u and v that differ in signs: u a + v b = (u + v)/2 (a + b) + (u - v)/2 (a - b), half of it zeros.
    for i, column in enumerate(columns):
        if i in done:
            continue
        partner = next((k for k in range(i + 1, len(columns)) if k not in done and _mirrors(column, columns[k])), None)
        if partner is None:
            made.append(column)
            joined.append(values[i])
            continue
        done.add(partner)
        for sign, value in ((1, values[i] + values[partner]), (-1, values[i] - values[partner])):
            made.append([(a + sign * b) / 2 for a, b in zip(column, columns[partner], strict=True)])
            joined.append(value)
    return [list(row) for row in zip(*made, strict=True)], joined


def _combination(row: Row, values: Sequence[Term]) -> Term:
    """Return the sum of c * value; those with a factor of 1 or -1 come first."""
    terms = sorted(((c, value) for c, value in zip(row, values, strict=True) if c), key=lambda term: abs(term[0]) != 1)
    (first, total), *rest = terms
    if first != 1:
        total = -total if first == -1 else total * float(first)
    # total + c * value, without a product where c is 1 or -1.
    for c, value in rest:
        if abs(c) == 1:
            total = total + value if c == 1 else total - value
        else:
            total = value.fma(float(c), total)
    return total


def apply_twice(matrix: Matrix, values: Sequence[Sequence[Term]]) -> list[list[Term]]:
    """Return matrix @ values @ matrix^T, for values in rows."""
    # matrix @ values, column by column; then each row of that from the right: (matrix @ row^T)^T.
    columns = [apply_matrix(matrix, column) for column in zip(*values, strict=True)]
    return [apply_matrix(matrix, row) for row in zip(*columns, strict=True)]
