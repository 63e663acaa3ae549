"""Blobs of quantized tensors: as the genuine Caffe2 wrote them, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.array.quantized import QTensor
from tazza.errors import FormatError
from tazza.proto.caffe2_pb2 import BlobProto
from tazza.tensor import Blob
from tazza.tensor.serialization import BlobAssembler, deserialize, serialize, serialize_blob

WRITTEN_BY_CAFFE2 = bytes.fromhex(
    "0a017112075154656e736f72"  # BlobProto: name, type
    "2a2508020803100319000000000000e03f21000000000000f03f28013206cc011c8801483a0171"
)
"""Its SerializeBlob of [[5, -1, 0], [2, -7, 3]], 3 bits and a sign, scale 0.5, bias 1, called q."""


def test_the_same_bytes_as_caffe2() -> None:
    q = QTensor.of_integers([[5, -1, 0], [2, -7, 3]], 3, signed=True, scale=0.5, bias=1.0)
    assert BlobProto.FromString(serialize(q, "q")) == BlobProto.FromString(WRITTEN_BY_CAFFE2)
    found = deserialize(WRITTEN_BY_CAFFE2).get(QTensor)
    assert found.equal(q)
    assert found.dequantize().plain().tolist() == [[3.0, 0.0, 0.5], [1.5, -3.0, 2.0]]


def test_one_record_under_the_bare_name() -> None:
    q = QTensor.of_integers(np.arange(64), 6, signed=False)
    records = dict(serialize_blob(Blob("q", q), "q", chunk_size=5))
    assert list(records) == ["q"]
    assert deserialize(records["q"], "other").get(QTensor).equal(q)


def test_broken_records() -> None:
    record = BlobProto.FromString(serialize(QTensor.of_integers([1], 1, signed=False), "q"))
    with pytest.raises(FormatError, match="stored more than once"):
        deserialize([record, record])
    with pytest.raises(FormatError, match="has no qtensor"):
        deserialize(BlobProto(name="q", type="QTensor"))
    assembler = BlobAssembler("q")
    assert not assembler.complete
    record.qtensor.precision = 3
    with pytest.raises(FormatError, match="1 bytes != 3 planes of 1"):
        assembler.add(record)
    with pytest.raises(FormatError, match="has no record"):
        assembler.write(Blob("q"))
