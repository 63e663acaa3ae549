"""oneDNN's matmul under the products of arrays: strides, alpha and beta, threads, and what is refused."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.array.product import Beta, Form, ProductForm
from tazza.engines.onednn import launch, product
from tazza.engines.onednn.library import unavailable
from tazza.engines.onednn.product import KERNEL_BYTES, LEAST_FLOPS, matmul
from tazza.errors import UnavailableError
from tazza.tensor.offer import Offer, Unsupported

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
M, K, N = 96, 80, 72  # over the least number of operations


def form_of(a: Array, b: Array, c: Array, alpha: float = 1.0, beta: float = 0.0) -> ProductForm:
    forms = [Form.of(x.shape, x.strides, x.dtype) for x in (a, b, c)]
    return ProductForm(forms[0], forms[1], forms[2], alpha != 1, Beta.of(beta))


def numbers(*dims: int) -> Array:
    return np.random.default_rng(sum(dims)).standard_normal(dims).astype(np.float32)


def multiplied(a: Array, b: Array, c: Array, alpha: float = 1.0, beta: float = 0.0) -> Array:
    """Run the kernel that is made for these operands, on them; c is written."""
    offer = matmul(form_of(a, b, c, alpha, beta))
    assert isinstance(offer, Offer), offer
    assert offer.nbytes == KERNEL_BYTES
    offer.run(a, b, c, alpha, beta)
    return c


@given(*[st.booleans()] * 2, st.sampled_from([0.0, 1.0]), st.sampled_from([1.0, -0.75]))
def test_transposed_factors_are_other_strides(left: bool, right: bool, beta: float, alpha: float) -> None:
    def lying(rows: int, columns: int, turned: bool) -> Array:
        return numbers(columns, rows).T if turned else numbers(rows, columns)

    a, b, c = lying(M, K, left), lying(K, N, right), numbers(M, N)
    exact = alpha * (a.astype(np.float64) @ b) + beta * c
    np.testing.assert_allclose(multiplied(a, b, c, alpha, beta), exact, rtol=1e-4, atol=1e-4)


def test_batches_broadcast_and_rows_have_a_pitch() -> None:
    a, b = numbers(5, 1, 28, 40), numbers(3, 40, 70)[..., :32]
    memory = np.full((5, 3, 28, 64), 7, np.float32)
    c = memory[..., :32]
    np.testing.assert_allclose(multiplied(a, b, c), a @ b, rtol=1e-4, atol=1e-4)
    assert (memory[..., 32:] == 7).all(), "nothing is written between the rows"


@pytest.mark.parametrize("which", ["a row with a step", "a column with a step", "one column"])
def test_steps_of_extents_of_one_do_not_count(which: str) -> None:
    """A row is as good as the column that its strides say, and the other way round."""
    a, b = numbers(500, 1200), numbers(1200, 3)[:, :1]
    if which == "a row with a step":
        a, b = b.T, a.T
    elif which == "one column":
        b = b.copy()
    c = np.full((a.shape[0], b.shape[1]), np.nan, np.float32)
    np.testing.assert_allclose(multiplied(a, b, c), a @ b, rtol=1e-3, atol=1e-3)


def test_many_threads_are_in_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with an argument block of its own: all have filled theirs before the first one computes."""
    a, b = [numbers(M, K) * (k + 1) for k in range(3)], numbers(K, N)
    results = [np.full((M, N), np.nan, np.float32) for _ in a]
    offer = matmul(form_of(a[0], b, results[0]))
    assert isinstance(offer, Offer)
    meeting = threading.Barrier(len(a), timeout=60)

    @contextlib.contextmanager
    def together(count: int) -> Generator[None]:
        del count
        meeting.wait()
        yield

    monkeypatch.setattr(launch, "with_openmp_threads", together)
    workers = [
        threading.Thread(target=offer.run, args=(one, b, found, 1.0, 0.0))
        for one, found in zip(a, results, strict=True)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for one, found in zip(a, results, strict=True):
        np.testing.assert_allclose(found, one @ b, rtol=1e-4, atol=1e-3)


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_small_products() -> None:
    a, b, c = numbers(3, 5), numbers(5, 7), numbers(3, 7)
    text = f"^210 operations < {LEAST_FLOPS}: NumPy is done before a call is put together$"
    with pytest.raises(Unsupported, match=text):
        matmul(form_of(a, b, c))


def test_any_beta() -> None:
    a, b, c = numbers(M, K), numbers(K, N), numbers(M, N)
    with pytest.raises(Unsupported, match="made for one beta"):
        matmul(form_of(a, b, c, beta=0.5))


@pytest.mark.parametrize("which", ["backwards", "repeated"])
def test_elements_that_are_read_twice_or_backwards(which: str) -> None:
    a, b, c = numbers(M, K), numbers(K, N), numbers(M, N)
    a = a[::-1] if which == "backwards" else np.broadcast_to(a[:1], (M, K))
    with pytest.raises(Unsupported, match="repeat elements or run backwards"):
        matmul(form_of(a, b, c))


def test_slow_code() -> None:
    """As oneDNN has for a result that lies transposed: that is what BLAS is for."""
    a, b, c = numbers(M, K), numbers(K, N), numbers(N, M).T
    with pytest.raises(Unsupported, match="slower than NumPy's BLAS"):
        matmul(form_of(a, b, c))


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forms are refused; a kernel that is still held says so when it is called."""
    a, b, c = numbers(M, K), numbers(K, N), numbers(M, N)
    offer = matmul(form_of(a, b, c))
    assert isinstance(offer, Offer)
    monkeypatch.setattr(product, "unavailable", lambda: "it is not there")
    with pytest.raises(Unsupported, match=r"^it is not there$"):
        matmul(form_of(a, b, c))
    with pytest.raises(UnavailableError, match="engine 'onednn' is not available: it is not there"):
        offer.run(a, b, c, 1.0, 0.0)
