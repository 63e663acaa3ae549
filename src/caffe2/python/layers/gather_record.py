"""Rows that are picked of a record, with all of their lists."""

from __future__ import annotations

from typing import Any, cast

from caffe2.python import core, schema
from caffe2.python.layers.layers import ModelLayer


class GatherRecord(ModelLayer):
    """The rows `indices` of all columns of `record`: of a list its length and all that it holds, however deep."""

    def __init__(self, model: Any, input_record: Any, name: str = "gather_record", **kwargs: Any) -> None:
        """Add a layer on the columns `indices` and `record`."""
        super().__init__(model, name, input_record, **kwargs)
        for column in ("indices", "record"):
            assert column in input_record, f"{input_record} lacks {column}"
        self.output_schema = schema.NewRecord(model.net, input_record.record.clone_schema())
        self._indices = self.input_record.indices()

    def _gather(self, net: Any, record: Any, lengths: Any, output: Any) -> None:
        """Add what picks of a field whose rows stand in lists of these lengths, or are rows (None)."""
        kind = cast("type[Any]", type(record))
        if issubclass(kind, schema.List):
            self._gather_scalar(net, record.lengths, lengths, output.lengths)
            inner = record.lengths() if lengths is None else self._joined_lengths(net, record.lengths(), lengths)
            items = (record._items, output._items)
            self._gather(net, items[0], inner, items[1])
        elif issubclass(kind, schema.Struct):
            for name, field in record.get_children():
                self._gather(net, field, lengths, output[name])
        else:
            self._gather_scalar(net, record, lengths, output)

    def _gather_scalar(self, net: Any, column: Any, lengths: Any, output: Any) -> None:
        """Add what picks of one column."""
        if lengths is None:
            net.Gather([column(), self._indices], output())
        else:
            net.LengthsGather([column(), lengths, self._indices], output())

    def _joined_lengths(self, net: Any, inner: Any, lengths: Any) -> Any:
        """Return how many entries the lists of each row have together; sums are of float32, as in Caffe2."""
        numbers = net.Cast(inner, net.NextScopedBlob(f"{inner}_float"), to=core.DataType.FLOAT)
        sums = net.LengthsSum([numbers, lengths], net.NextScopedBlob(f"{inner}_nested_float"))
        return net.Cast(sums, net.NextScopedBlob(f"{inner}_nested"), to=core.DataType.INT32)

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        self._gather(net, self.input_record.record, None, self.output_schema)
