"""Programs of rows on a CUDA device: the cases of all families, and wrong labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.device import current_context, device_option
from tazza.errors import NumericError
from tazza.operator import SCHEMAS, run_op
from tazza.tensor import CUDAPlace, Tensor
from tazza.tensor.transfer import to_place
from tests.check import Case
from tests.device.cuda_cases import all_cases, run_there, sampled

DEVICE = CUDAPlace(0)
CASES = [case for case in all_cases("cuda") if SCHEMAS[case.type].formulas is None]


@pytest.mark.parametrize("case", sampled(CASES, 5), ids=lambda case: f"{case.type} {case.id}")
def test_cases_of_families(case: Case) -> None:
    run_there(case, "cuda")


@pytest.mark.parametrize(("rows", "classes"), [(3, 5), (2, 300)])
def test_a_label_that_is_no_class_is_told_where_somebody_waits(rows: int, classes: int) -> None:
    X = np.random.default_rng(rows).standard_normal((rows, classes)).astype(np.float32)
    label = np.arange(rows, dtype=np.int32)
    given = [to_place(Tensor.from_numpy(one), DEVICE) for one in (X, label)]
    where: dict[str, Any] = {"device": device_option(DEVICE)}
    wanted = run_op("SoftmaxWithLoss", X, label)
    for found, expected in zip(run_op("SoftmaxWithLoss", *given, **where), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    for wrong in (-1, classes):
        label[1] = wrong
        with pytest.raises(NumericError, match="a label that is no class"):
            run_op("SoftmaxWithLoss", given[0], to_place(Tensor.from_numpy(label), DEVICE), **where)
        stream = current_context(DEVICE).stream
        assert stream is not None
        stream.recover()
    found = run_op("SoftmaxWithLoss", *given, **where)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5)


def test_labels_that_are_no_probabilities_are_told_as_such() -> None:
    X, shares = np.zeros((2, 3), np.float32), np.full((2, 3), 0.5, np.float32)
    given = [to_place(Tensor.from_numpy(one), DEVICE) for one in (X, shares)]
    with pytest.raises(NumericError, match="labels of a row that are no probabilities"):
        run_op("SoftmaxWithLoss", *given, label_prob=1, device=device_option(DEVICE))
    stream = current_context(DEVICE).stream
    assert stream is not None
    stream.recover()


def test_what_little_is_left_of_a_difference_is_right_where_elements_are_float64() -> None:
    X, across = np.random.default_rng(0).standard_normal((2, 3, 7)).astype(np.float32)
    dY = 3000 * X + across
    given = [to_place(Tensor.from_numpy(one), DEVICE) for one in (X, dY)]
    found = run_op("NormalizeGradient", *given, device=device_option(DEVICE))
    np.testing.assert_allclose(found, run_op("NormalizeGradient", X, dY, engine="reference"), rtol=1e-5)
