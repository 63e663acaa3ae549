"""The kernel of the filters' gradient alone: both ways to share the work, with blocks and groups of every size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen.block import BlockLaunch
from tazza.codegen.kernel import compiled, lane_count, unavailable
from tazza.engines.native.winograd import SOURCES
from tazza.engines.native.winograd.algorithm import FORMS, algorithm
from tazza.engines.native.winograd.weights_code import BLOCK, ROWS, WeightsCode, unit_floats
from tazza.engines.native.winograd.writer import GAP
from tazza.tensor import Tensor
from tests.launching import call_alone

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
N, C, K = 2, lane_count() + 2, 2 * lane_count() + 3
H, W, PADS = 9, 12, (1, 0)


def images(r: int) -> tuple[Array, Array]:
    """Return X (N, H, W, C) and dY (N, oH, oW, K) of filters r x r, the pads behind as before."""
    random = np.random.default_rng(r)
    out = (H + 2 * PADS[0] - r + 1, W + 2 * PADS[1] - r + 1)
    X, dY = (random.standard_normal(shape).astype(np.float32) for shape in ((N, H, W, C), (N, *out, K)))
    return X, dY


def direct(X: Array, dY: Array, r: int) -> Array:
    """Return dW (K, C, r, r), tap by tap, in float64."""
    _, oH, oW, _ = dY.shape
    padded = np.pad(X.astype(float), ((0, 0), (PADS[0],) * 2, (PADS[1],) * 2, (0, 0)))
    dW = np.zeros((K, C, r, r))
    for y in range(r):
        for x in range(r):
            dW[:, :, y, x] = np.einsum("nijk,nijc->kc", dY, padded[:, y : y + oH, x : x + oW])
    return dW


def run(m: int, r: int, bias: bool, alone: bool, cut: tuple[int, int, int]) -> tuple[Array, Array]:
    """Return dW and db; `cut` are threads, tiles of a block, and units of a group where threads share a block."""
    threads, block, group = cut
    X, dY = images(r)
    (_, oH, oW, _), L = dY.shape, lane_count()
    down, across = -(-oH // m), -(-oW // m)
    tiles = N * down * across
    channels = -(-C // L) * L, -(-K // (2 * L)) * 2 * L
    units = channels[0] * channels[1] // unit_floats(L)
    group = units if alone else group
    groups = 1 if alone else threads if block >= tiles else -(-units // group)
    matrices = block * channels[0] + GAP, block * channels[1] + GAP, group * unit_floats(L) + GAP
    own = (m + r - 1) ** 2 * (matrices[0] + matrices[1] + groups * matrices[2])
    dW, db = np.full((K, C, r, r), np.nan, np.float32), np.full(K, np.nan, np.float32)
    words = {
        "threads": threads,
        **{"H": H, "W": W, "C": C, "oH": oH, "oW": oW, "K": K, "N": N, "top": PADS[0], "left": PADS[1]},
        **{"tiles_down": down, "tiles_across": across, "tiles": tiles, "block": block},
        **dict(zip(("x_image", "x_row", "x_pixel"), (step // 4 for step in X.strides), strict=False)),
        **dict(zip(("y_image", "y_row", "y_pixel"), (step // 4 for step in dY.strides), strict=False)),
        **dict(zip(("w_k", "w_c", "w_y", "w_x"), (step // 4 for step in dW.strides), strict=True)),
        **{"thread_floats": own if alone else 0, "group": group},
        **dict(zip(("v_matrix", "z_matrix", "u_matrix"), matrices, strict=True)),
    }
    code = WeightsCode(algorithm(r, m), bias, alone)
    address = compiled(code.description, code.write, sources=SOURCES.digest, rewrite=False)
    launch = BlockLaunch(address, BLOCK.words(**words), 4 * own * (threads if alone else 1))
    arrays = {"X": X, "dY": dY, "dW": dW, "db": db}
    tensors = {name: Tensor.from_numpy(array) for name, array in arrays.items()}
    call_alone(launch, tensors)
    return tensors["dW"].array, tensors["db"].array


def assert_close(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


CUTS = [
    pytest.param(True, (1, 7, 0), id="one thread by itself"),
    pytest.param(True, (3, 2, 0), id="threads by themselves, several blocks each"),
    pytest.param(False, (1, 5, 2), id="blocks in groups"),
    pytest.param(False, (2, 5, 3), id="blocks in groups that threads share"),
    pytest.param(False, (2, 1000, 3), id="one block"),
]


@pytest.mark.parametrize(("alone", "cut"), CUTS)
@pytest.mark.parametrize(("m", "r"), FORMS)
def test_both_ways_to_share(m: int, r: int, alone: bool, cut: tuple[int, int, int]) -> None:
    X, dY = images(r)
    dW, db = run(m, r, True, alone, cut)
    assert_close(dW, direct(X, dY, r))
    assert_close(db, dY.sum((0, 1, 2), dtype=float))


@pytest.mark.parametrize("alone", [True, False])
def test_without_a_bias_none_is_written(alone: bool) -> None:
    dW, db = run(4, 3, False, alone, (2, 6, 2))
    assert_close(dW, direct(*images(3), 3))
    assert np.isnan(db).all()


@pytest.mark.slow
def test_more_threads_than_units_and_tiles() -> None:
    """Where they share a block, some transform nothing and some add up nothing."""
    dW, _ = run(5, 3, True, False, (20, 8, 1))
    assert_close(dW, direct(*images(3), 3))


def test_units_divide_vectors_and_panels() -> None:
    for lanes in (4, 8, 16):
        rows = min(ROWS, lanes)
        assert lanes % rows == 0
        assert unit_floats(lanes) == rows * 2 * lanes


def test_descriptions_tell_codes_apart() -> None:
    found = {
        WeightsCode(algorithm(m, r), bias, alone).description
        for m, r in FORMS
        for bias in (False, True)
        for alone in (False, True)
    }
    assert len(found) == 4 * len(FORMS)
