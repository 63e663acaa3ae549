"""Leaders that are followed: element after element in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, NumericError, ShapeError
from tests.ops.optimizer.of_rows import results, values

Array = NDArray[Any]
LEADER = {"alpha": 0.25, "beta": 0.5, "lambda1": 0.75, "lambda2": 0.125}
AT = np.array([5, 0, 5, 2])
"""Row 5 twice."""
TABLE, GRADIENT = values(7, 2, 3), values(4, 2, 3, seed=1)


def followed(W: Array, nz: Array, g: Array, groups: int | None) -> tuple[Array, Array]:
    """Return W' and nz' by the formulas, with the threshold of `groups` rows; None: of each element."""
    n, z = (nz[..., k].astype(np.float64) for k in (0, 1))
    more = n + g.astype(np.float64) ** 2
    moved = z + g - (np.sqrt(more) - np.sqrt(n)) / LEADER["alpha"] * W
    threshold = LEADER["lambda1"] * (1 if groups is None else np.sqrt(groups))
    length = np.abs(moved) if groups is None else np.sqrt((moved**2).sum(axis=0, keepdims=True))
    share = np.where(length > threshold, 1 - threshold / length, 0)
    return -moved * share / ((LEADER["beta"] + np.sqrt(more)) / LEADER["alpha"] + LEADER["lambda2"]), np.stack(
        [more, moved], -1
    )


@pytest.mark.parametrize("type", ["Ftrl", "GFtrl"])
def test_leaders_that_are_followed(type: str) -> None:
    W, g, nz = values(5, 3), 0.5 * values(5, 3, seed=1), np.abs(values(5, 3, 2, seed=2))
    W[:, 0], g[:, 0], nz[:, 0, 1] = 0.01, 0.1, 0  # a group that is not moved enough
    moved, state = results(type, {"W": W, "nz": nz, "g": g}, ["W1", "nz1"], **LEADER)
    wanted, kept = followed(W, nz, g, len(W) if type == "GFtrl" else None)
    assert 0 < np.count_nonzero(moved) < moved.size
    np.testing.assert_allclose(moved, wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(state, kept, rtol=1e-4, atol=1e-5)
    rates = {"alpha": np.array([0.25], np.float32)}
    arguments = {name: value for name, value in LEADER.items() if name != "alpha"}
    again, _ = results(type, {"W": W, "nz": nz, "g": g, **rates}, ["W1", "nz1"], **arguments)
    np.testing.assert_allclose(again, moved, rtol=1e-6)  # a rate that is an input is not compiled
    with pytest.raises(ArgumentError, match="alpha"):
        results(type, {"W": W, "nz": nz, "g": g, **rates}, ["W1", "nz1"], **LEADER)


def test_rows_of_leaders() -> None:
    nz = np.abs(values(7, 2, 3, 2, seed=2))
    given = {"W": TABLE, "nz": nz, "i": AT, "g": GRADIENT}
    moved, state = results("SparseFtrl", given, ["W", "nz"], **LEADER)
    wanted, kept = TABLE.astype(np.float64), nz.astype(np.float64)
    for row, g in zip(AT, GRADIENT, strict=True):
        wanted[row], kept[row] = followed(wanted[row], kept[row], g, None)
    np.testing.assert_allclose(moved, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(state, kept, rtol=1e-4, atol=1e-5)


def test_what_does_not_fit_is_refused() -> None:
    nz = np.ones((7, 2, 3, 2), np.float32)
    for rows in (AT + 2, -AT):
        with pytest.raises(NumericError, match="indices"):
            results("SparseFtrl", {"W": TABLE, "nz": nz, "i": rows, "g": GRADIENT}, ["W", "nz"])
    with pytest.raises(ShapeError, match="nz has 42 elements, W has 42"):
        results("Ftrl", {"W": TABLE, "nz": TABLE, "g": TABLE}, ["W", "nz"])


def test_nothing_to_follow() -> None:
    moved, state = results(
        "SparseFtrl",
        {"W": TABLE, "nz": GRADIENT.repeat(7).reshape(7, 2, 3, 4)[..., :2], "i": AT[:0], "g": GRADIENT[:0]},
        ["W", "nz"],
    )
    np.testing.assert_array_equal(moved, TABLE)
    assert state.shape == (7, 2, 3, 2)
    for type in ("Ftrl", "GFtrl"):
        moved, _ = results(type, {"W": TABLE[:0], "nz": np.ones((0, 2, 3, 2), "f"), "g": TABLE[:0]}, ["W", "nz"])
        assert moved.shape == (0, 2, 3)
