"""Every kind of value of the library through the blob serializers: as one string, as records, and in a database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tazza.array as ta
from tazza.errors import TazzaError
from tazza.operator import operator_def
from tazza.tensor import PerTensor
from tazza.tensor.blob import BLOB_TYPES
from tazza.tensor.serialization import SERIALIZERS
from tazza.workspace import Workspace

Array = NDArray[Any]

DENSE: Array = np.where(np.arange(35).reshape(5, 7) % 3 == 0, np.arange(35).reshape(5, 7), 0).astype(np.float32)


def _int8() -> ta.Tensor:
    """Return whole numbers with a scale and a zero point."""
    made = ta.Tensor.from_numpy(np.arange(6, dtype=np.uint8).reshape(2, 3))
    made.quantize_as(PerTensor(0.5, 3))
    return made


SAMPLES: dict[str, tuple[Callable[[], object], Callable[[Any], Any]]] = {
    "Tensor": (lambda: ta.Tensor.from_numpy(DENSE), lambda x: x.plain()),
    "std::string": (lambda: b"a\0\xff", lambda x: np.frombuffer(x, np.uint8)),
    "Int8TensorCPU": (_int8, lambda x: x.quantization.real(x.plain())),
    "QTensor": (lambda: ta.quantize(DENSE, 5), lambda x: ta.dequantize(x).plain()),
    "tazza.COO": (
        lambda: ta.COO((3, 7), [2, 0, 2], [1, 6, 1], np.array([1, 2, 3], np.float32)),
        lambda x: x.to_dense(),
    ),
    "tazza.CSR": (lambda: ta.CSR((2, 7), [0, 1, 3], [6, 0, 2], np.array([1.0, 2.0, 3.0])), lambda x: x.to_dense()),
    "tazza.RowSlices": (
        lambda: ta.row_slices(np.array([3, 0, 3]), np.arange(6, dtype=np.float32).reshape(3, 2)),
        lambda x: x.to_dense(5),
    ),
}
"""By the name in files: how to make a value, and an array that tells it."""


def _told(name: str, value: object) -> Array:
    return np.asarray(SAMPLES[name][1](value))


def test_every_stored_type_has_a_sample() -> None:
    ours = [
        name for name in SERIALIZERS if type(SERIALIZERS[name]).__module__.startswith(("tazza.tensor", "tazza.array"))
    ]
    assert set(ours) == set(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_value_comes_back(name: str, tmp_path: Path) -> None:
    value = SAMPLES[name][0]()
    content = ta.serialize(value, "x")
    blob = ta.deserialize(content)
    assert blob.type_name == name
    assert np.array_equal(_told(name, blob.value), _told(name, value))
    assert ta.serialize(blob.value, "x") == content, "the same value gives the same bytes"
    ws = Workspace(root=tmp_path)
    ws.create_blob("x").set(value)
    ws.run_operator(operator_def("Save", ["x"], [], db="a.minidb", db_type="minidb", absolute_path=0))
    other = Workspace(root=tmp_path)
    other.run_operator(operator_def("Load", [], ["x"], db="a.minidb", db_type="minidb", absolute_path=0))
    assert np.array_equal(_told(name, other.blob("x").value), _told(name, value))


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=40)
@given(data=st.data())
def test_a_wrong_byte_is_a_value_or_a_typed_error(name: str, data: st.DataObject) -> None:
    content = bytearray(ta.serialize(SAMPLES[name][0](), "x"))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        blob = ta.deserialize(bytes(content))
    except TazzaError:
        return
    assert blob.value is None or BLOB_TYPES.get(cast("Any", type(blob.value))) is not None


@settings(max_examples=60)
@given(
    dtype=st.sampled_from([one for one in ta.DataType if one is not ta.DataType.STRING]),
    dims=st.lists(st.integers(0, 3), max_size=9).map(tuple),
    order=st.randoms(use_true_random=False),
    chunk=st.sampled_from([0, 100, 999]),
)
def test_tensors_of_every_type_rank_and_stride(
    dtype: ta.DataType, dims: tuple[int, ...], order: Any, chunk: int
) -> None:
    axes = list(range(len(dims)))
    order.shuffle(axes)
    steps = [0] * len(dims)
    step = 1
    for axis in axes:
        steps[axis] = step
        step *= max(dims[axis], 1)
    x = ta.Tensor(dims, dtype, layout=ta.Strided.of(dims, steps))
    values = np.arange(x.size).reshape(dims) % 2
    x.array[...] = values
    records = [record for _, record in ta.serialize_blob(x, "x", chunk)]
    order.shuffle(records)
    found = ta.deserialize(records).tensor()
    # The format has no bfloat16, whose values float32 holds all.
    assert found.dtype is (ta.DataType.FLOAT if dtype is ta.DataType.BFLOAT16 else dtype)
    assert found.shape == dims
    assert np.array_equal(found.plain(), values.astype(dtype.numpy))
