"""Element types: numbers of the format, NumPy dtypes, refusals."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tazza.array as ta
from tazza.cli.show import read_shape
from tazza.errors import DTypeError
from tazza.proto.caffe2_pb2 import TensorProto
from tazza.tensor import Tensor, TensorSpec
from tazza.tensor.dtype import DataType


def test_numbers_are_those_of_the_format() -> None:
    stored = {dtype.name: dtype.proto for dtype in DataType if dtype.proto is not None}
    numbers = dict(TensorProto.DataType.items())
    assert stored == {name: numbers[name] for name in stored}
    assert set(numbers) - set(stored) == {"UNDEFINED", "BYTE", "ZERO_COLLISION_HASH"}


@pytest.mark.parametrize("dtype", list(DataType))
def test_numpy_dtype_and_back(dtype: DataType) -> None:
    assert DataType.of(dtype.numpy) is dtype
    assert DataType.of(np.empty((2, 0), dtype.numpy)) is dtype
    assert dtype.numpy.itemsize == dtype.itemsize
    assert str(dtype) == dtype.label


@pytest.mark.parametrize(
    ("what", "dtype"),
    [
        (">f4", DataType.FLOAT),
        ("<i8", DataType.INT64),
        ("U7", DataType.STRING),
        ("S3", DataType.STRING),
        (float, DataType.DOUBLE),
        ("bfloat16", DataType.BFLOAT16),
        (ml_dtypes.bfloat16, DataType.BFLOAT16),
        (DataType.INT8, DataType.INT8),
    ],
)
def test_of(what: type | str | DataType, dtype: DataType) -> None:
    assert DataType.of(what) is dtype


@pytest.mark.parametrize("name", ["uint32", "uint64", "complex64", "datetime64[s]", "i4,f4", ml_dtypes.float8_e5m2])
def test_refused(name: str | type) -> None:
    with pytest.raises(DTypeError, match="cannot be held by a tensor") as caught:
        DataType.of(np.dtype(name))
    assert caught.value.hint


def test_what_is_no_dtype_is_refused() -> None:
    with pytest.raises(DTypeError, match="is not an element type"):
        DataType.of("spoon")


def test_byte_reads_as_uint8() -> None:
    assert DataType.from_proto(TensorProto.BYTE) is DataType.UINT8


@pytest.mark.parametrize("number", [TensorProto.UNDEFINED, TensorProto.ZERO_COLLISION_HASH, 11, -1, 99])
def test_numbers_that_no_tensor_has(number: int) -> None:
    with pytest.raises(DTypeError, match=f"data_type {number} "):
        DataType.from_proto(number)


@pytest.mark.slow
def test_ml_dtypes_is_loaded_on_demand_only() -> None:
    code = (
        "import sys, numpy as np; from tazza.tensor import DataType, Tensor; Tensor.from_numpy(np.zeros(2));"
        "before = 'ml_dtypes' in sys.modules; DataType.BFLOAT16.numpy; print(before, 'ml_dtypes' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


NAMED: list[tuple[Any, DataType]] = [
    *((dtype.label, dtype) for dtype in DataType),
    *((dtype.numpy, dtype) for dtype in DataType),
    *((dtype, dtype) for dtype in DataType),
    (np.float32, DataType.FLOAT),
    (float, DataType.DOUBLE),
    (int, DataType.INT64),
    (bool, DataType.BOOL),
    (bytes, DataType.STRING),
    ("half", DataType.FLOAT16),
]
TAKING: dict[str, Callable[[Any], Any]] = {
    "of": DataType.of,
    "spec": lambda name: TensorSpec((2,), name).dtype,
    "tensor": lambda name: Tensor((2,), name).dtype,
    "resized": lambda name: _resized(name).dtype,
    "zeros": lambda name: ta.zeros((2,), dtype=name).dtype,
    "empty_like": lambda name: ta.empty_like(ta.ones(2), dtype=name).dtype,
    "command": lambda name: _of_command(DataType.of(name).label),
}


def _of_command(name: str) -> DataType:
    _, spec = read_shape(f"x:{name}=2")
    assert isinstance(spec, TensorSpec)
    return spec.dtype


def _resized(name: Any) -> Tensor:
    tensor = Tensor((1,), DataType.INT16)
    tensor.resize((2,), name)
    return tensor


@pytest.mark.parametrize("taking", TAKING)
def test_whatever_takes_a_type_takes_what_people_call_it(taking: str) -> None:
    found = [(name, TAKING[taking](name)) for name, _ in NAMED]
    assert found == NAMED


def test_numbers_are_converted_to_what_people_call_a_type() -> None:
    x = ta.asarray([1.0, 2.0])
    for name, dtype in NAMED:
        if dtype is not DataType.STRING:
            assert x.astype(name).dtype is ta.lazy(x).cast(name).dtype is dtype
            assert ta.asarray([1, 0], dtype=name).dtype is dtype
