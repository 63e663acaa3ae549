"""Where elements of images lie, whatever the order, and sums over a part of them."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.codegen.block import Slot, Word
from tazza.codegen.term import Term
from tazza.engines.cuda.launch import GridLaunch
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.engines.cuda.vision.image import Images, place_of, split_image, summed
from tests.engines.cuda.test_threads import run, there


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_each_element_becomes_the_sum_from_itself_on(order: str) -> None:
    X = np.random.default_rng(3).standard_normal((2, 3, 4, 5)).astype(np.float32)
    images = Images.of(X.shape, order)

    def write(t: Threads, i: Term) -> None:
        a, h, w, b = split_image(t, "image", i)
        rows, columns = (h, t.w.imageH), (w, t.w.imageW)
        t.store("y", i, summed(t, rows, columns, lambda y, x: t.load("x", place_of(t, "image", (a, y, x, b)))))

    words: dict[str, Word] = {**images.words("image"), "x": Slot("x"), "y": Slot("y")}
    launch, Y = each_launch("sums of a test", X.size, words, write), there(np.zeros_like(X))
    assert isinstance(launch, GridLaunch)
    run(launch, x=there(X), y=Y)
    axes = (1, 2) if order == "NHWC" else (2, 3)
    wanted = np.flip(np.flip(X, axes).cumsum(axes[0]).cumsum(axes[1]), axes)
    np.testing.assert_allclose(Y.plain(), wanted, rtol=1e-5, atol=1e-6)
