"""The assembler of NVIDIA's toolkit takes kernels of our own; all of them by `make ptxas`."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tazza.codegen.nvptx import ptx_of
from tazza.testing import Case
from tests.device.assembled import PROCESSORS, WHY_NOT, Problem, assembled, assembler, of_cases, texts_of
from tests.engines.cuda.updates import problem
from tests.grid_kernels import row_sums

ROWS, INDICES = np.ones((5, 3), np.float32), np.array([0, 2, 0], np.int64)
CASES = [
    Case("Relu", [ROWS], ROWS),
    Case("Softmax", [np.ones((3, 40), np.float32)], None),
    Case("MaxPool", [np.ones((2, 3, 5, 7), np.float32)], None, {"kernel": 2}),
    Case("Concat", [ROWS, ROWS], None, {"axis": 1}, outputs=2),
    Case("SparseLengthsSum", [ROWS, INDICES, np.array([2, 1], np.int32)], None),
]


def problems() -> list[Problem]:
    """Return one of each kind."""
    return [*of_cases(CASES), problem("RowWiseSparseAdagrad")]


def test_kernels_are_collected_and_none_is_run() -> None:
    texts = texts_of(problems())
    assert len(texts) == 8, "one for each case, and one more where segments or occurrences are found first"
    assert all(f"@{name}(" in text for name, text in texts.items())


@pytest.mark.parametrize("processor", PROCESSORS)
def test_ptx_is_made_for_each_gpu(processor: str) -> None:
    assert f".target {processor}" in ptx_of(row_sums(256).text("row_sums"), processor)


@pytest.mark.slow
@pytest.mark.skipif(assembler() is None, reason=WHY_NOT)
def test_the_assembler_takes_them() -> None:
    """Each kernel for one of the GPUs, in turn."""
    texts = zip(texts_of(problems()).items(), itertools.cycle(PROCESSORS), strict=False)
    found = {name: assembled(text, processor) for (name, text), processor in texts}
    assert [(name, taken.complaint) for name, taken in found.items() if taken.complaint] == []
    assert all(taken.registers > 0 for taken in found.values())


@pytest.mark.skipif(assembler() is None, reason=WHY_NOT)
def test_what_the_assembler_refuses_is_told() -> None:
    taken = assembled(row_sums(1 << 16).text("row_sums"), PROCESSORS[0])
    assert "too much shared data" in taken.complaint
