"""Sparse tensors in files: whole, in chunks in any order, and broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.array.sparse import COO, CSR, RowSlices, row_slices
from tazza.errors import FormatError
from tazza.proto.caffe2_pb2 import BlobProto, TensorProtos
from tazza.tensor import DataType, Tensor, deserialize, serialize, serialize_blob

DTYPES = [DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.INT8, DataType.INT64]


@settings(max_examples=25)
@given(st.sampled_from(DTYPES), st.integers(0, 9), st.integers(0, 9), st.integers(1, 40), st.randoms())
def test_matrices_come_back(dtype: DataType, rows: int, columns: int, chunk: int, random: Any) -> None:
    rng = np.random.default_rng(random.randrange(2**32))
    dense = np.where(rng.random((rows, columns)) < 0.4, rng.integers(-5, 6, (rows, columns)), 0).astype(dtype.numpy)
    for matrix in (CSR.from_dense(dense), COO.from_dense(dense)):
        kind = type(matrix)
        assert deserialize(serialize(matrix, "m")).get(kind).equals(matrix)
        records = [record for _, record in serialize_blob(matrix, "m", chunk)]
        random.shuffle(records)
        assert deserialize(records).get(kind).equals(matrix)


def test_rows_come_back_and_keys_tell_the_blob() -> None:
    gradient = row_slices(np.array([3, 1]), np.arange(10, dtype=np.float32).reshape(2, 5))
    records = dict(serialize_blob(gradient, "g", 6))
    assert list(records) == ["g#%0", "g#%1", "g#%2"]
    blob = deserialize(records.values())
    assert blob.type_name == "tazza.RowSlices"
    back = cast("RowSlices[Tensor]", blob.value)
    np.testing.assert_array_equal(back.to_dense(4).array, gradient.to_dense(4).array)


def test_types_that_the_format_lacks_become_wider() -> None:
    """The format has no bfloat16: it comes back as float32, as in dense tensors."""
    matrix = CSR.from_dense(np.eye(3, 4).astype(DataType.BFLOAT16.numpy))
    assert deserialize(serialize(matrix, "m")).get(CSR).equals(matrix.cast(DataType.FLOAT))


def _spoiled(change: Any) -> bytes:
    record = BlobProto.FromString(serialize(CSR.from_dense(np.eye(3, 4)), "m"))
    content = TensorProtos.FromString(record.content)
    change(content)
    record.content = content.SerializeToString()
    return record.SerializeToString()


SPOILT: list[tuple[Callable[[Any], object], str]] = [
    (lambda c: c.protos[0].int64_data.__setitem__(1, 2), "column 2 of element 2 is outside of 0 to 1"),
    (lambda c: c.protos[0].int64_data.__setitem__(0, 1 << 60), "4 starts != 1152921504606846977"),
    (lambda c: c.protos[0].int64_data.__setitem__(0, -3), "-3 < 0"),
    (lambda c: c.protos[1].int32_data.__setitem__(1, 9), "ends at"),
    (lambda c: c.protos[2].ClearField("int32_data"), "columns"),
    (lambda c: setattr(c.protos[2], "name", "pillars"), "a part 'pillars', not of: shape, starts, columns, values"),
    (lambda c: c.protos.__delitem__(3), "'m/values' has no record"),
    (lambda c: setattr(c.protos[2], "data_type", 1), "m/columns"),
]


@pytest.mark.parametrize(("change", "message"), SPOILT)
def test_broken_records_are_said(change: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        deserialize(_spoiled(change))


def test_content_that_is_nothing_is_said() -> None:
    with pytest.raises(FormatError, match="content of blob 'm'"):
        deserialize(BlobProto(name="m", type="tazza.CSR", content=b"\xff\xff").SerializeToString())
