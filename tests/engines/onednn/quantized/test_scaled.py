"""Scales, zero points and constants in oneDNN's form, against the numbers that the bytes stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.launch import Numbers, PrimitiveLaunch
from tazza.engines.onednn.library import unavailable
from tazza.engines.onednn.primitive import describe, scale_argument, zero_point_argument
from tazza.engines.onednn.quantized.scaled import SHIFT, Scaling, Sums, meaning_of, shift, signed_layout
from tazza.tensor import ROW_MAJOR, DataType, Opaque, PerChannel, PerTensor, Tensor, TensorSpec
from tests.launching import call_alone, copied_into

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
N, K, M = 3, 20, 5
X, Y = PerTensor(0.5, 7), PerTensor(64.0, 100)
WHOLE = PerTensor(0.25, SHIFT)
CHANNELS = PerChannel(0, tuple(float(np.float32(0.1 * (m + 1))) for m in range(M)), (SHIFT,) * M)


def spec(dims: tuple[int, ...], meaning: PerTensor | PerChannel, dtype: DataType = DataType.UINT8) -> TensorSpec:
    return TensorSpec(dims, dtype, quantization=meaning)


def sums(W: PerTensor | PerChannel) -> Sums:
    return Sums.of({"X": spec((N, K), X), "W": spec((M, K), W), "Y": spec((N, M), Y)})


def bias_meaning(W: PerTensor | PerChannel) -> PerTensor | PerChannel:
    scales = W.scales if isinstance(W, PerChannel) else (W.scale,)
    products = tuple(float(np.float32(X.scale) * np.float32(one)) for one in scales)
    return PerChannel(0, products, (0,) * M) if isinstance(W, PerChannel) else PerTensor(products[0], 0)


# -- attributes --------------------------------------------------------------------------------------------------------


@given(st.floats(2**-10, 2**10, width=32), st.integers(0, 255))
def test_ones_and_zeros_are_left_out(scale: float, point: int) -> None:
    made = Scaling()
    made.scale("src", scale)
    made.zero_point("dst", point)
    assert made.scales == ([] if scale == 1 else [("src", 0)])
    assert made.zero_points == ([] if point == 0 else ["dst"])
    expected: dict[Any, Any] = {}
    if scale != 1:
        expected[scale_argument("src")] = Numbers((scale,))
    if point != 0:
        expected[zero_point_argument("dst")] = Numbers((point,), DataType.INT32)
    assert made.arguments == expected
    assert made.attributes.scales == tuple(made.scales)
    assert made.attributes.zero_points == tuple(made.zero_points)


def test_several_ones_are_scales_of_channels() -> None:
    made = Scaling()
    made.scale("weights", 1.0, 1.0, mask=2)
    assert made.attributes.scales == (("weights", 2),)


@pytest.mark.parametrize("W", [WHOLE, CHANNELS], ids=["one scale", "one for each channel"])
def test_a_product_is_that_of_the_numbers(W: PerTensor | PerChannel) -> None:
    """Bytes, as oneDNN multiplies them with these attributes, against numbers in float64; up to half a step."""
    random = np.random.default_rng(1)
    x, w = (random.integers(0, 256, dims).astype(np.uint8) for dims in ((N, K), (M, K)))
    b = random.integers(-2000, 2000, M).astype(np.int32)
    given = sums(W)
    scaling = given.scaling((), 2)
    bias, _ = given.bias(spec((M,), bias_meaning(W), DataType.INT32), (1, M))
    found = describe(
        "matmul",
        Descriptor.of((N, K), DataType.UINT8),
        Descriptor.of((K, M), DataType.INT8),
        bias,
        Descriptor.of((N, M), DataType.UINT8),
        attributes=scaling.attributes,
    )
    real_b = np.asarray(bias_meaning(W).real(b), np.float32)
    signed = np.ascontiguousarray((w.astype(int) - SHIFT).astype(np.int8).T)
    tensors = {
        "X": Tensor.from_numpy(x),
        "W": Tensor.from_numpy(signed),
        "b": Tensor.from_numpy(real_b if isinstance(W, PerChannel) else b),
        "Y": Tensor.from_numpy(np.zeros((N, M), np.uint8)),
    }
    arguments = {"src": "X", "weights": "W", "bias": "b", "dst": "Y", **scaling.arguments}
    call_alone(PrimitiveLaunch(found, arguments), tensors)  # pyright: ignore[reportArgumentType] -- keys of both kinds
    exact = np.asarray(X.real(x), np.float64) @ np.asarray(W.real(w), np.float64).T + real_b
    right = np.clip(exact / Y.scale + Y.zero_point, 0, 255)
    assert ((right > 0) & (right < 255)).sum() > N * M // 2, "most are within the range of a byte"
    assert np.abs(tensors["Y"].array - right).max() <= 0.5 + 1e-3


def test_units() -> None:
    assert sums(WHOLE).unit == 0.125
    assert sums(CHANNELS).unit == 1


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("W", [PerTensor(0.25, 127), PerChannel(0, (0.25,) * M, (127, *(SHIFT,) * (M - 1)))])
def test_other_zero_points(W: PerTensor | PerChannel) -> None:
    found = sums(W).obstacle(spec((M,), bias_meaning(W), DataType.INT32))
    assert found is not None
    assert found.startswith("filters with zero points [127")
    assert found.endswith("oneDNN multiplies by those of 128")


def test_scales_of_a_bias() -> None:
    """With a scale for each channel they must be those of the products, up to rounding."""
    b = bias_meaning(CHANNELS)
    assert isinstance(b, PerChannel)
    off = [PerChannel(0, tuple(one * factor for one in b.scales), (0,) * M) for factor in (1 + 1e-6, 1.01)]
    near, far = (sums(CHANNELS).obstacle(spec((M,), one, DataType.INT32)) for one in off)
    assert near is None
    assert far == "scales of b are not those of X and W"
    assert sums(WHOLE).obstacle(spec((M,), PerTensor(3.0, 0), DataType.INT32)) is None, "whole numbers stay whole"


# -- constants ---------------------------------------------------------------------------------------------------------


def quantized(array: Array, meaning: PerTensor | PerChannel) -> Tensor:
    made = Tensor.from_numpy(array)
    made.quantize_as(meaning)
    return made


def test_a_bias_lies_as_numbers_or_as_it_is() -> None:
    b = np.arange(-2, 3, dtype=np.int32) * 100
    described, layout = sums(WHOLE).bias(spec((M,), bias_meaning(WHOLE), DataType.INT32), (1, M))
    assert (described.dims, described.dtype, layout) == ((1, M), DataType.INT32, ROW_MAJOR)
    described, layout = sums(CHANNELS).bias(spec((M,), bias_meaning(CHANNELS), DataType.INT32), (1, M))
    assert (described.dims, described.dtype) == ((1, M), DataType.FLOAT)
    assert isinstance(layout, Opaque)
    assert layout.derived
    found = copied_into(quantized(b, bias_meaning(CHANNELS)), layout)
    np.testing.assert_array_equal(found, np.asarray(bias_meaning(CHANNELS).real(b), np.float32))


@pytest.mark.parametrize(("dims", "axes"), [((M, 4, 3), (1, 2, 0)), ((M, K), (1, 0))])
def test_filters_lie_signed_and_turned(dims: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """As q - 128, with axes in the order asked for: of all values of a byte, in a layout of the caller's."""
    w = (np.arange(np.prod(dims)) * 7 % 256).astype(np.uint8).reshape(dims)
    turned = tuple(dims[axis] for axis in axes)
    shape = (int(np.prod(turned[:-1])), turned[-1])  # K... become one axis
    layout = signed_layout(Descriptor.of(shape, DataType.INT8), axes)
    assert layout.derived
    found = copied_into(quantized(w, WHOLE), layout, DataType.INT8)
    np.testing.assert_array_equal(found.reshape(shape), (w.astype(int) - SHIFT).transpose(axes).reshape(shape))


def test_every_byte_is_shifted() -> None:
    target = np.zeros(256, np.int8)
    shift(Tensor.from_numpy(np.arange(256, dtype=np.uint8)), target)
    np.testing.assert_array_equal(target, np.arange(256) - SHIFT)


def test_meanings() -> None:
    assert meaning_of(spec((2, 3), X)) == X
