"""Convolutions on cuDNN: the cases of the families, with their gradients."""

from __future__ import annotations

import pytest

from tazza.operator.kernel import kernel_for
from tests.check import Case
from tests.device.cuda_cases import DEVICE, run_there, sampled
from tests.ops.nn import test_conv, test_conv_relu, test_conv_transpose, test_fused

FAMILIES = [*test_conv.CASES, *test_conv_transpose.CASES, *test_conv_relu.CASES, *test_fused.CASES]
CASES = [case for case in FAMILIES if kernel_for(case.type, DEVICE.kind, "cudnn") is not None]

REFUSALS = ("cut something off", "more than three", "no plan has", "further windows", "something follows")


@pytest.mark.parametrize("case", sampled(CASES, 2), ids=lambda case: f"{case.type} {case.id}")
def test_cases_of_families(case: Case) -> None:
    reason = run_there(case, "cudnn")
    assert reason is None or any(told in reason for told in REFUSALS)
