"""The gradient of filters, for every form, with several blocks and threads, and edges that the tiles do not cover."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen.kernel import lane_count
from tazza.engines.native.winograd import weights
from tazza.engines.native.winograd.algorithm import FORMS
from tazza.engines.native.winograd.tiling import Problem
from tazza.engines.native.winograd.weights import WeightsTiling, weights_launch
from tazza.engines.native.winograd.weights_code import BLOCK, unit_floats
from tazza.operator.engine import why_unavailable
from tazza.operator.run import run_op
from tazza.tensor import Tensor
from tests.launching import call_alone

pytestmark = pytest.mark.skipif(
    why_unavailable("ConvGradient", "cpu", "native/winograd") is not None, reason="nothing can be compiled here"
)


@pytest.mark.parametrize(("m", "r"), FORMS)
@pytest.mark.parametrize(("threads", "block_bytes"), [(1, 1), (2, 1), (2, 1 << 22), (1, 0), (2, 0), (3, 0)])
def test_blocks_and_threads(m: int, r: int, threads: int, block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a bound of one byte blocks have the least number of tiles, so there are several; 0: threads work alone.

    Where threads share a block groups have three units, and two threads may have some of one.
    """
    alone = block_bytes == 0
    monkeypatch.setattr(weights, "MOST_SUM_BYTES", 1 << 30 if alone else 0)
    monkeypatch.setattr(weights, "TILES_ALONE", 5)
    monkeypatch.setattr(weights, "LEAST_BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(weights, "MOST_BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(weights, "GROUP_BYTES", 3 * 4 * (m + r - 1) ** 2 * unit_floats(lane_count()))
    N, C, K, H, W = 3, 18, 37, 13, 11
    out = (H + 3 - r, W + 3 - r)
    problem = Problem(N, C, K, r, (H, W), out, (1, 1))
    tiling = WeightsTiling(problem, m, threads)
    assert (tiling.block < tiling.tiles) is (block_bytes <= 1)
    assert tiling.alone is alone
    assert tiling.group == (tiling.units if alone else 3)
    random = np.random.default_rng(4)
    X, dY = (random.standard_normal(shape).astype(np.float32) for shape in ((N, H, W, C), (N, *out, K)))
    tensors = {"X": _tensor(X), "dY": _tensor(dY), "dW": Tensor((K, C, r, r)), "db": Tensor((K,))}
    tensors["dW"].reserve()
    tensors["db"].reserve()
    steps = {
        **{"x_image": H * W * C, "x_row": W * C, "x_pixel": C},
        **{"y_image": out[0] * out[1] * K, "y_row": out[1] * K, "y_pixel": K},
        **{"w_k": C * r * r, "w_c": r * r, "w_y": r, "w_x": 1},
    }
    made = weights_launch(tiling, steps, bias=True)
    call_alone(made, tensors)
    args: dict[str, Any] = {"kernel": r, "pad": 1, "no_gradient_to_input": 1}
    images = (X.transpose(0, 3, 1, 2), np.zeros((K, C, r, r), np.float32), dY.transpose(0, 3, 1, 2))
    expected = run_op("ConvGradient", *images, engine="reference", outputs=2, **args)
    for letter, right in zip(("dW", "db"), expected, strict=True):
        np.testing.assert_allclose(tensors[letter].array, right, rtol=0, atol=2e-5 * float(np.abs(right).max()))


@pytest.mark.slow
def test_few_tiles_are_shared_by_all_threads() -> None:
    """They have many channels to add up."""
    tiling = WeightsTiling(Problem(1, 512, 512, 3, (7, 7), (7, 7), (1, 1)), 4, 16)
    assert tiling.tiles < 16
    assert not tiling.alone
    steps: dict[str, int] = {name: 1 for name in BLOCK if name[:2] in ("x_", "y_", "w_")}
    made = weights_launch(tiling, steps, bias=False)
    assert made.words[0] == 16


def _tensor(array: NDArray[Any]) -> Tensor:
    made = Tensor(array.shape)
    made.assign(array)
    return made
