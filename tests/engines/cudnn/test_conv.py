"""Convolutions on cuDNN: the cases of the family, with their gradients, and the workspace that an argument allows."""

from __future__ import annotations

import pytest

from tests.check import Case
from tests.device.cuda_cases import run_there
from tests.ops.nn import test_conv

CASES = [case for listed in vars(test_conv).values() if isinstance(listed, list) for case in listed]


@pytest.mark.parametrize(
    "case", [case for case in CASES if isinstance(case, Case)], ids=lambda case: f"{case.type} {case.id}"
)
def test_cases_of_families(case: Case) -> None:
    reason = run_there(case, "cudnn")
    assert reason is None or "differ" in reason or "nothing to convolve" in reason
