"""Transformed filters in panels, U = G W G^T, against NumPy: of either order, turned for the gradient, with gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen.kernel import lane_count
from tazza.device import current_context
from tazza.engines.native.winograd.algorithm import FORMS, algorithm
from tazza.engines.native.winograd.filters import ENGINE, SOME, Filters, prepare_filters
from tazza.engines.native.winograd.writer import GAP
from tazza.errors import UnsupportedError
from tazza.operator import Unsupported, find_schema, operator_def
from tazza.operator.engine import why_unavailable
from tazza.operator.reorder import relayout
from tazza.tensor import ROW_MAJOR, CPUPlace, DataType, Opaque, Storage, Tensor, TensorSpec
from tazza.tensor.residue import Kept, residue_bytes
from tests.launching import copied_into

pytestmark = pytest.mark.skipif(
    why_unavailable("Conv", "cpu", ENGINE) is not None, reason="nothing can be compiled here"
)

Array = NDArray[Any]


def packed(form: Filters, W: Array) -> Array:
    """Return U[x][panel][c][2 L] of W (K, C, r, r), without the gaps."""
    panel, L = 2 * lane_count(), lane_count()
    G = np.array(algorithm(form.m, form.r).filters, float)
    U = np.einsum("ai,kcij,bj->abck", G, W, G)
    a, _, C, K = U.shape
    filled = np.zeros((a, a, -(-C // L) * L, -(-K // panel) * panel))
    filled[:, :, :C, :K] = U
    return filled.reshape(a * a, filled.shape[2], -1, panel).swapaxes(1, 2).reshape(a * a, -1)


def split(form: Filters, found: Array) -> Array:
    """Return the matrices of what a copy holds, without the gaps."""
    return found.reshape((form.m + form.r - 1) ** 2, form.matrix_floats)[:, :-GAP]


def assert_close(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("m", "r"), FORMS)
def test_panels(m: int, r: int, last: bool) -> None:
    """C fills no vector and K no panel; what is beyond them is 0."""
    C, K = lane_count() + 3, 2 * lane_count() + 5
    W = np.random.default_rng(1).standard_normal((K, C, r, r)).astype(np.float32)
    form = Filters(m, r, C, K, last)
    blob = np.ascontiguousarray(W.transpose(0, 2, 3, 1)) if last else W
    assert_close(split(form, copied_into(Tensor.from_numpy(blob), form.layout())), packed(form, W))


@pytest.mark.parametrize("last", [False, True])
def test_turned_filters_give_the_gradient(last: bool) -> None:
    """Input and output channels change places, and the taps are turned by 180 degrees."""
    C, K, r = 5, 2 * lane_count() + 3, 3
    W = np.random.default_rng(2).standard_normal((C, K, r, r)).astype(np.float32)  # of the forward direction
    form = Filters(4, r, C, K, last, turned=True)
    blob = np.ascontiguousarray(W.transpose(0, 2, 3, 1)) if last else W
    right = packed(form, W.swapaxes(0, 1)[:, :, ::-1, ::-1])
    assert_close(split(form, copied_into(Tensor.from_numpy(blob), form.layout())), right)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("m", "r"), FORMS)
def test_filters_come_back(m: int, r: int, last: bool, turned: bool) -> None:
    """Bit for bit, with numbers among them that no transformed ones tell of; some of a panel are looked at at once."""
    rng, C, K = np.random.default_rng(m), SOME + lane_count() + 3, 2 * lane_count() + 5
    W = rng.standard_normal((C, K, r, r) if turned else (K, C, r, r)).astype(np.float32)
    wild = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 3e38, 1e-40, 1e-30], np.float32)
    W[rng.random(W.shape[:2]) < 0.1] *= np.float32(1e-20)
    places = rng.random(W.shape) < 1e-3
    W[places] = rng.choice(wild, places.sum())
    blob = Tensor.from_numpy(np.ascontiguousarray(W.transpose(0, 2, 3, 1)) if last else W.copy())
    given = blob.plain().copy()
    relayout(blob, Filters(m, r, C, K, last, turned).layout(), current_context(CPUPlace()))
    assert blob.storage.beside is not None
    np.testing.assert_array_equal(blob.plain().view(np.uint32), given.view(np.uint32))
    relayout(blob, ROW_MAJOR, current_context(CPUPlace()))
    np.testing.assert_array_equal(blob.array.view(np.uint32), given.view(np.uint32))


@pytest.mark.parametrize(("m", "r"), FORMS)
def test_a_residue_is_less_than_a_fifth_of_the_taps(m: int, r: int) -> None:
    W = np.random.default_rng(5).standard_normal((40, 30, r, r)).astype(np.float32)
    blob = Tensor.from_numpy(W)
    relayout(blob, Filters(m, r, 30, 40, last=False).layout(), current_context(CPUPlace()))
    kept = blob.storage.beside
    assert isinstance(kept, Kept)
    assert 0.5 * W.size < kept.residue.nbytes < 0.2 * W.nbytes
    assert kept.residue.nbytes == pytest.approx(residue_bytes(W.size), rel=0.3)


def test_a_copy_does_not_come_back() -> None:
    form = Filters(2, 3, 5, 7, last=False)
    copy = Tensor.over(Storage(CPUPlace()), 0, TensorSpec((7, 5, 3, 3), DataType.FLOAT, layout=form.layout()))
    copy.reserve()
    with pytest.raises(UnsupportedError, match="has been transformed for Winograd's algorithm"):
        copy.plain()


def test_filters_that_lie_anyhow() -> None:
    """As every second number of something, with other axes innermost."""
    C, K, r = 3, 7, 3
    W = np.random.default_rng(3).standard_normal((K, C, r, r)).astype(np.float32)
    memory = np.full((r, K, r, 2 * C), np.nan, np.float32)
    lying = memory[..., ::2].transpose(1, 3, 0, 2)
    lying[...] = W
    form = Filters(2, r, C, K, last=False)
    assert_close(split(form, copied_into(Tensor.from_numpy(lying), form.layout())), packed(form, W))


@pytest.mark.parametrize(("m", "r"), FORMS)
def test_sizes(m: int, r: int) -> None:
    L = lane_count()
    form = Filters(m, r, L + 1, 2 * L + 1, last=False)
    assert form.matrix_floats == 2 * L * 4 * L + GAP
    assert form.nbytes == 4 * (m + r - 1) ** 2 * form.matrix_floats
    layout = form.layout()
    assert (layout.engine, layout.nbytes, layout.derived) == (ENGINE, form.nbytes, True)
    assert layout != Filters(m, r, L + 1, 2 * L + 1, last=False, turned=True).layout(), "another form is another layout"


def test_other_copies_are_left_to_others() -> None:
    plain = TensorSpec((7, 3, 3, 3), DataType.FLOAT)
    op = find_schema("Copy").view(operator_def("Copy", ["X"], ["Y"]))
    for layout in (plain.layout, Opaque("onednn", "a form", 64)):
        target = TensorSpec(plain.dims, DataType.FLOAT, layout=layout)
        with pytest.raises(Unsupported):
            prepare_filters(op, current_context(CPUPlace()), [plain], [target])
