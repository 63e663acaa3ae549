"""Kernels that are written over specs: what they are shown, and what is refused before they are asked."""

from __future__ import annotations

from typing import Any

import pytest

from tazza.codegen.block import Slot
from tazza.device import current_context
from tazza.engines.cuda import KIND
from tazza.engines.cuda.translated import addresses
from tazza.operator import Unsupported, find_schema, operator_def
from tazza.operator.kernel import KERNELS
from tazza.ops.sparse.sparse_to_dense import SPARSE_TO_DENSE
from tazza.tensor import CPUPlace, DataType, TensorSpec, channels_last


def answer(type: str, inputs: list[TensorSpec], output: TensorSpec, **args: Any) -> object:
    kernel = KERNELS[type, KIND, KIND]
    assert kernel.prepare is not None
    names = [f"in{i}" for i in range(len(inputs))]
    op = find_schema(type).view(operator_def(type, names, ["out"], **args))
    return kernel.prepare(op, current_context(CPUPlace()), inputs, [output])


def test_text_is_refused() -> None:
    words = TensorSpec((2, 3), DataType.STRING)
    with pytest.raises(Unsupported, match=r"^text is not compiled$"):
        answer("Tile", [words], words, tiles=1, axis=0)


def test_letters_that_must_be_float32() -> None:
    rows = TensorSpec((2, 3), DataType.DOUBLE)
    given = [TensorSpec((2,), DataType.INT64), rows, TensorSpec((5, 3), DataType.DOUBLE)]
    with pytest.raises(Unsupported, match=r"^it computes in float32, not X of float64\[2, 3\]$"):
        answer(SPARSE_TO_DENSE.type, given, TensorSpec((5, 3), DataType.DOUBLE))


@pytest.mark.parametrize(("letter", "taken"), [("first", True), ("behind", True), ("X", False)])
def test_letters_of_the_host_lie_in_any_way(letter: str, taken: bool) -> None:
    dims = (2, 3, 5, 7)
    spec = TensorSpec(dims, DataType.FLOAT, layout=channels_last(dims))
    assert KERNELS["Slice", KIND, KIND].accepts(letter, spec) is taken


def test_letters_that_are_overwritten_lie_in_any_way() -> None:
    dims = (2, 3, 5, 7)
    spec = TensorSpec(dims, DataType.FLOAT, layout=channels_last(dims))
    accepts = KERNELS["ScatterWeightedSum", KIND, KIND].accepts
    assert (accepts("X0", spec), accepts("X", spec)) == (True, False)


def test_kernels_belong_to_the_file_that_declares_them() -> None:
    """By that name an index finds the file that has to be loaded."""
    belongs = {
        "Transpose": "shape.transpose",
        "LengthsSum": "sparse.segment_reduction",
        "GRUUnit": "recurrent.step_unit",
    }
    for type, module in belongs.items():
        assert KERNELS[type, KIND, KIND].module == f"tazza.engines.cuda.{module}"


def test_addresses() -> None:
    assert addresses("X", "Y") == {"X": Slot("X"), "Y": Slot("Y")}
