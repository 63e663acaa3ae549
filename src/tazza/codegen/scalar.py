"""Numbers of which a run of a kernel has one each: expressions over operands of one element, computed in float64."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tazza.codegen.block import Slot, Word
from tazza.codegen.fields import Unnamed
from tazza.codegen.function import Emission
from tazza.codegen.term import Term
from tazza.codegen.vector import Vector
from tazza.data_class import dataclass
from tazza.tensor import DataType
from tazza.tensor.expression import Expression

KINDS = {DataType.FLOAT: "float", DataType.DOUBLE: "double", DataType.INT32: "i32", DataType.INT64: "i64"}
"""Element types of operands, and their LLVM types."""


@dataclass(frozen=True, slots=True)
class Scalars:
    """What is computed, by name, from operands whose addresses stand in the block one behind the other.

    Attributes:
        expressions: name -> expression over the names of operands.
        operands: name, slot and element type of each.
    """

    expressions: Mapping[str, Expression]
    operands: Sequence[tuple[str, Slot, DataType]]

    @property
    def words(self) -> tuple[Word, ...]:
        """What they need of a block."""
        return tuple(slot for _, slot, _ in self.operands)

    @property
    def names(self) -> set[str]:
        """The names that they are computed from."""
        return {name for expression in self.expressions.values() for name in expression.names}

    @property
    def unsupported(self) -> str | None:
        """Why one of these types is not read, or None."""
        strange = [f"{name} is {dtype.label}" for name, _, dtype in self.operands if dtype not in KINDS]
        return f"{strange[0]}, which is no number of a formula" if strange else None

    def renamed(self) -> Scalars:
        """Return the same as s0, s1 ... over b0, b1 ...: equal kernels have equal texts."""
        operands = [(f"b{k}", slot, dtype) for k, (_, slot, dtype) in enumerate(self.operands)]
        new = {old: Expression.parse(name) for (old, *_), (name, *_) in zip(self.operands, operands, strict=True)}
        texts = {f"s{k}": one.substitute(new) for k, one in enumerate(self.expressions.values())}
        return Scalars(texts, operands)

    def __str__(self) -> str:
        """Return what tells them apart in kernels."""
        kinds = ", ".join(f"{name} {dtype.label}" for name, _, dtype in self.operands)
        return "; ".join([kinds, *(f"{name} = {one.text()}" for name, one in self.expressions.items())])

    def write(self, v: Vector, first: int | Unnamed, *, held: Collection[int] = ()) -> dict[str, Term]:
        """Return, by name, a vector that is full of each, rounded to the elements of `v`.

        The address of the first operand is that word of the block; the words of `held` ones are the numbers themselves.
        """
        lines = v.lines
        one, tail = Vector(lines, 1, DataType.DOUBLE), first if isinstance(first, Unnamed) else Unnamed(lines, first)
        places = [tail.take_place() if k in held else tail.take(1, "ptr")[0] for k in range(len(self.operands))]
        given = {
            name: one.full(place.of(KINDS[dtype]).load())
            for place, (name, _, dtype) in zip(places, self.operands, strict=True)
        }
        emission = Emission(one, given)
        found = {name: emission.write(expression) for name, expression in self.expressions.items()}
        return {name: v.full(value.lane(0)) for name, value in found.items()}
