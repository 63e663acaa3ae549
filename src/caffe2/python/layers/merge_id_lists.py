"""Lists of ids, joined row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import schema
from caffe2.python.layers.layers import IdList, ModelLayer, get_categorical_limit


class MergeIdLists(ModelLayer):
    """For each row the ids of all its lists, each once."""

    def __init__(self, model: Any, input_record: Any, name: str = "merged") -> None:
        """Add a layer on a record of lists of ids that are bounded."""
        super().__init__(model, name, input_record)
        lists = list(input_record)
        assert all(schema.equal_schemas(one, IdList) for one in lists), "Inputs to MergeIdLists should all be IdLists."
        assert all(one.items.metadata is not None for one in lists), "Features without metadata are not supported"
        limit = max(get_categorical_limit(one) for one in lists)
        ids = schema.Scalar(np.int64, blob=model.net.NextBlob(name), metadata=schema.Metadata(categorical_limit=limit))
        self.output_schema = schema.NewRecord(model.net, schema.List(ids))

    def add_ops(self, net: Any) -> Any:
        """Add the operator."""
        return net.MergeIdLists(self.input_record.field_blobs(), self.output_schema.field_blobs())
