"""The search for the fastest plan: on the device once, then from what was kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tazza.device import Context, device_of
from tazza.engines.cudnn import launch, search
from tazza.engines.cudnn.image import SEARCH
from tazza.engines.cudnn.plan import Plan
from tazza.errors import KernelError
from tazza.runtime.native_code import CACHE_DIR
from tazza.tensor import Tensor
from tests.engines.cudnn.there import DEVICE, W, X, on_fake, ran, there


@on_fake
def test_the_fastest_is_found_once(tmp_path: Path) -> None:
    with CACHE_DIR.override(str(tmp_path)):
        there("Conv", X, W, kernels=[3, 2], exhaustive_search=1)
        timed = ran()
        assert set(timed) == {0, 1, 28}
        assert timed[-1] == 28, "one piece of work, where engine 1 takes two"
        there("Conv", X, W, kernels=[3, 2], exhaustive_search=1)
        assert ran() == [28]
        with SEARCH.override(True):
            there("Conv", X, W, kernels=[3, 2])
        assert ran() == [28]
        device_of(DEVICE).handle("plans of cuDNN", launch.PLANS.another).clear()  # as in another process
        there("Conv", X, W, kernels=[3, 2], cudnn_exhaustive_search=1)
        assert ran() == [28]


@on_fake
def test_what_cannot_be_timed_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(context: Context, plan: Plan, tensors: Mapping[str, Tensor]) -> float:
        del context, tensors
        raise KernelError(f"engine {plan.engine} does not run")

    with CACHE_DIR.override(str(tmp_path)):
        with monkeypatch.context() as patch:
            patch.setattr(search, "_seconds", fail)
            there("Conv", X, W, kernels=[3, 2], exhaustive_search=1)
        assert ran() == [1]
        assert list(tmp_path.iterdir()) == []
