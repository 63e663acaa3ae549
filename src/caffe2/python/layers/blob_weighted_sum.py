"""A sum of columns with weights that are learned."""

from __future__ import annotations

from typing import Any

from caffe2.python import schema
from caffe2.python.layers.layers import ModelLayer


class BlobWeightedSum(ModelLayer):
    """The sum of columns of one shape, each with a weight that is learned, 1 at first."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        init_weights: list[float] | None = None,
        weight_optim: Any = None,
        name: str = "blob_weighted_sum",
        **kwargs: Any,
    ) -> None:
        """Add a layer."""
        super().__init__(model, name, input_record, **kwargs)
        self.blobs = self.input_record.field_blobs()
        self.num_weights = len(self.blobs)
        assert self.num_weights > 1, f"BlobWeightedSum expects more than one input blobs, not {self.num_weights}"
        types = input_record.field_types()
        assert len(types[0].shape) > 0, f"BlobWeightedSum expects limited dimensions, not {types[0]}"
        assert all(one.shape == types[0].shape for one in types), f"all columns should have one shape, not {types}"
        values = [1.0] * self.num_weights if init_weights is None else init_weights
        assert len(values) == self.num_weights, f"{len(values)} weights for {self.num_weights} columns"
        self.weights = [
            self.create_param(f"w_{place}", [1], ("ConstantFill", {"value": float(value)}), weight_optim)
            for place, value in enumerate(values)
        ]
        self.output_schema = schema.Scalar(types[0], self.get_next_blob_reference("blob_weighted_sum_out"))

    def add_ops(self, net: Any) -> None:
        """Add the operator."""
        pairs = zip(self.blobs, self.weights, strict=True)
        net.WeightedSum([one for pair in pairs for one in pair], self.output_schema(), grad_on_w=True)
