"""The Winograd (Cook-Toom) algorithm: a convolution of m outputs by m + r - 1 multiplications instead of m * r.

    y = A^T ((G g) * (B^T d))        d: m + r - 1 inputs, g: r filter taps, y: m outputs of the correlation

Both sides are polynomials that are evaluated at m + r - 2 points and at infinity, multiplied there, and interpolated.
In two dimensions each matrix is applied to rows and columns: 36 products instead of 144 for m = 4, r = 3.

Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015. The points are chosen for small
errors: Barabasz, Anderson, Soodhalter and Gregg, Error Analysis and Improving the Accuracy of Winograd Convolution
for Deep Neural Networks, 2020.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

from tazza.data_class import dataclass
from tazza.runtime.cache import remembered

Matrix: TypeAlias = tuple[tuple[Fraction, ...], ...]

FORMS = ((2, 3), (4, 3), (5, 3), (2, 5), (4, 5))
"""The (m, r) for which there are cost figures and tests."""
POINTS = {
    4: (0, 1, -1),
    6: (0, 1, -1, 2, Fraction(-1, 2)),
    7: (0, 1, -1, Fraction(1, 2), Fraction(-2, 3), 3),
    8: (0, 1, -1, 2, -2, Fraction(1, 2), Fraction(-1, 2)),
}
"""m + r - 1 -> where polynomials are evaluated, besides infinity: those with the smallest error that were tried."""


@dataclass(frozen=True)
class Algorithm:
    """F(m, r): m outputs of a filter of r taps along each axis.

    `inverse` is A^T of shape (m, a), `filters` G (a, r), `data` B^T (a, a), with a = m + r - 1.
    """

    m: int
    r: int
    inverse: Matrix
    filters: Matrix
    data: Matrix

    @property
    def a(self) -> int:
        """How many inputs, and products, there are along each axis."""
        return self.m + self.r - 1


@remembered("algorithms of Winograd", entries=64)
def algorithm(m: int, r: int) -> Algorithm:
    """Return F(m, r) in exact fractions, for the points of POINTS[m + r - 1].

    >>> [[str(x) for x in row] for row in algorithm(2, 3).inverse]
    [['1', '1', '1', '0'], ['0', '1', '-1', '1']]
    """
    points = [Fraction(point) for point in POINTS[m + r - 1]]
    weights = [math.prod((p - q for q in points if q != p), start=Fraction(1)) for p in points]
    inverse = tuple((*(p**i for p in points), Fraction(i == m - 1)) for i in range(m))
    taps = [tuple(p**k / weight for k in range(r)) for p, weight in zip(points, weights, strict=True)]
    ends = tuple(Fraction(k == r - 1) for k in range(r))
    rows = [(*_polynomial(_without(points, p)), Fraction(0)) for p in points]
    return Algorithm(m, r, inverse, (*taps, ends), (*rows, _polynomial(points)))


@remembered("filters back from Winograd's algorithm", entries=64)
def taps_back(m: int, r: int) -> Matrix:
    """Return H (r, r), which gives taps back from so many products of G: g = H [(G g)_0, ... (G g)_(r-2), (G g)_(a-1)].

    The polynomial of the taps is interpolated where it was evaluated, at r - 1 points and at infinity.

    >>> [[str(x) for x in row] for row in taps_back(2, 3)]
    [['-1', '0', '0'], ['1', '2', '-1'], ['0', '0', '1']]
    """
    points = [Fraction(point) for point in POINTS[m + r - 1]]
    few = points[: r - 1]
    # The products are g(p) / prod(p - q) over all other points q; of a basis polynomial those among `few` divide it.
    weights = [math.prod((p - q for q in points[r - 1 :]), start=Fraction(1)) for p in few]
    columns = [
        [*(weight * x for x in _polynomial(_without(few, p))), Fraction(0)]
        for p, weight in zip(few, weights, strict=True)
    ]
    return tuple(zip(*columns, _polynomial(few), strict=True))


def _without(points: Sequence[Fraction], p: Fraction) -> list[Fraction]:
    return [q for q in points if q != p]


def _polynomial(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return the coefficients of the product of x - root, of x^0 first."""
    found = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *found]
        scaled = [*(root * one for one in found), Fraction(0)]
        found = [up - down for up, down in zip(shifted, scaled, strict=True)]
    return tuple(found)
