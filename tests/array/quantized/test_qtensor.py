"""QTensor: what it holds, what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.array.quantized import QTensor, quantize
from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.tensor import Blob, DataType, Tensor

PLANES = Tensor.from_numpy(np.array([[0b0110_0000], [0b1010_0000]], np.uint8))


@given(st.integers(1, 8), st.booleans(), st.lists(st.integers(1, 4), max_size=3), st.integers(0, 99))
def test_integers_and_values(precision: int, signed: bool, dims: list[int], seed: int) -> None:
    top = (1 << precision) - 1
    x = np.random.default_rng(seed).integers(-top if signed else 0, top + 1, dims)
    q = QTensor.of_integers(x, precision, signed=signed, scale=0.375, bias=-2.5)
    assert (tuple(q.shape), q.size, q.ndim, q.plane_count) == (x.shape, x.size, x.ndim, precision + signed)
    assert q.nbytes == q.planes.nbytes == q.plane_count * -(-x.size // 8)
    np.testing.assert_array_equal(q.integers().plain(), x)
    for dtype in (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16):
        expected = (0.375 * (x - 2.5)).astype(dtype.numpy)
        np.testing.assert_array_equal(np.asarray(q.dequantize(dtype).plain()), expected)
    np.testing.assert_array_equal(np.asarray(q), (0.375 * (x - 2.5)).astype(np.float32))
    assert q.equal(QTensor.of_integers(x, precision, signed=signed, scale=0.375, bias=-2.5))
    flat = q.reshape((x.size,))
    assert flat.equal(QTensor.of_integers(x.ravel(), precision, signed=signed, scale=0.375, bias=-2.5))
    assert flat.equal(q) == (x.ndim == 1)


def test_reads_planes() -> None:
    q = QTensor(PLANES, (1, 3), precision=1, signed=True, scale=2.0, bias=0.5)
    assert q.integer_array().tolist() == [[0, 1, -1]]
    assert q.dequantize().plain().tolist() == [[1.0, 3.0, -1.0]]
    assert repr(q) == "QTensor([1, 3], 1 bit and a sign, scale 2, bias 0.5)"
    assert not q.planes.flags.writeable


def test_fits_into_a_blob() -> None:
    blob = Blob("q", QTensor(PLANES, (3,), precision=2, signed=False))
    assert blob.type_name == "QTensor"
    assert blob.describe() == "q, a C++ native class of type caffe2::QTensor<caffe2::CPUContext>."


def test_refuses_contradictions() -> None:
    with pytest.raises(ArgumentError, match="precision 9 of a QTensor is not from 1 to 8"):
        QTensor.of_integers([1], 9, signed=False)
    with pytest.raises(ArgumentError, match="from -1 to 4 are not within 0 to 3 of 2 bits"):
        QTensor.of_integers([-1, 4], 2, signed=False)
    with pytest.raises(DTypeError, match="float64 are no integers"):
        QTensor.of_integers([0.5], 2, signed=False)
    with pytest.raises(ShapeError, match=r"!= uint8\[2, 2\] of 2 bits of \[9\]"):
        QTensor(PLANES, (9,), precision=2, signed=False)
    with pytest.raises(ArgumentError, match=r"scale 0\.0"):
        QTensor(PLANES, (3,), precision=2, signed=False, scale=0.0)
    with pytest.raises(ArgumentError, match="bias inf"):
        QTensor(PLANES, (3,), precision=2, signed=False, bias=float("inf"))
    q = QTensor(PLANES, (3,), precision=2, signed=False)
    with pytest.raises(ShapeError, match=r"\[2, 2\] has 4 elements, \[3\] has 3"):
        q.reshape((2, 2))
    with pytest.raises(DTypeError, match="int32 is not"):
        q.dequantize(DataType.INT32)
    with pytest.raises(ValueError, match="without a copy"):
        np.array(q, copy=False) if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else q.__array__(copy=False)


def test_who_gave_the_planes_cannot_change_it() -> None:
    planes = Tensor.from_numpy(np.full((2, 2), 0b1100_0000, np.uint8))
    q = QTensor(planes, (4, 4), precision=2, signed=False)
    before = (q @ q).array.copy()
    planes.numpy()[...] = 255
    assert q.integers().array.sum() == 4 * 3 * 2 // 2
    np.testing.assert_array_equal((q @ q).array, before)


@pytest.mark.parametrize("precision", [2.5, True, "2"])
def test_precision_is_a_whole_number(precision: Any) -> None:
    with pytest.raises(ArgumentError, match="no whole number of bits"):
        quantize(np.ones(3), precision)
