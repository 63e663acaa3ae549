"""Rows of a text file, columns separated by tabs, as records."""

from __future__ import annotations

from typing import Any

from caffe2.python import core
from caffe2.python.dataio import Reader
from caffe2.python.schema import Scalar, Struct, data_type_for_dtype


class TextFileReader(Reader):
    """Reads a text file in batches of rows; a column is text or float32."""

    def __init__(self, init_net: Any, filename: str, schema: Any, num_passes: int = 1, batch_size: int = 1) -> None:
        """Let a net open the file; the columns are those of a `schema.Struct` of scalars."""
        assert isinstance(schema, Struct), "Schema must be a schema.Struct"
        for name, child in schema.get_children():
            assert isinstance(child, Scalar), f"{name}: only scalar fields are supported in TextFileReader."
        super().__init__(schema)
        self._reader = init_net.CreateTextFileReader(
            [],
            filename=filename,
            num_passes=num_passes,
            field_types=[data_type_for_dtype(dtype) for dtype in schema.field_types()],
        )
        self._batch_size = batch_size

    def read(self, net: Any) -> tuple[Any, Any]:  # pyright: ignore[reportIncompatibleMethodOverride] -- these names are the old ones
        """Add to a net what reads a batch of rows."""
        count = len(self.schema().field_names())
        blobs = core.output_to_list(net.TextFileReaderRead([self._reader], count, batch_size=self._batch_size))
        is_empty = net.IsEmpty([blobs[0]], core.ScopedBlobReference(net.NextName("should_stop")))
        return is_empty, blobs
