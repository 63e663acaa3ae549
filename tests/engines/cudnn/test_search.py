"""The search for the fastest plan: on the device once, then from what was kept."""

from __future__ import annotations

from pathlib import Path

from tazza.engines.cudnn import launch
from tazza.engines.cudnn.image import SEARCH
from tazza.runtime.native_code import CACHE_DIR
from tests.engines.cudnn.there import W, X, on_fake, ran, there


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
        launch._PLANS.clear()  # pyright: ignore[reportPrivateUsage] -- as in another process
        there("Conv", X, W, kernels=[3, 2], cudnn_exhaustive_search=1)
        assert ran() == [28]
