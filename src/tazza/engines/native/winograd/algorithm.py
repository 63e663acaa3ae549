"""The Winograd (Cook-Toom) algorithm: a convolution of m outputs by m + r - 1 multiplications instead of m * r.

    y = A^T ((G g) * (B^T d))        d: m + r - 1 inputs, g: r filter taps, y: m outputs of the correlation

Both sides are polynomials that are evaluated at m + r - 2 points and at infinity, multiplied there, and interpolated.
In two dimensions each matrix is applied to rows and columns: 36 products instead of 144 for m = 4, r = 3. A^T is
`Algorithm.inverse`, G `filters` and B^T `data`.

Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015. The points are chosen for small
errors: Barabasz, Anderson, Soodhalter and Gregg, Error Analysis and Improving the Accuracy of Winograd Convolution
for Deep Neural Networks, 2020.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from tazza.data_class import dataclass
from tazza.runtime.cache import remembered

if TYPE_CHECKING:
    from fractions import Fraction

Matrix: TypeAlias = "tuple[tuple[Fraction, ...], ...]"
Number = TypeVar("Number", float, "Fraction")

FORMS = ((2, 3), (4, 3), (5, 3), (2, 5), (4, 5))
"""The (m, r) for which there are cost figures and tests."""
POINTS = {
    4: ((0, 1), (1, 1), (-1, 1)),
    6: ((0, 1), (1, 1), (-1, 1), (2, 1), (-1, 2)),
    7: ((0, 1), (1, 1), (-1, 1), (1, 2), (-2, 3), (3, 1)),
    8: ((0, 1), (1, 1), (-1, 1), (2, 1), (-2, 1), (1, 2), (-1, 2)),
}
"""m + r - 1 -> where polynomials are evaluated, besides infinity: numerators and denominators of those with the
smallest error that were tried."""


@dataclass(frozen=True)
class Algorithm:
    """F(m, r): m outputs of a filter of r taps along each axis; its matrices are exact, for who writes code.

    >>> [[str(x) for x in row] for row in Algorithm(2, 3).inverse]
    [['1', '1', '1', '0'], ['0', '1', '-1', '1']]
    """

    m: int
    r: int

    @property
    def a(self) -> int:
        """How many inputs, and products, there are along each axis."""
        return self.m + self.r - 1

    @functools.cached_property
    def points(self) -> list[Fraction]:
        """Where polynomials are evaluated, besides infinity."""
        from fractions import Fraction  # with a decimal library behind it, which kernels that were kept do without

        return [Fraction(*point) for point in POINTS[self.a]]

    @functools.cached_property
    def inverse(self) -> Matrix:
        """A^T (m, a)."""
        zero, one = _units(self.points)
        return tuple((*(p**i for p in self.points), one if i == self.m - 1 else zero) for i in range(self.m))

    @functools.cached_property
    def filters(self) -> Matrix:
        """G (a, r)."""
        zero, one = _units(self.points)
        weights = [math.prod((p - q for q in self.points if q != p), start=one) for p in self.points]
        taps = [tuple(p**k / weight for k in range(self.r)) for p, weight in zip(self.points, weights, strict=True)]
        return (*taps, (*[zero] * (self.r - 1), one))

    @functools.cached_property
    def data(self) -> Matrix:
        """B^T (a, a)."""
        zero, _ = _units(self.points)
        rows = [(*_polynomial(_without(self.points, p)), zero) for p in self.points]
        return (*rows, _polynomial(self.points))


@remembered("algorithms of Winograd", entries=64)
def algorithm(m: int, r: int) -> Algorithm:
    """Return F(m, r), one object for all who ask."""
    return Algorithm(m, r)


@remembered("filters back from Winograd's algorithm", entries=64)
def taps_back(m: int, r: int) -> tuple[tuple[float, ...], ...]:
    """Return H (r, r), which gives taps back from so many products of G: g = H [(G g)_0, ... (G g)_(r-2), (G g)_(a-1)].

    The polynomial of the taps is interpolated where it was evaluated, at r - 1 points and at infinity.

    >>> taps_back(2, 3)
    ((-1.0, 0.0, 0.0), (1.0, 2.0, -1.0), (0.0, 0.0, 1.0))
    """
    points = [numerator / denominator for numerator, denominator in POINTS[m + r - 1]]
    few = points[: r - 1]
    # The products are g(p) / prod(p - q) over all other points q; of a basis polynomial those among `few` divide it.
    weights = [math.prod((p - q for q in points[r - 1 :]), start=1.0) for p in few]
    columns = [
        (*(weight * x for x in _polynomial(_without(few, p))), 0.0) for p, weight in zip(few, weights, strict=True)
    ]
    return tuple(zip(*columns, _polynomial(few), strict=True))


def _units(numbers: Sequence[Number]) -> tuple[Number, Number]:
    """Return 0 and 1 of their type."""
    zero = numbers[0] - numbers[0]
    return zero, zero + 1


def _without(points: Sequence[Number], p: Number) -> list[Number]:
    return [q for q in points if q != p]


def _polynomial(roots: Sequence[Number]) -> tuple[Number, ...]:
    """Return the coefficients of the product of x - root, of x^0 first."""
    zero, one = _units(roots)
    found = [one]
    for root in roots:
        shifted = [zero, *found]
        scaled = [*(root * one for one in found), zero]
        found = [up - down for up, down in zip(shifted, scaled, strict=True)]
    return tuple(found)
