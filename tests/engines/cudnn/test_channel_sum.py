"""Sums over all but the channels by the library, which offers them though another engine is quicker."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.tensor import DataType
from tests.engines.cuda.test_channel_sum import summed


@pytest.mark.parametrize("last", [False, True])
def test_the_sum_of_each_channel(last: bool) -> None:
    x, y = summed("cudnn", (2, 3, 5), DataType.FLOAT, last=last)
    np.testing.assert_allclose(y.numpy(), x.numpy().sum((0, 1) if last else (0, 2)), rtol=1e-5, atol=1e-5)
