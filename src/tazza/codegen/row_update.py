"""What a kernel that updates rows is written from: formulas, and what each letter of an operator is to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tazza.codegen.block import Slot
from tazza.codegen.scalar import Scalars
from tazza.operator import OpView
from tazza.ops.optimizer.rows import RowFormulas
from tazza.tensor import TensorSpec


@dataclass(frozen=True, slots=True)
class Update:
    """What a kernel is written from.

    Attributes:
        formulas: what becomes of a row.
        kept: input letters with the rows of the table -> the outputs that overwrite them.
        one: of these, those that have one number for each row.
        by_index: letters, inputs and outputs, with a row for each index, or for each segment of them.
        scalars: input letters of one element.
        shared: what is computed of such ones first, once for all rows.
        index_bits: of an index.
        segmented: whether LENGTHS say which indices are those of a segment.
    """

    formulas: RowFormulas
    kept: Mapping[str, str]
    one: frozenset[str]
    by_index: frozenset[str]
    scalars: tuple[str, ...]
    shared: Scalars
    index_bits: int
    segmented: bool = False

    @property
    def letters(self) -> tuple[str, ...]:
        """Whose addresses stand in the block, behind that of the indices."""
        lengths = ("LENGTHS",) if self.segmented else ()
        return (*self.kept, *self.kept.values(), *sorted(self.by_index), *self.scalars, *lengths)

    def __str__(self) -> str:
        """Return what tells it apart from other kernels."""
        f = self.formulas
        mean = "" if f.mean is None else f.mean.text()
        texts = [f"{letter} = {one.text()}" for part in (f.row, f.each) for letter, one in part.items()]
        told = f"{self.letters} {sorted(self.one)} {self.index_bits} mean {mean}; {'; '.join(texts)}"
        return f"{told} with {self.shared}" if self.shared.expressions else told


def update_of(op: OpView, formulas: RowFormulas, specs: Mapping[str, TensorSpec]) -> Update:
    """Return what is written for an operator with such inputs; LENGTHS among them say that dY is of segments."""
    kept = {str(over): out for out, (over,) in op.schema.must_in_place.items()}
    one = frozenset(letter for letter, out in kept.items() if out in formulas.row)
    gradient, segmented = ("dY", True) if "LENGTHS" in specs else ("dW", False)
    read = {name for one in formulas.shown for name in one.names}
    scalars = tuple(letter for letter in op.input_letters if letter in read - {*kept, gradient})
    by_index = frozenset({gradient, *op.output_letters} - set(kept.values()))
    bits = 8 * specs["indices"].dtype.itemsize
    return Update(formulas, kept, one, by_index, scalars, _shared(formulas, specs), bits, segmented)


def _shared(formulas: RowFormulas, specs: Mapping[str, TensorSpec]) -> Scalars:
    read = sorted({name for expression in formulas.scalars.values() for name in expression.names})
    return Scalars(formulas.scalars, tuple((letter, Slot(letter), specs[letter].dtype) for letter in read))
