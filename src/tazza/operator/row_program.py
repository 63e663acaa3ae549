"""Formulas of operators over rows: what they reduce of each row, what they make of that, and of each element then.

    row_program(
        NORMALIZE,
        lambda op, specs: RowProgram(
            Cut(*parts(op, specs["X"])),
            totals={"squares": Total("sum", "X * X")},
            row={"inverse": "1 / sqrt(squares)"},
            each={"Y": "X * inverse"},
        ),
    )

The blobs are looked at as matrices of B x D x K elements: a row is what lies along D, and there are B * K of them; as
O of such, of O x D elements then. The language is that of `operator.expression`. Names are input letters, arguments,
`count` (the elements of a row), in totals and elements `index` (the place along D, from 0), and what stands before: of
one number a row are all totals and what `row` says. Numbers of rows are computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Literal, TypeAlias

from tazza.data_class import dataclass
from tazza.registry import note_change
from tazza.tensor.expression import Expression

if TYPE_CHECKING:
    from tazza.operator.kernel import Operands
    from tazza.operator.schema import OpSchema
    from tazza.operator.view import OpView
    from tazza.tensor import TensorSpec

Lies: TypeAlias = Literal["row", "along", "repeated", "one"]
"""How a letter lies that has no element for each place: a number for each row, for each place of a row (what it has
behind these is not looked at), for each of some rows which is said again for the next ones, for all."""

JOINS: Mapping[str, tuple[str, float]] = {
    "sum": ("a + b", 0.0),
    "max": ("max(a, b)", float("-inf")),
    "min": ("min(a, b)", float("inf")),
    "first_max": ("where(b > a, b, a)", float("-inf")),
}
"""What joins two numbers, and what it begins with. `first_max` passes over NaN, but for one that stands first."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The extents of the matrices: B of them, rows of D elements, K of them side by side.

    With `outer`, O, all of that is there O times, and a row goes on from each of these to the next.
    """

    before: int
    along: int
    behind: int = 1
    outer: int = 1

    @property
    def size(self) -> int:
        """All elements."""
        return self.outer * self.before * self.along * self.behind

    @classmethod
    def of(cls, shape: Sequence[int], axes: Collection[int]) -> Cut | str:
        """Return the cut whose rows lie along some axes of a blob, or why there is none.

        >>> Cut.of((2, 3, 5, 7), [1, 2])
        Cut(before=2, along=15, behind=7, outer=1)
        >>> Cut.of((2, 3, 5, 7), [0, 2, 3])
        Cut(before=3, along=35, behind=1, outer=2)
        """
        runs: list[tuple[bool, int]] = []
        for axis, extent in enumerate(shape):
            flag = axis in axes
            if runs and (runs[-1][0] == flag or extent == 1):
                runs[-1] = runs[-1][0], runs[-1][1] * extent
            elif extent != 1:
                runs.append((flag, extent))
        flags, extents = [flag for flag, _ in runs], [extent for _, extent in runs]
        if flags.count(True) > 1 + (flags[0] if flags else False):
            return f"axes {sorted(axes)} lie apart, with others before them"
        if True not in flags:
            return cls(1, 1, math.prod(extents))
        place = len(flags) - 1 - flags[::-1].index(True)
        first = 1 if flags.count(True) > 1 else 0
        outer, before = math.prod(extents[:first]), math.prod(extents[first:place])
        return cls(before, extents[place], math.prod(extents[place + 1 :]), outer)


@dataclass(frozen=True, slots=True)
class Total:
    """What a row is reduced to: a name of `JOINS`, and the text of what is joined."""

    join: str
    text: str


@dataclass(frozen=True, slots=True)
class RowProgram:
    """What an operator makes of its rows.

    Attributes:
        cut: how its blobs lie.
        totals: name or output letter -> what a row is reduced to.
        row: name or output letter -> text of a number of each row.
        each: output letter -> text of an element.
        lies: of letters that have no element for each place, how they lie.
        picks: letter -> how many rows in turn share a number of it; when all have been used it begins anew. Where
            K is 1 only.
        pairs: letter of two numbers for each place, in turn -> what these are called.
        keeps: names of numbers of a row that programs behind this one read, as letters.
        wrong: name of a number that has to be 0 in each row, else `check` raises an error, seeing all operands.
        complaint: what a number that is not 0 means, where nobody can look at the operands, as on a device.
        given: name -> a number that follows from shapes, which equal kernels have no matter what it is.
        wide: whether elements are computed in float64 too: where little is left of a difference.
    """

    cut: Cut
    totals: Mapping[str, Total] = field(default_factory=dict[str, Total])
    row: Mapping[str, str] = field(default_factory=dict[str, str])
    each: Mapping[str, str] = field(default_factory=dict[str, str])
    lies: Mapping[str, Lies] = field(default_factory=dict[str, "Lies"])
    given: Mapping[str, float] = field(default_factory=dict[str, float])
    picks: Mapping[str, int] = field(default_factory=dict[str, int])
    pairs: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    keeps: tuple[str, ...] = ()
    wide: bool = False
    wrong: str = ""
    complaint: str = ""
    check: Callable[[Operands], None] | None = None

    def __post_init__(self) -> None:
        """See that who looks for something wrong says what."""
        assert bool(self.wrong) == bool(self.complaint), f"{self.wrong!r} is wrong, which means {self.complaint!r}"

    def stages(self) -> list[list[str]]:
        """Return the names of totals in groups, each of which needs no more than those before it.

        >>> Cut(2, 3)
        Cut(before=2, along=3, behind=1, outer=1)
        >>> totals = {"most": Total("max", "X"), "powers": Total("sum", "exp(X - most)")}
        >>> RowProgram(Cut(2, 3), totals).stages()
        [['most'], ['powers']]
        """
        level: dict[str, int] = {}
        for name, one in self.totals.items():
            level[name] = 1 + self._highest(one.text, level)
        return [[name for name in level if level[name] == k] for k in range(1, max(level.values(), default=0) + 1)]

    def _highest(self, text: str, level: Mapping[str, int]) -> int:
        found = 0
        for name in Expression.parse(text).names:
            if name in self.row and name not in level:
                found = max(found, self._highest(self.row[name], level))
            found = max(found, level.get(name, 0))
        return found


RowRule: TypeAlias = "Callable[[OpView, Mapping[str, TensorSpec]], RowProgram | tuple[RowProgram, ...] | str]"
"""From the operator and the specs of its letters, inputs and outputs: a program, or several, one behind the other,
of which none reads what one before it may have overwritten. A text says why there is none."""


ROW_RULES: dict[str, RowRule] = {}
"""Of each operator type that states what it makes of its rows, the rule."""
AS_IT_LIES: set[str] = set()
"""Those of them for which nothing is brought into another order."""


def row_program(schema: OpSchema, rule: RowRule, *, as_it_lies: bool = False) -> None:
    """State what an operator makes of its rows; an engine then compiles it, and the reference kernel judges it.

    `as_it_lies`: only where all blobs are row-major anyway, since other engines take other layouts as they are.
    """
    ROW_RULES[schema.type] = rule
    if as_it_lies:
        AS_IT_LIES.add(schema.type)
    note_change()  # a kernel can be made of it from now on
