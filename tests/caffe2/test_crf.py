"""Conditional random fields: predictions that follow the best of all paths, by a function in Python."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from caffe2.python import core, crf, model_helper, workspace

Array = NDArray[Any]


@pytest.fixture(autouse=True)
def _own_workspace() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


def best_path(P: Array, A: Array) -> list[int]:
    """Return the best of all paths from the tag of the begin, K, to that of the end, K + 1."""
    K = P.shape[1]

    def score(path: tuple[int, ...]) -> float:
        tags = (K, *path, K + 1)
        return sum(float(P[t, s]) for t, s in enumerate(path)) + sum(float(A[i, j]) for i, j in pairwise(tags))

    return list(max(product(range(K), repeat=len(P)), key=score))


@pytest.mark.parametrize(("T", "K"), [(1, 2), (4, 3), (5, 2)])
def test_predictions_follow_the_best_path(T: int, K: int) -> None:
    rng = np.random.default_rng(T)
    P = rng.standard_normal((T, K)).astype(np.float32)
    A = rng.uniform(-1, 1, (K + 2, K + 2)).astype(np.float32)
    model = model_helper.ModelHelper(f"crf{T}")
    workspace.FeedBlob("p", P)
    workspace.FeedBlob("t", A)
    field = crf.CRFWithLoss(model, K, core.BlobReference("t"))
    updated = field.update_predictions(core.BlobReference("p"))
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    found = workspace.FetchBlob(str(updated))
    assert found.argmax(axis=1).tolist() == best_path(P, A)
    np.testing.assert_array_equal(np.sort(found, axis=1), np.sort(P, axis=1))
