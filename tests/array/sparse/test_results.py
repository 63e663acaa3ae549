"""Memory of results that comes several to a span."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tazza.array.sparse import CSR, sparse_matmul
from tazza.array.sparse.results import SPAN_BYTES, Results
from tazza.errors import OutOfMemoryError
from tazza.tensor import CPUPlace
from tazza.tensor.allocation import AlignedAllocator, using_allocator


def test_storages_share_a_span_and_no_byte() -> None:
    allocator, results = AlignedAllocator(), Results(CPUPlace(), 1000)
    with using_allocator(allocator):
        storages = [results.storage() for _ in range(100)]
    starts = sorted(storage.address for storage in storages)
    assert all(address % 64 == 0 for address in starts)
    assert min(np.diff(starts)) >= 1000
    assert allocator.statistics.total_count == 2


def test_memory_is_given_back_with_the_last_of_them() -> None:
    allocator, results = AlignedAllocator(), Results(CPUPlace(), 1000)
    with using_allocator(allocator):
        storage = results.storage()
        del results
        gc.collect()
        assert allocator.statistics.in_use_bytes == 64 * 1024
        storage.release()
        assert allocator.statistics.in_use_bytes == 0


def test_memory_comes_from_the_allocator_in_force() -> None:
    results = Results(CPUPlace(), 3000)
    kept = [results.storage()]
    allocator = AlignedAllocator()
    with using_allocator(allocator):
        kept.append(results.storage())
        assert allocator.statistics.in_use_bytes >= 3000
    before = allocator.statistics.total_count
    kept.append(results.storage())
    assert allocator.statistics.total_count == before


def test_large_results_have_spans_of_their_own() -> None:
    allocator, nbytes = AlignedAllocator(), SPAN_BYTES // 2 + 1
    results = Results(CPUPlace(), nbytes)
    with using_allocator(allocator):
        kept = [results.storage() for _ in range(3)]
    assert allocator.statistics.in_use_bytes == 3 * nbytes
    assert len({storage.address for storage in kept}) == 3


def test_near_a_limit_they_come_one_by_one() -> None:
    allocator = AlignedAllocator(limit_bytes=2500)
    results = Results(CPUPlace(), 1000)
    with using_allocator(allocator):
        kept = [results.storage(), results.storage()]
        with pytest.raises(OutOfMemoryError, match="limit of 2500"):
            results.storage()
    assert allocator.statistics.count == len(kept)


def test_threads_never_get_the_same_memory() -> None:
    results = Results(CPUPlace(), 512)
    with ThreadPoolExecutor(8) as pool:
        storages = [taken.result() for taken in [pool.submit(results.storage) for _ in range(2000)]]
    assert len({storage.address for storage in storages}) == 2000


def test_a_result_of_a_product_stays_when_the_next_ones_are_made() -> None:
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((37, 53)) < 0.2, rng.standard_normal((37, 53)), 0).astype(np.float32)
    S, vectors = CSR.from_dense(dense), rng.standard_normal((50, 53)).astype(np.float32)
    products = [sparse_matmul(S, vector) for vector in vectors]
    for vector, product in zip(vectors, products, strict=True):
        np.testing.assert_allclose(product.numpy(), dense @ vector, rtol=1e-5, atol=1e-5)
