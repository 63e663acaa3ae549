"""Products on cuBLAS: the cases of the families, and how matrices are handed over."""

from __future__ import annotations

import pytest

from tests.check import Case
from tests.device.cuda_cases import run_there, sampled
from tests.ops.math import test_matmul
from tests.ops.nn import test_fc

CASES = [*test_fc.CASES, *test_matmul.CASES]


@pytest.mark.parametrize("case", sampled(CASES, 2), ids=lambda case: f"{case.type} {case.id}")
def test_cases_of_families(case: Case) -> None:
    run_there(case, "cublas")
