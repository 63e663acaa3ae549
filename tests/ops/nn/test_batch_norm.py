"""SpatialBN: test mode by the harness; training, whose running pair is in place, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, SchemaError, ShapeError, TazzaError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tazza.workspace import Workspace
from tests.check import Case, check_op, engines_of, on_all_engines, run

Array = NDArray[Any]

TRAINING = ["Y", "mean", "var", "saved_mean", "saved_var"]
NAMES = ["X", "scale", "bias", "mean", "var"]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def vectors(count: int) -> list[Array]:
    """Return scale, bias, mean and variance."""
    return [values(count), values(count, 1)[:, 0], values(count, 2)[:, 0], np.abs(values(count, 3)[:, 0]) + 0.5]


def by_channel(X: Array, scale: Array, bias: Array, mean: Array, var: Array, epsilon: float = 1e-5) -> Array:
    """Return Y of test mode, one channel of NCHW after the other."""
    Y = np.zeros_like(X)
    for c in range(X.shape[1]):
        Y[:, c] = (X[:, c] - mean[c]) * scale[c] / np.sqrt(var[c] + epsilon) + bias[c]
    return Y


def channels_last(X: Array, *others: Array) -> Array:
    """Return Y of test mode for NHWC."""
    scale, bias, mean, var = others
    return np.moveaxis(by_channel(np.moveaxis(X, -1, 1), scale, bias, mean, var), 1, -1)


def gradient_in_test_mode(X: Array, scale: Array, dY: Array, mean: Array, var: Array) -> tuple[Array, Array, Array]:
    """Return dX, dscale and dbias of (N, C, S) with epsilon 0.5."""
    z = (X - mean[:, None]) / np.sqrt(var + 0.5)[:, None]
    return dY * (scale / np.sqrt(var + 0.5))[:, None], (dY * z).sum((0, 2)), dY.sum((0, 2))


CASES = [
    Case("SpatialBN", [values(2, 3, 5, 7), *vectors(3)], by_channel, {"is_test": 1}, outputs=1, batched=(0,)),
    Case("SpatialBN", [values(2, 5, 7, 3), *vectors(3)], channels_last, {"is_test": 1, "order": "NHWC"}, 1, id="NHWC"),
    Case("SpatialBN", [values(5, 3), *vectors(3)], by_channel, {"is_test": 1}, outputs=1, id="no spatial size"),
    Case("SpatialBN", [values(2, 3, 2, 4, 5), *vectors(3)], by_channel, {"is_test": 1}, outputs=1, id="3D"),
    Case(
        "SpatialBNGradient",
        [values(2, 3, 5), values(3), values(2, 3, 5) * 2, values(3), np.abs(values(3)) + 1],
        gradient_in_test_mode,
        {"is_test": 1, "epsilon": 0.5},
        batched=(0, 2),
        id="test mode",
    ),
]


@on_all_engines(CASES)
def test_spatial_bn(case: Case, engine: str) -> None:
    check_op(case, engine)


def train(X: Array, *others: Array, **arguments: Any) -> list[Array]:
    """Run a training step; the inputs are changed in place."""
    definition = operator_def("SpatialBN", NAMES, TRAINING, is_test=0, **arguments)
    return run(definition, [X, *others])[0]


def test_training_normalizes_and_moves_the_running_pair() -> None:
    X, (scale, bias, mean, var) = values(4, 3, 5), vectors(3)
    Y, new_mean, new_var, saved_mean, saved_inverse = train(X, scale, bias, mean, var, momentum=0.8, epsilon=1e-3)
    mu, biased, unbiased = X.mean((0, 2)), X.var((0, 2)), X.var((0, 2), ddof=1)
    np.testing.assert_allclose(Y, by_channel(X, scale, bias, mu, biased, 1e-3), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(new_mean, 0.8 * vectors(3)[2] + 0.2 * mu, rtol=1e-5)
    np.testing.assert_allclose(new_var, 0.8 * vectors(3)[3] + 0.2 * unbiased, rtol=1e-5)
    np.testing.assert_allclose(saved_mean, mu, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(saved_inverse, 1 / np.sqrt(biased + 1e-3), rtol=1e-5)


def test_statistics_as_behaviours_row_17_has_them() -> None:
    ws = Workspace()
    x = np.arange(8, dtype="f").reshape(2, 1, 2, 2)
    for name, value in zip("xsbmv", [x, *(np.array([n], np.float32) for n in (1, 0, 0, 0))], strict=True):
        ws.feed(name, value)
    ws.run_operator(operator_def("SpatialBN", list("xsbmv"), ["y", "m", "v", "sm", "si"], is_test=0))
    got = [float(ws.fetch(name)[0]) for name in ("m", "v", "sm", "si")]
    np.testing.assert_allclose(got, [0.35, 0.6, 3.5, 0.4364], atol=1e-4)
    for outputs in (["y", "m2", "v", "sm", "si"], ["y"]):
        with pytest.raises(SchemaError):
            ws.run_operator(operator_def("SpatialBN", list("xsbmv"), outputs, is_test=0))


def test_one_value_a_channel_makes_the_running_variance_nan() -> None:
    _, _, new_var, *_ = train(values(1, 3, 1, 1), *vectors(3))
    assert np.isnan(new_var).all()


def test_an_empty_batch_changes_nothing() -> None:
    Y, mean, var, saved_mean, saved_inverse = train(values(0, 3, 4), *vectors(3))
    assert Y.shape == (0, 3, 4)
    np.testing.assert_array_equal([mean, var], vectors(3)[2:])
    assert not np.any([saved_mean, saved_inverse])


def test_statistics_of_several_batches_come_from_sums() -> None:
    X, other = values(4, 3, 5), values(4, 3, 6)[..., :5]
    both = np.concatenate([X, other])
    sums, squares = both.sum((0, 2)), (both * both).sum((0, 2))
    definition = operator_def("SpatialBN", [*NAMES, "s1", "s2"], TRAINING, is_test=0, num_batches=2)
    results, _ = run(definition, [X, *vectors(3), sums, squares])
    np.testing.assert_allclose(results[3], both.mean((0, 2)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(results[4], 1 / np.sqrt(both.var((0, 2)) + 1e-5), rtol=1e-4)


@pytest.mark.parametrize("engine", engines_of("SpatialBNGradient"))
def test_no_image_has_no_share_of_the_sums_of_several_batches(engine: str) -> None:
    """As in Caffe2; whatever the sums are."""
    names = ["X", "scale", "dY", "mean", "inv_std", "dscale_sum", "dbias_sum"]
    definition = operator_def("SpatialBNGradient", names, ["dX", *names[-2:]], is_test=0, num_batches=2)
    nothing, (scale, _, mean, inv_std) = np.zeros((0, 3, 5), np.float32), vectors(3)
    sums = values(3), values(7)[4:]
    results, _ = run(definition, [nothing, scale, nothing, mean, inv_std, *map(np.copy, sums)], engine, refusable=True)
    for got in results[1:]:
        np.testing.assert_array_equal(got, np.zeros(3, np.float32))


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_gradient_of_training_is_the_central_difference(order: str) -> None:
    random = np.random.default_rng(0)
    X = random.standard_normal((4, 3, 5)).astype(np.float32)
    weights = random.standard_normal(X.shape).astype(np.float32)
    scale, bias = vectors(3)[:2]
    laid = X if order == "NCHW" else np.moveaxis(X, 1, -1).copy()
    definition = operator_def("SpatialBN", NAMES, TRAINING, is_test=0, order=order, epsilon=0.1)
    emitted, gradients = gradient_for_op(find_schema("SpatialBN").view(definition), ["dY", None, None, None, None])
    assert gradients == ["X_grad", "scale_grad", "bias_grad", None, None]
    assert list(emitted[0].input) == ["X", "scale", "dY", "saved_mean", "saved_var"]
    forward, _ = run(definition, [laid.copy(), *vectors(3)])
    dY = weights if order == "NCHW" else np.moveaxis(weights, 1, -1).copy()
    (dX, dscale, dbias), _ = run(emitted[0], [laid, scale, dY, forward[3], forward[4]])
    dX = dX if order == "NCHW" else np.moveaxis(dX, -1, 1)
    directions = [random.standard_normal(shape) for shape in (X.shape, (3,), (3,))]

    def loss(step: float) -> float:
        x, s, b = (v + step * d for v, d in zip((X.astype(float), scale, bias), directions, strict=True))
        return float((weights * by_channel(x, s, b, x.mean((0, 2)), x.var((0, 2)), 0.1)).sum())

    numeric = (loss(1e-5) - loss(-1e-5)) / 2e-5
    analytic = sum(float((d * g).sum()) for d, g in zip(directions, (dX, dscale, dbias), strict=True))
    assert abs(analytic - numeric) < 1e-3 * max(1, abs(numeric))


def test_gradient_in_test_mode_takes_the_running_pair() -> None:
    definition = operator_def("SpatialBN", NAMES, ["Y"], is_test=1)
    emitted, gradients = gradient_for_op(find_schema("SpatialBN").view(definition), ["dY"])
    assert list(emitted[0].input) == ["X", "scale", "dY", "mean", "var"]
    assert gradients == ["X_grad", "scale_grad", "bias_grad", None, None]


X, V = values(2, 3, 5), vectors(3)
REFUSED: list[tuple[list[Array], dict[str, Any], type[TazzaError], str]] = [
    ([X, *V], {}, ArgumentError, "needs the argument 'is_test'"),
    ([X, *V], {"is_test": 0}, SchemaError, "1 outputs with is_test = 0, it takes 5"),
    ([X, *V], {"is_test": 1, "outputs": 5}, SchemaError, "in place|it takes 1"),
    ([X[0, 0], *V], {"is_test": 1}, ShapeError, "X has 1 dimensions"),
    ([X, *vectors(4)], {"is_test": 1}, ShapeError, "scale has 4 elements, X has 3 channels"),
    ([X, V[0], V[1][:2], *V[2:]], {"is_test": 1}, ShapeError, "bias has 2 elements"),
    ([X, *V], {"is_test": 1, "epsilon": 0.0}, ArgumentError, "'epsilon' = 0.0 is not above 0"),
    ([X, *V], {"is_test": 1, "momentum": 2.0}, ArgumentError, "'momentum' = 2.0 is above its maximum"),
    ([X, *V], {"is_test": 1, "order": "XY"}, ArgumentError, "'order' = 'XY'"),
    ([X, *V], {"is_test": 1, "num_batches": 2}, SchemaError, "5 inputs with num_batches = 2"),
    ([X, *V, V[0]], {"is_test": 1}, SchemaError, "6 inputs"),
]


@pytest.mark.parametrize(("inputs", "arguments", "kind", "text"), REFUSED, ids=lambda value: str(value)[:30])
def test_refused(inputs: list[Array], arguments: Any, kind: type[TazzaError], text: str) -> None:
    with pytest.raises(kind, match=text):
        run_op("SpatialBN", *inputs, **({"outputs": 1} | arguments))


def test_gradient_refuses_another_shape_of_dY() -> None:
    with pytest.raises(ShapeError, match="dY has the shape"):
        run_op("SpatialBNGradient", X, V[0], X[:, :, :4], V[2], V[3])
