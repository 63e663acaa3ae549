"""What tells kernels of rows apart, and their words; totals of rows of many lengths, however threads are dealt out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.codegen.nvptx import GridKernel
from tazza.codegen.row_plan import Operand, RowForm
from tazza.device import device_option
from tazza.engines.cuda.row_code import WORDS, Form, Rows
from tazza.engines.cuda.team import Deal, Limits
from tazza.operator import Expression, run_op
from tazza.tensor import CUDAPlace, DataType, Tensor
from tazza.tensor.transfer import to_place
from tests.cuda_grid import backwards

DEVICE = CUDAPlace(0)
LIMITS = Limits(warp=4, block=8, most=16)


def form_of(team: int, *, kept: bool = True) -> Form:
    """Return the form of Y = X - the sum of its row."""
    operands = (Operand("X", "each", DataType.FLOAT, False), Operand("Y", "each", DataType.FLOAT, True))
    texts = {"total": Expression.parse("X"), "Y": Expression.parse("X - total")}
    rows = RowForm(operands, {"total": "sum"}, texts, (("total",),), "", (), DataType.FLOAT)
    return Form(rows, Deal(team, 1, 1, 3, 2, kept), False, True)


def text_of(form: Form) -> str:
    """Return the module of its kernel."""
    lay = GridKernel(form.words, lambda lines: Rows(lines, form, LIMITS).write(), form.shared_doubles(LIMITS))
    return lay.text("rows")


@pytest.mark.parametrize(("team", "exchanged", "meetings"), [(1, 0, 0), (4, 4, 0), (16, 4, 1)])
def test_members_of_a_warp_exchange_and_warps_meet(team: int, exchanged: int, meetings: int) -> None:
    text = text_of(form_of(team))
    assert text.count("call i32 @llvm.nvvm.shfl") == exchanged, "two halves of a number, over two distances"
    assert text.count("call void @llvm.nvvm.barrier0") == meetings
    assert form_of(team).words == len(WORDS) + 2


def test_what_one_turn_loads_is_loaded_once() -> None:
    assert text_of(form_of(4)).count("= load float,") == 3
    assert text_of(form_of(4, kept=False)).count("= load float,") == 2 * (3 + 1), "and one behind whole turns"


def test_equal_forms_have_equal_names() -> None:
    assert str(form_of(8)) == str(form_of(8)) != str(form_of(4))


def found(type: str, X: np.ndarray[Any, Any], **arguments: Any) -> np.ndarray[Any, Any]:
    """Return what a device makes of X, the last thread first."""
    with backwards():
        return run_op(type, to_place(Tensor.from_numpy(X), DEVICE), device=device_option(DEVICE), **arguments)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 31, 100, 1003, 100_003])
def test_sums_of_rows_of_many_lengths(n: int) -> None:
    X = np.random.default_rng(n).standard_normal((3, n), np.float32)
    wanted, size = X.sum(1, dtype=np.float64), np.abs(X).sum(1)
    for one in (found("ReduceBackSum", X), found("ReduceFrontSum", X.T.copy())):
        assert np.all(np.abs(one - wanted) <= 3e-7 * size)


@pytest.mark.parametrize("n", [5, 64, 300])
def test_programs_of_several_totals(n: int) -> None:
    X = np.random.default_rng(n).standard_normal((2, n), np.float32)
    powers = np.exp(X.astype(np.float64) - X.max(1, keepdims=True))
    np.testing.assert_allclose(found("Softmax", X), powers / powers.sum(1, keepdims=True), rtol=2e-6)


def test_no_number_is_passed_over_where_it_stands_behind_all_whole_turns() -> None:
    X = np.zeros((2, 37), np.float32)
    X[0, 36], X[1, 36] = 2, np.nan
    np.testing.assert_array_equal(found("ReduceMax", X, axes=[1]).ravel(), [2, np.nan])
