"""What each letter of an update of rows is to a kernel."""

from __future__ import annotations

from tazza.codegen.row_update import update_of
from tazza.operator import OpView, find_schema, operator_def
from tazza.ops.optimizer.row_wise import ROW_WISE_FORMULAS
from tazza.ops.optimizer.rows import row_formulas
from tazza.tensor import DataType, TensorSpec

ROWS, INDICES = TensorSpec((5, 3), DataType.FLOAT), TensorSpec((2,), DataType.INT64)
ONE, ITER = TensorSpec((1,), DataType.FLOAT), TensorSpec((1,), DataType.INT64)


def view(type: str, inputs: str, outputs: str) -> OpView:
    """Return an operator with its schema."""
    return find_schema(type).view(operator_def(type, inputs.split(), outputs.split()))


def test_letters_of_an_update_of_elements() -> None:
    op = view("SparseAdam", "W M V i g lr t", "W M V")
    formulas = row_formulas(op)
    assert formulas is not None
    given = {"W": ROWS, "M": ROWS, "V": ROWS, "indices": INDICES, "dW": ROWS, "lr": ONE, "iter": ITER}
    update = update_of(op, formulas, given)
    assert update.kept == {"W": "W_next", "M": "M_next", "V": "V_next"}
    assert (update.one, update.by_index, update.scalars) == (frozenset(), {"dW"}, ("lr",))
    assert [slot.letter for _, slot, _ in update.shared.operands] == ["iter"], "the step is the same for all rows"
    assert update.index_bits == 64
    assert not update.segmented


def test_a_number_for_each_row() -> None:
    op = view("RowWiseSparseAdagrad", "W M i g lr", "W M")
    formulas = ROW_WISE_FORMULAS[0][1](op)
    assert formulas is not None
    given = {"W": ROWS, "M": TensorSpec((5,), DataType.FLOAT), "indices": INDICES, "dW": ROWS, "lr": ONE}
    update = update_of(op, formulas, given)
    assert update.one == {"M"}
    assert "mean" in str(update)
