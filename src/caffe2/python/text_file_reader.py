"""`from caffe2.python import text_file_reader`: rows of a text file as records of texts and numbers."""

from __future__ import annotations

from typing import Any

from caffe2.python import core
from caffe2.python.dataio import Reader
from caffe2.python.schema import Scalar, Struct, data_type_for_dtype

__all__ = ["Reader", "Scalar", "Struct", "TextFileReader", "data_type_for_dtype"]


class TextFileReader(Reader):
    """Reads batches of rows; fields are texts and float32 numbers, and stand between tabs."""

    def __init__(self, init_net: Any, filename: str, schema: Any, num_passes: int = 1, batch_size: int = 1) -> None:
        """Add to a net what opens a file, to be read so many times."""
        assert isinstance(schema, Struct), "Schema must be a schema.Struct"
        for _, child in schema.get_children():
            assert isinstance(child, Scalar), "Only scalar fields are supported in TextFileReader."
        super().__init__(schema)
        types = [data_type_for_dtype(dtype) for dtype in schema.field_types()]
        self._reader = init_net.CreateTextFileReader([], filename=filename, num_passes=num_passes, field_types=types)
        self._batch_size = batch_size

    def read(self, read_net: Any) -> tuple[Any, Any]:
        """Add to a net what reads a batch; returns the blob that is true behind the last row, and the fields."""
        count = len(self.schema().field_names())
        blobs = core.output_to_list(read_net.TextFileReaderRead([self._reader], count, batch_size=self._batch_size))
        name = core.ScopedBlobReference(read_net.NextName("should_stop"))
        return read_net.IsEmpty([blobs[0]], name), blobs
