"""A sum of losses with weights that stay."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import schema
from caffe2.python.layers.layers import ModelLayer


class ConstantWeight(ModelLayer):
    """The sum of columns, each with a weight of its own; by default all weigh 1 / their number."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        weights: list[float] | None = None,
        name: str = "constant_weight",
        **kwargs: Any,
    ) -> None:
        """Add a layer."""
        super().__init__(model, name, input_record, **kwargs)
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("constant_weight"))
        self.data = self.input_record.field_blobs()
        self.num = len(self.data)
        given = [1.0 / self.num] * self.num if weights is None else weights
        assert len(given) == self.num, f"{len(given)} weights for {self.num} columns"
        self.weights = [
            model.add_global_constant(f"{self.name}_weight_{place}", float(weight))
            for place, weight in enumerate(given)
        ]

    def add_ops(self, net: Any) -> None:
        """Add the operator."""
        pairs = zip(self.data, self.weights, strict=True)
        net.WeightedSum([one for pair in pairs for one in pair], self.output_schema())
