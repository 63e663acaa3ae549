"""Parameters over the memory of their file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.job import mapped_arrays


def test_arrays_are_those_that_were_saved(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    saved = {
        "conv1/7x7_w": random.standard_normal((3, 2, 5)).astype(np.float32),
        "b": random.integers(0, 9, 7).astype(np.int32),
        "number": np.float64(2.5).reshape(()),
        "columns": np.asfortranarray(random.standard_normal((4, 3))),
        "nothing": np.zeros((0, 3), np.float32),
        "half": np.arange(5, dtype=np.float16),
    }
    file = tmp_path / "parameters.npz"
    np.savez(file, allow_pickle=False, **saved)
    found = mapped_arrays(file)
    assert list(found) == list(saved)
    for name, value in saved.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value)
    assert not found["b"].flags.writeable


def test_what_is_compressed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "parameters.npz"
    np.savez_compressed(file, b=np.zeros(100))
    with pytest.raises(ValueError, match=r"b\.npy in .* is compressed"):
        mapped_arrays(file)
