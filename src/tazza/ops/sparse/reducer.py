"""What makes one row of many: the reducers that all operators on segments are made from.

A reducer is told twice. `reduce` and `spread` are its definition, in NumPy, for one segment that has rows. `join`,
`finish` and `back` are formulas for engines that compile: what a row changes, what is made of the end, and what each
row gets of the gradient. Names in formulas: `x` a row, `w` its scalar, `y` what was joined so far, in `back` the
result, `n` how many rows there are, `top` the largest x (0 where that is not finite), `dy` the gradient of the result.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import Array
from tazza.tensor.expression import Expression

NOTHING: Array = np.zeros(0, np.float32)
"""What a reducer does not ask for."""


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """One segment with n > 0 rows x (n, S...); for weighted reducers their scalars w (n, 1...).

    For gradients y and dy (S...) too; what a reducer does not ask for is `NOTHING`.
    """

    n: int
    x: Array
    w: Array
    y: Array
    dy: Array


@dataclass(frozen=True, slots=True)
class Reducer:
    """What makes one row of many.

    Attributes:
        name: R in the names of its operators.
        text: of Y[m], in words of rows x and scalars w.
        reduce: y of a segment.
        spread: the gradient of each of its rows, (n, S...) or what broadcasts to it.
        start: y before the first row.
        join, finish, back: formulas, see above.
        needs: the inputs that `spread` reads beside dy: SCALARS (the reducer is weighted), or DATA and Y.
        example: y of the rows 1, 2 and of the row 3, with scalars 1, 2, 1.
        gradient_example: what these rows get of dy = 5 and 7.
        weigh: of a weighted one, the gradient of each scalar, (n).
        back_scalar: the formula whose sum over S that is.
    """

    name: str
    text: str
    reduce: Callable[[SegmentRows], Array]
    spread: Callable[[SegmentRows], Array]
    start: float
    join: str
    finish: str
    back: str
    example: tuple[float, float]
    gradient_example: tuple[float, float, float]
    needs: tuple[str, ...] = ()
    weigh: Callable[[SegmentRows], Array] = lambda s: (s.dy * s.x).reshape(s.n, -1).sum(1)
    back_scalar: str = "dy * x"

    @property
    def weighted(self) -> bool:
        """Whether each row has a scalar."""
        return "SCALARS" in self.needs

    @property
    def topped(self) -> bool:
        """Whether the largest row is found before others are joined."""
        return "top" in Expression.parse(self.join).names

    @property
    def flops(self) -> int:
        """Operations for one element of a row."""
        return Expression.parse(self.join).flops


def _log_sum_exp(s: SegmentRows) -> Array:
    return np.logaddexp.reduce(s.x, axis=0)


def _share(s: SegmentRows) -> Array:
    """Return dy * exp(x) / (the sum of all exp(x)), for the logarithm of that sum in y."""
    return s.dy * np.exp(s.x - s.y)


SUM = Reducer(
    "Sum",
    "the sum of x",
    reduce=lambda s: s.x.sum(0),
    spread=lambda s: s.dy[None],
    start=0.0,
    join="y + x",
    finish="y",
    back="dy",
    example=(3.0, 3.0),
    gradient_example=(5.0, 5.0, 7.0),
)
MEAN = Reducer(
    "Mean",
    "the mean of x",
    reduce=lambda s: s.x.mean(0),
    spread=lambda s: s.dy[None] / s.n,
    start=0.0,
    join="y + x",
    finish="y / n",
    back="dy / n",
    example=(1.5, 3.0),
    gradient_example=(2.5, 2.5, 7.0),
)
WEIGHTED_SUM = Reducer(
    "WeightedSum",
    "the sum of w * x",
    reduce=lambda s: (s.w * s.x).sum(0),
    spread=lambda s: s.w * s.dy,
    start=0.0,
    join="y + w * x",
    finish="y",
    back="w * dy",
    needs=("SCALARS",),
    example=(5.0, 3.0),
    gradient_example=(5.0, 10.0, 7.0),
)
MAX = Reducer(
    "Max",
    "the largest x",
    reduce=lambda s: s.x.max(0),
    spread=lambda s: np.where(s.x == s.y, s.dy, 0),
    start=-np.inf,
    join="max(y, x)",
    finish="y",
    back="where(x == y, dy, 0)",
    needs=("DATA", "Y"),
    example=(2.0, 3.0),
    gradient_example=(0.0, 5.0, 7.0),
)
LOG_SUM_EXP = Reducer(
    "LogSumExp",
    "log(the sum of exp(x))",
    reduce=_log_sum_exp,
    spread=_share,
    start=0.0,
    join="y + exp(x - top)",
    finish="log(y) + top",
    back="dy * exp(x - y)",
    needs=("DATA", "Y"),
    example=(2.313, 3.0),
    gradient_example=(1.345, 3.655, 7.0),
)
LOG_MEAN_EXP = Reducer(
    "LogMeanExp",
    "log(the mean of exp(x))",
    reduce=lambda s: _log_sum_exp(s) - np.log(s.n),
    spread=lambda s: _share(s) / s.n,
    start=0.0,
    join="y + exp(x - top)",
    finish="log(y / n) + top",
    back="dy * exp(x - y) / n",
    needs=("DATA", "Y"),
    example=(1.62, 3.0),
    gradient_example=(1.345, 3.655, 7.0),
)
