"""Sparse tensors in records: each `content` is a `TensorProtos` with some of the parts, or pieces of them, by name.

A record holds all parts, or, where a chunk size is given, one piece of one part with its `segment`, so that a large
matrix is no single record. Pieces come back in any order. Read matrices are checked before anybody computes with them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import DecodeError

from tazza.array.sparse.coo import COO
from tazza.array.sparse.csr import CSR
from tazza.array.sparse.rows import row_slices
from tazza.errors import DTypeError, FormatError, ShapeError
from tazza.proto.caffe2_pb2 import BlobProto, TensorProtos
from tazza.tensor.blob import Blob
from tazza.tensor.rows import RowSlices
from tazza.tensor.serializer import NO_CHUNKS, SERIALIZERS, Collector, Serializer
from tazza.tensor.tensor import Tensor
from tazza.tensor.tensor_serializer import CHUNK_SEPARATOR, TensorCollector, TensorSerializer

__all__ = ["COOSerializer", "CSRSerializer", "RowSlicesSerializer"]

T = TypeVar("T")


class PartsSerializer(Serializer[T]):
    """A value that is a few tensors with names; a subclass names them, takes the value apart and makes it again."""

    type_name: str
    names: tuple[str, ...]

    @abstractmethod
    def parts(self, value: T) -> tuple[Tensor, ...]:
        """Return the tensors, in the order of `names`."""

    @abstractmethod
    def build(self, parts: tuple[Tensor, ...]) -> T:
        """Return the value again.

        Raises:
            ShapeError: the parts do not fit each other.
            DTypeError: a part is of a type that it cannot have.
        """

    def records(self, value: T, name: str, chunk_size: int) -> Iterator[tuple[str, BlobProto]]:
        """Yield one record with all parts, or one for each piece of `chunk_size` elements."""
        pieces = self._pieces(value, chunk_size)
        if chunk_size == NO_CHUNKS:
            yield f"{name}{CHUNK_SEPARATOR}0", self._record(name, list(pieces))
            return
        for k, piece in enumerate(pieces):
            yield f"{name}{CHUNK_SEPARATOR}{k}", self._record(name, [piece])

    def _pieces(self, value: T, chunk_size: int) -> Iterator[Any]:
        dense = TensorSerializer()
        for part, tensor in zip(self.names, self.parts(value), strict=True):
            for _, record in dense.records(tensor, part, chunk_size):
                yield record.tensor

    def _record(self, name: str, pieces: list[Any]) -> BlobProto:
        content = TensorProtos(protos=pieces).SerializeToString()
        return BlobProto(name=name, type=self.type_name, content=content)

    def collector(self, name: str) -> Collector:
        """Return what gathers the pieces of all parts."""
        return _PartsCollector(self, name)


class _PartsCollector(Collector):
    """One collector for each part; they are there from the start, so that threads share nothing but these."""

    def __init__(self, serializer: PartsSerializer[Any], name: str) -> None:
        self._serializer = serializer
        self._name = name
        self._parts: Mapping[str, TensorCollector] = {
            part: TensorCollector(f"{name}/{part}") for part in serializer.names
        }

    def add(self, record: BlobProto) -> None:
        """Take a record."""
        try:
            pieces = TensorProtos.FromString(record.content)
        except DecodeError as error:
            raise FormatError(f"content of blob {self._name!r} of type {record.type}: {error}") from error
        for piece in pieces.protos:
            part = self._parts.get(piece.name)
            if part is None:
                known = ", ".join(self._serializer.names)
                raise FormatError(
                    f"blob {self._name!r} of type {record.type} has a part {piece.name!r}, not of: {known}"
                )
            part.add(BlobProto(type="Tensor", tensor=piece))

    @property
    def complete(self) -> bool:
        """Whether all parts are whole."""
        return all(part.complete for part in self._parts.values())

    def write(self, blob: Blob) -> None:
        """Make the value of its parts."""
        found: list[Tensor] = []
        for name, part in self._parts.items():
            held = Blob(f"{self._name}/{name}")
            part.write(held)
            tensor = held.tensor()
            if not tensor.allocated:
                raise FormatError(f"part {name!r} of blob {self._name!r} is stored without elements")
            found.append(tensor)
        try:
            blob.set(self._serializer.build(tuple(found)))
        except (ShapeError, DTypeError) as error:
            raise FormatError(f"blob {self._name!r} of type {self._serializer.type_name}: {error}") from error


def _shape_tensor(shape: tuple[int, ...]) -> Tensor:
    return Tensor.from_numpy(np.array(shape, np.int64))


class COOSerializer(PartsSerializer[COO]):
    """A COO matrix as it is, sorted or not."""

    type_name = "tazza.COO"
    names = ("shape", "rows", "columns", "values")

    def parts(self, value: COO) -> tuple[Tensor, ...]:
        """Return the parts."""
        return _shape_tensor(value.shape), value.rows, value.columns, value.values

    def build(self, parts: tuple[Tensor, ...]) -> COO:
        """Return the matrix, checked."""
        return COO(parts[0].plain().tolist(), *parts[1:])


class CSRSerializer(PartsSerializer[CSR]):
    """A CSR matrix as it is."""

    type_name = "tazza.CSR"
    names = ("shape", "starts", "columns", "values")

    def parts(self, value: CSR) -> tuple[Tensor, ...]:
        """Return the parts."""
        return _shape_tensor(value.shape), value.starts, value.columns, value.values

    def build(self, parts: tuple[Tensor, ...]) -> CSR:
        """Return the matrix, checked."""
        return CSR(parts[0].plain().tolist(), *parts[1:])


class RowSlicesSerializer(PartsSerializer[RowSlices[Tensor]]):
    """Rows of a dense tensor."""

    type_name = "tazza.RowSlices"
    names = ("indices", "values")

    def parts(self, value: RowSlices[Tensor]) -> tuple[Tensor, ...]:
        """Return the parts."""
        return value.indices, value.values

    def build(self, parts: tuple[Tensor, ...]) -> RowSlices[Tensor]:
        """Return the rows, checked."""
        return row_slices(*parts)


SERIALIZERS.register(COOSerializer.type_name, COOSerializer(), help="a sparse matrix: rows, columns, values")
SERIALIZERS.register(CSRSerializer.type_name, CSRSerializer(), help="a sparse matrix: starts of rows, columns, values")
SERIALIZERS.register(RowSlicesSerializer.type_name, RowSlicesSerializer(), help="some rows of a dense tensor")
