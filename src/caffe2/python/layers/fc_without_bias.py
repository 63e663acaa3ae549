"""Fully connected layers without bias: `Y = X W^T`."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import schema
from caffe2.python.layers._row_product import drawn_weights
from caffe2.python.layers.layers import ModelLayer
from caffe2.python.layers.sampling_trainable_mixin import SamplingTrainableMixin


class FCWithoutBias(SamplingTrainableMixin, ModelLayer):
    """A product of matrices."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_dims: int,
        weight_init: Any = None,
        weight_optim: Any = None,
        name: str = "fc_without_bias",
        uniform_weight_init_scale_numerator: float = 1.0,
        **kwargs: Any,
    ) -> None:
        """Add a layer with `output_dims` outputs; the weights are drawn from +-sqrt(numerator / inputs)."""
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Scalar), f"Incorrect input type {input_record}"
        (inputs,) = input_record.field_types()[0].shape
        assert inputs > 0, f"FCWithoutBias expects input dimensions > 0, got {inputs}"
        drawn = drawn_weights(inputs, uniform_weight_init_scale_numerator)
        self.w = self.create_param("w", [output_dims, inputs], weight_init or drawn, weight_optim)
        self.output_schema = schema.Scalar((np.float32, (output_dims,)), self.get_next_blob_reference("output"))

    def _add_ops(self, net: Any, param_blobs: list[Any]) -> None:
        net.MatMul(
            [*self.input_record.field_blobs(), *param_blobs], self.output_schema.field_blobs(), trans_b=1, **self.kwargs
        )

    @property
    def param_blobs(self) -> list[Any]:
        """The weights."""
        return [self.w]
