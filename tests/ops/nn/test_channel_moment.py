"""BatchMoments, ChannelStats, ChannelBackpropStats: against a loop over channels; and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, GradientError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
LAST = {"order": "NHWC"}


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers of that shape."""
    return np.random.default_rng(seed).standard_normal(shape).astype("f")


def channels(X: Array, axis: int) -> Iterator[Array]:
    """Yield the elements of each channel."""
    return (np.take(X, c, axis=axis).astype("d").ravel() for c in range(X.shape[axis]))


def powers(axis: int, over: Callable[[Array], Any]) -> Any:
    """Return what becomes of each channel, and of its squares."""

    def function(X: Array) -> tuple[Array, ...]:
        return tuple(np.array([over(x**p) for x in channels(X, axis)]) for p in (1, 2))

    return function


def spread(axis: int) -> Any:
    """Return the gradient of X by one channel after the other."""

    def function(dfirst: Array, dsecond: Array, X: Array) -> Array:
        dX = np.zeros(X.shape)
        for c in range(X.shape[axis]):
            at = (slice(None),) * axis + (c,)
            dX[at] = (dfirst.ravel()[c] + 2 * X[at] * dsecond.ravel()[c]) / X[at].size
        return dX

    return function


def back(X: Array, mean: Array, inv_std: Array, dY: Array) -> tuple[Array, Array]:
    """Return the gradients of scale and bias."""
    z = [(x - m) * s for x, m, s in zip(channels(X, 1), mean.ravel(), inv_std.ravel(), strict=True)]
    dy = list(channels(dY.reshape(X.shape), 1))
    return np.array([a @ b for a, b in zip(z, dy, strict=True)]), np.array([one.sum() for one in dy])


X, FLAT = values(2, 3, 4, 5), values(4, 3, seed=1)
CASES = [
    *(
        case
        for type, over in (("BatchMoments", np.mean), ("ChannelStats", np.sum))
        for case in (
            Case(type, [X], powers(1, over)),
            Case(type, [X], powers(3, over), LAST, id="NHWC"),
            Case(type, [FLAT], powers(1, over), id="no spatial axis"),
            Case(type, [X[:, :, :, 0]], powers(2, over), LAST, id="NHWC of three"),
            # Caffe2 divides by 0, or ends the process.
            Case(type, [X[:0]], (np.zeros(3), np.zeros(3)), id="no images"),
            Case(type, [X[:, :0]], (np.zeros(0), np.zeros(0)), id="no channels"),
        )
    ),
    Case("BatchMomentsGradient", [values(3), values(3, seed=1), X], spread(1)),
    Case("BatchMomentsGradient", [values(5), values(5, seed=1), X], spread(3), LAST, id="NHWC"),
    Case("BatchMomentsGradient", [values(3, 1), values(1, 3, seed=1), FLAT], spread(1), id="vectors of any shape"),
    Case("BatchMomentsGradient", [values(3), values(3), X[:0]], spread(1), id="no images"),
    Case("ChannelBackpropStats", [X, values(3), values(3, seed=1), values(*X.shape, seed=2)], back),
    Case("ChannelBackpropStats", [X, values(3), values(3, seed=1), X], back, LAST, id="order has no effect"),
    Case("ChannelBackpropStats", [values(2, 3, 4), values(3, 1), values(1, 3), values(4, 6)], back, id="as many"),
]


@on_all_engines(CASES)
def test_channel_moment(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("BatchMoments", [X[0, 0, 0]], LAST, ShapeError, "needs at least 2"),
    ("ChannelStats", [np.array(2, "f")], {}, ShapeError, "needs at least 2"),
    ("BatchMoments", [X], {"order": "NWHC"}, ArgumentError, "order"),
    ("ChannelStats", [X.astype("d")], {}, DTypeError, "X is float64, it must be float32"),
    # Caffe2 reads foreign memory.
    ("BatchMomentsGradient", [values(2), values(3), X], {}, ShapeError, r"dfirst has the shape \(2\), X has 3"),
    ("ChannelBackpropStats", [X, values(2), values(3), X], {}, ShapeError, r"mean has the shape \(2\), X has 3"),
    ("ChannelBackpropStats", [X, values(3), values(3), X[:1]], {}, ShapeError, r"dY has the shape \(1, 3, 4, 5\)"),
    ("ChannelBackpropStats", [FLAT, values(3), values(3), FLAT], {}, ShapeError, "needs 3 to 5 dimensions"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


@pytest.mark.parametrize(("type", "count"), [("ChannelStats", 1), ("ChannelBackpropStats", 4)])
def test_a_step_of_a_layer_has_no_gradient(type: str, count: int) -> None:
    definition = operator_def(type, [f"in{i}" for i in range(count)], ["a", "b"])
    with pytest.raises(GradientError, match="normalization"):
        gradient_for_op(find_schema(type).view(definition), ["da", "db"])
