"""Functions of one element on oneDNN, both directions, against their formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.engines.onednn.eltwise import eltwise, eltwise_gradient
from tazza.engines.onednn.library import Unimplemented, unavailable
from tazza.operator import OpView, find_schema, operator_def
from tazza.tensor import DataType, Tensor, TensorSpec, channels_last
from tests.launching import call_alone

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
DIMS = (2, 3, 5, 7)


def view(type: str, inputs: list[str], outputs: list[str]) -> OpView:
    return find_schema(type).view(operator_def(type, inputs, outputs))


def tensor(array: Array) -> Tensor:
    return Tensor.from_numpy(np.ascontiguousarray(array))


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def elu(x: Array) -> Array:
    return np.where(x > 0, x, 0.5 * np.expm1(x))


FORWARD: dict[str, tuple[str, float, Callable[[Array], Array]]] = {
    "Relu": ("eltwise_relu", 0.0, lambda x: np.maximum(x, 0)),
    "Sigmoid": ("eltwise_logistic", 0.0, sigmoid),
    "Tanh": ("eltwise_tanh", 0.0, np.tanh),
    "Elu": ("eltwise_elu", 0.5, elu),
}
BACKWARD: dict[str, tuple[str, float, Callable[[Array], Array], Callable[[Array], Array]]] = {
    # algorithm, alpha, y of x, dy/dx of x
    "SigmoidGradient": (
        "eltwise_logistic_use_dst_for_bwd",
        0.0,
        sigmoid,
        lambda x: sigmoid(x) * (1 - sigmoid(x)),
    ),
    "TanhGradient": ("eltwise_tanh_use_dst_for_bwd", 0.0, np.tanh, lambda x: 1 - np.tanh(x) ** 2),
}


def numbers() -> Array:
    return np.random.default_rng(3).standard_normal(DIMS).astype(np.float32) * 2


@pytest.mark.parametrize("type", FORWARD)
def test_forward(type: str) -> None:
    algorithm, alpha, formula = FORWARD[type]
    X, Y = tensor(numbers()), Tensor(DIMS)
    Y.reserve()
    answer = eltwise(view(type, ["X"], ["Y"]), {"X": X.spec, "Y": Y.spec}, algorithm, alpha)
    call_alone(answer.launch, {"X": X, "Y": Y})
    np.testing.assert_allclose(Y.array, formula(numbers().astype(np.float64)), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("type", BACKWARD)
def test_gradient_from_what_was_computed(type: str) -> None:
    algorithm, alpha, formula, slope = BACKWARD[type]
    x, dy = numbers(), np.random.default_rng(4).standard_normal(DIMS).astype(np.float32)
    tensors = {"Y": tensor(formula(x)), "dY": tensor(dy), "dX": Tensor(DIMS)}
    tensors["dX"].reserve()
    specs = {letter: one.spec for letter, one in tensors.items()}
    answer = eltwise_gradient(view(type, ["Y", "dY"], ["dX"]), specs, algorithm, alpha)
    call_alone(answer.launch, tensors)
    np.testing.assert_allclose(tensors["dX"].array, dy * slope(x.astype(np.float64)), rtol=1e-4, atol=1e-5)


def test_blobs_are_taken_as_they_lie() -> None:
    last = TensorSpec(DIMS, DataType.FLOAT, layout=channels_last(DIMS))
    plain = TensorSpec(DIMS, DataType.FLOAT)
    answer = eltwise(view("Relu", ["X"], ["Y"]), {"X": last, "Y": plain}, "eltwise_relu")
    assert answer.layouts == {"X": last.layout, "Y": last.layout}


@pytest.mark.parametrize(("output", "wanted"), [("dX", "Y"), ("dY", "dX")])
def test_gradients_lie_as_the_result_does_and_in_place_as_the_gradient(output: str, wanted: str) -> None:
    lies = {"Y": channels_last(DIMS), "dX": TensorSpec(DIMS, DataType.FLOAT).layout}
    specs = {"Y": TensorSpec(DIMS, DataType.FLOAT, layout=lies["Y"])}
    specs |= {letter: TensorSpec(DIMS, DataType.FLOAT) for letter in ("dY", "dX")}
    op = view("TanhGradient", ["Y", "dY"], [output])
    answer = eltwise_gradient(op, specs, "eltwise_tanh_use_dst_for_bwd")
    assert answer.layouts == dict.fromkeys(("Y", "dY", "dX"), lies[wanted])


def test_integers_are_refused() -> None:
    whole = TensorSpec((2, 3), DataType.INT32)
    with pytest.raises(Unimplemented, match="X is int32: oneDNN computes with floats"):
        eltwise(view("Relu", ["X"], ["Y"]), {"X": whole, "Y": whole}, "eltwise_relu")
