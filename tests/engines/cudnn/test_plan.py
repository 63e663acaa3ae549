"""Which engine is taken: what is asked of plans by arguments and a flag.

Numbers of engines, notes and workspaces are those of the fake library.
"""

from __future__ import annotations

import numpy as np
import pytest

from tazza.device.cuda.vendor import TF32
from tazza.engines.cudnn.image import STEADY
from tazza.errors import UnsupportedError
from tests.device import cudnn_library
from tests.device.cudnn_library import FakeEngine
from tests.engines.cudnn.there import W, X, on_device, on_fake, ran, there


@on_fake
def test_the_first_is_taken_that_is_steady_faithful_and_fits() -> None:
    there("Conv", X, W, kernels=[3, 2])
    assert ran() == [1]
    there("Conv", X, W, kernels=[3, 2], ws_nbytes_limit=100)
    assert ran() == [28]
    there("Conv", X, W, kernels=[3, 2], ws_nbytes_limit=10)
    assert ran() == [0]


@on_fake
def test_tf32_is_for_those_who_ask() -> None:
    (exact,) = on_device("Conv", X, W, kernels=[3, 2])
    with TF32.override(True):
        (rounded,) = on_device("Conv", X, W, kernels=[3, 2])
    assert ran() == [1, 67]
    error = np.abs(exact - rounded).max()
    assert 1e-5 < error < 1e-1


@on_fake
def test_sums_in_any_order_are_for_those_who_ask() -> None:
    there("Conv", X, W, kernels=[3, 2], deterministic=0)
    assert ran() == [25]
    with STEADY.override(False):
        there("Conv", X, W, kernels=[3, 2])
        there("Conv", X, W, kernels=[3, 2], deterministic=1)
    assert ran() == [25, 1]


@on_fake
def test_an_algorithm_is_forced_or_refused() -> None:
    there("Conv", X, W, kernels=[3, 2], force_algo_fwd=0)
    assert ran() == [0]
    there("Conv", X, W, kernels=[3, 2], force_algo=[1, 3, 1])
    assert ran() == [1]
    there("Conv", X, W, np.arange(6, dtype=np.float32), kernels=[3, 2], force_algo_fwd=0)
    assert ran() == [0], "the bias is added behind"
    there("ConvRelu", X, W, kernels=[3, 2], force_algo_fwd=0)
    assert ran() == [1], "engines with a rectifier have other numbers"
    (dY,) = there("Conv", X, W, kernels=[3, 2])
    ran()
    there("ConvGradient", X, W, dY, kernels=[3, 2], no_bias=1, outputs=2, force_algo=[1, 3, 1])
    assert ran() == [25, 1]
    for number, told in ((4, "by the algorithm FFT"), (9, "force_algo_fwd = 9")):
        with pytest.raises(UnsupportedError) as raised:
            there("Conv", X, W, kernels=[3, 2], force_algo_fwd=number)
        assert told in f"{raised.value} {raised.value.hint}"


@on_fake
def test_what_is_forced_rounds_no_more_than_the_types_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cudnn_library, "ENGINES", (FakeEngine(1, ("TENSOR_CORE",)), FakeEngine(0)))
    with pytest.raises(UnsupportedError, match="IMPLICIT_PRECOMP_GEMM"):
        there("Conv", X, W, kernels=[3, 2], force_algo_fwd=1)
    with TF32.override(True):
        on_device("Conv", X, W, kernels=[3, 2], force_algo_fwd=1)
    assert ran() == [1]
