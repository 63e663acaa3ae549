"""Which engine multiplies, and why others do not; files that fill registries."""

from __future__ import annotations

import threading
from collections.abc import Hashable

import numpy as np
import pytest

from tazza.array.product import (
    CHOICE_BYTES,
    PRODUCTS,
    Array,
    Beta,
    Form,
    Multiply,
    ProductForm,
    explain_product,
    prepare_product,
    product_into,
)
from tazza.runtime.cache import Cache
from tazza.tensor import product as product_module
from tazza.tensor.filling import load_fillers
from tazza.tensor.offer import Offer, Unsupported
from tazza.tensor.tasks import Taken


def test_every_refusal_has_a_reason() -> None:
    x = np.ones((100, 100), np.float64)
    lines = explain_product(x, x, x).splitlines()
    assert lines[-1] == "numpy: taken"
    assert load_fillers("product") == {} or all(load_fillers("product").values())
    assert [line for line in lines if line.startswith("onednn: ")]


def test_an_engine_that_knows_plain_products_only_is_used_for_scaled_ones() -> None:
    seen: list[ProductForm] = []

    def plain(a: Array, b: Array, c: Array, alpha: float, beta: float) -> None:
        np.matmul(a, b, out=c)

    def solver(form: ProductForm) -> Offer[Multiply] | Unsupported:
        seen.append(form)
        if form.scaled or form.beta is not Beta.ZERO or form.a.dims != (3, 2):
            return Unsupported("plain products of one shape only")
        return Offer(plain)

    PRODUCTS.register("test of products", solver, priority=99)
    try:
        a, b, c = np.ones((3, 2), np.float16), np.ones((2, 5), np.float16), np.ones((3, 5), np.float16)
        product_into(a, b, c, 2.0, 3.0)
    finally:
        PRODUCTS.unregister("test of products")
    assert np.all(c == 7)
    assert [form.scaled for form in seen] == [True, False]
    assert seen[1].c.dtype.label == "float32", "the product is not rounded before it is combined"


@pytest.mark.parametrize("dims", [(1, 200), (200, 1), (1, 1), (200, 200)])
def test_large_strides_and_thin_matrices(dims: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    whole = rng.standard_normal((400, 600)).astype(np.float32)
    other = rng.standard_normal((dims[1], 6000)).astype(np.float32)
    for a in (
        whole[:: 400 // dims[0], 0 : 3 * dims[1] : 3],
        whole[: dims[0], : dims[1]],
        whole.T[: dims[0], : dims[1]],
    ):
        c = np.empty((dims[0], 6000), np.float32)
        product_into(a, other, c)
        assert np.allclose(c, a @ other, atol=1e-3)


def test_a_form_forgets_steps_that_are_never_taken() -> None:
    row, column = Form.of((1, 3), (12, 4), np.dtype("f4")), Form.of((1, 3), (4, 4), np.dtype("f4"))
    assert row == column


def test_threads_multiply_at_once() -> None:
    rng = np.random.default_rng(8)
    factors = [rng.standard_normal((130, 140)).astype(np.float32) for _ in range(4)]
    expected = [a @ a.T for a in factors]
    wrong: list[int] = []

    def work(i: int) -> None:
        c = np.empty((130, 130), np.float32)
        for _ in range(20):
            product_into(factors[i], factors[i].T, c, 1.0 + i)
            if not np.allclose(c, (1 + i) * expected[i], atol=1e-3):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []


def test_another_beta_is_no_other_kernel() -> None:
    x, c = np.ones((100, 100), np.float32), np.ones((100, 100), np.float32)
    chosen = {id(prepare_product(x, x, c, 1.0, beta)) for beta in (0.5, -2.0, 7.25)}
    assert len(chosen) == 1
    for beta in (0.5, 1.0, 0.0, -2.0):
        c[...] = 4
        product_into(x, x, c, 2.0, beta)
        assert np.all(c == 200 + 4 * beta)


def test_kernels_are_kept_within_a_bound_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Cache[Hashable, Taken[Multiply]]("products", 100, 2 * CHOICE_BYTES, kernels=True)
    monkeypatch.setattr(product_module, "CHOICES", small)
    for n in range(1, 20):
        x = np.ones((n, n))
        product_into(x, x, np.empty((n, n)))
    assert 0 < len(small) <= 2
    assert small.statistics.evictions >= 17
