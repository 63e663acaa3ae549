"""A number that is added to each column."""

from __future__ import annotations

import math
from typing import Any

from caffe2.python import schema
from caffe2.python.layers.layers import ModelLayer


class AddBias(ModelLayer):
    """`Y = X + b` for rows X (N, D)."""

    def __init__(
        self, model: Any, input_record: Any, bias_init: Any = None, bias_optim: Any = None, name: str = "add_bias"
    ) -> None:
        """Add a layer; b is drawn from +-sqrt(1 / D)."""
        super().__init__(model, name, input_record)
        assert isinstance(input_record, schema.Scalar), "Incorrect input type"
        kind = input_record.field_type()
        assert len(kind.shape) > 0, "AddBias expects limited dimensions of the input tensor"
        size = kind.shape[0]
        assert size > 0, f"AddBias expects input dimensions > 0, got {size}"
        scale = math.sqrt(1.0 / size)
        self.b = self.create_param("b", [size], bias_init or ("UniformFill", {"min": -scale, "max": scale}), bias_optim)
        self.output_schema = schema.Scalar((kind.base, (size,)), self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        """Add the operator."""
        net.Add([*self.input_record.field_blobs(), self.b], self.output_schema.field_blobs(), broadcast=1)
