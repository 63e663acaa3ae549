"""Formulas on a CUDA device: the cases of all families, sizes around blocks, broadcasting, numbers of the host."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.device import device_option
from tazza.engines.cuda import pointwise
from tazza.operator import SCHEMAS, run_op
from tazza.tensor import CUDAPlace, Tensor
from tazza.tensor.transfer import to_place
from tests.check import Case
from tests.device.cuda_cases import all_cases, run_there, sampled

DEVICE = CUDAPlace(0)
CASES = [case for case in all_cases("cuda") if SCHEMAS[case.type].formulas is not None]


@pytest.mark.parametrize("case", sampled(CASES, 5), ids=lambda case: f"{case.type} {case.id}")
def test_cases_of_families(case: Case) -> None:
    run_there(case, "cuda")


def there(array: object) -> Tensor:
    """Return a copy on the device."""
    return to_place(Tensor.from_numpy(np.asarray(array)), DEVICE)


@pytest.mark.parametrize("n", [1, 255, 256, 1023, 1025, 5000])
def test_threads_with_several_elements_each(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointwise, "MANY", 1)
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    y = np.random.default_rng(n + 1).standard_normal((n, 3)).astype(np.float32)
    option = device_option(DEVICE)
    np.testing.assert_allclose(run_op("Tanh", there(x), device=option), np.tanh(x), rtol=1e-6)
    np.testing.assert_array_equal(run_op("Mul", there(y), there(x[:, None]), device=option), y * x[:, None])


def test_a_number_of_the_host_is_read_when_the_kernel_is_launched() -> None:
    """The step of Adam lies on the host, where no device reads; the call is made anew with what it is then."""
    one = np.ones(3, np.float32)
    inputs = [there(one) for _ in range(4)]
    found = [
        np.asarray(
            run_op("Adam", *inputs, there(one[:1]), np.array([step]), outputs=3, device=device_option(DEVICE))[0]
        )
        for step in (0, 9)
    ]
    wanted = [run_op("Adam", *[one] * 4, one[:1], np.array([step]), outputs=3)[0] for step in (0, 9)]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert not np.allclose(wanted[0], wanted[1])
