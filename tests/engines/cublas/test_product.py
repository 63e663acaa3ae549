"""Products on cuBLAS: the cases of the families, and how matrices are handed over."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.device import device_option
from tazza.device.cuda.vendor import TF32
from tazza.operator import run_op
from tazza.tensor import Tensor
from tests.check import Case
from tests.device.cuda_cases import DEVICE, run_there, sampled
from tests.ops.math import test_matmul
from tests.ops.nn import test_fc, test_fused

CASES = [*test_fc.CASES, *test_matmul.CASES, *(case for case in test_fused.CASES if case.type == "FusedFC")]


@pytest.mark.parametrize("case", sampled(CASES, 2), ids=lambda case: f"{case.type} {case.id}")
def test_cases_of_families(case: Case) -> None:
    run_there(case, "cublas")


def test_tf32_is_for_those_who_ask() -> None:
    draw = np.random.default_rng(3)
    A, B = (Tensor.from_numpy(draw.standard_normal((64, 64)).astype(np.float32)).to_device(DEVICE) for _ in "AB")
    wanted = A.plain().astype(np.float64) @ B.plain().astype(np.float64)
    errors: list[float] = []
    for allowed in (False, True):
        with TF32.override(allowed):
            found = np.asarray(run_op("MatMul", A, B, device=device_option(DEVICE), engine="cublas"))
        errors.append(float(np.abs(found - wanted).max()))
    assert errors[0] < 1e-4 < errors[1] < 0.2
