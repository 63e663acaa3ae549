"""What a kernel that updates rows is written from: formulas, and what each letter of an operator is to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tazza.codegen.block import Slot, accepts_rows
from tazza.codegen.scalar import Scalars
from tazza.data_class import dataclass
from tazza.operator import OpSchema, OpView, Spec, Unsupported
from tazza.ops.optimizer.adadelta import SPARSE_ADADELTA
from tazza.ops.optimizer.adagrad import SPARSE_ADAGRAD
from tazza.ops.optimizer.adam import SPARSE_ADAM
from tazza.ops.optimizer.fused_adagrad import fused_updates
from tazza.ops.optimizer.momentum_sgd import SPARSE_MOMENTUM_SGD_UPDATE
from tazza.ops.optimizer.row_wise import ROW_WISE_FORMULAS
from tazza.ops.optimizer.rows import RowFormulas, row_formulas
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


def row_updates() -> Iterator[tuple[OpSchema, Callable[[OpView], RowFormulas | None]]]:
    """Yield the operators whose updates of rows kernels are written for, with what tells their formulas."""
    for schema in (SPARSE_ADADELTA, SPARSE_ADAGRAD, SPARSE_ADAM, SPARSE_MOMENTUM_SGD_UPDATE):
        yield schema, row_formulas
    yield from ROW_WISE_FORMULAS
    for type, row in fused_updates.rows.items():
        if not row.reducer.weighted:
            yield fused_updates[type], row.formulas


def formulas_for(op: OpView, inputs: Sequence[Spec], formulas: Callable[[OpView], RowFormulas | None]) -> RowFormulas:
    """Return the formulas of an update whose rows lie as kernels read them, or why there are none."""
    for letter, spec in zip(op.input_letters, inputs, strict=True):
        if not accepts_rows(letter, spec):
            raise Unsupported(f"the rows of {letter} do not lie one behind the other")
    found = formulas(op)
    if found is None:
        raise Unsupported("an argument is not finite, which no formula can name")
    return found
