"""Convolutions on cuDNN: the cases of the family, with their gradients, and the workspace that an argument allows."""

from __future__ import annotations

import pytest

from tests.check import Case
from tests.device.cuda_cases import run_there
from tests.ops.nn import test_conv

CASES = test_conv.CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.type} {case.id}")
def test_cases_of_families(case: Case) -> None:
    reason = run_there(case, "cudnn")
    assert reason is None or "differ" in reason or "nothing to convolve" in reason
