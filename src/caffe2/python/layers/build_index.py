"""Keys that get a number each when they are first seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import core, schema
from caffe2.python.layers.layers import ModelLayer


class MapToRange(ModelLayer):
    """Numbers from 1 to below `max_index` for keys, made while the model trains; elsewhere unknown keys are 0."""

    def __init__(
        self, model: Any, input_record: Any, max_index: int, name: str = "map_to_range", **kwargs: Any
    ) -> None:
        """Add a layer on a column of keys."""
        super().__init__(model, name, input_record, **kwargs)
        assert max_index > 0, f"max_index = {max_index} must be above 0"
        assert isinstance(input_record, schema.Scalar), f"a column of keys, not {input_record}"
        self.max_index = max_index
        self.handler = self.create_param("handler", [], ("LongIndexCreate", {"max_elements": max_index}), model.NoOptim)
        self.output_schema = schema.Struct(
            ("indices", schema.Scalar(np.int64, self.get_next_blob_reference("indices"))),
            ("handler", schema.Scalar(np.void, self.handler)),
        )

    def add_train_ops(self, net: Any) -> None:
        """Add what numbers keys, new ones too."""
        keys = self.input_record()
        if self.input_record.field_type().base != np.int64:
            keys = net.Cast(keys, net.NextScopedBlob("indices_before_mapping"), to=core.DataType.INT64)
        indices = net.IndexGet([self.handler, keys], self.output_schema.indices())
        net.StopGradient(indices, indices)

    def add_eval_ops(self, net: Any) -> None:
        """Add what numbers keys that are known."""
        net.IndexFreeze(self.handler, self.handler)
        self.add_train_ops(net)

    def add_ops(self, net: Any) -> None:
        """Add what numbers keys that are known."""
        self.add_eval_ops(net)
