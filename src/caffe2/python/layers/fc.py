"""Fully connected layers: `Y = X W^T + b`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from caffe2.python import schema
from caffe2.python.layers.layers import ModelLayer
from tazza.errors import UnavailableError


def get_fc_predictor_version(fc_version: str) -> str:
    """Return the precision of fully connected layers in nets that predict, if it is one of the two."""
    assert fc_version in ("fp32", "fp16"), f"the precision of an FC that predicts is fp32 or fp16, not {fc_version}"
    return fc_version


class FC(ModelLayer):
    """A fully connected layer; everything behind `axis` counts as one row."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_dims: Any,
        weight_init: Any = None,
        bias_init: Any = None,
        weight_optim: Any = None,
        bias_optim: Any = None,
        name: str = "fc",
        weight_reg: Any = None,
        bias_reg: Any = None,
        clip_param: Any = None,
        max_fc_size: int | None = None,
        axis: int = 1,
        transposed: bool = False,
        uniform_weight_init_scale_numerator: float = 1.0,
        **kwargs: Any,
    ) -> None:
        """Add a layer with `output_dims` outputs; parameters are drawn from +-sqrt(numerator / inputs)."""
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Scalar), f"Incorrect input type {input_record}"
        shape = input_record.field_types()[0].shape
        assert len(shape) > 0, f"FC expects limited dimensions of the input tensor, not {input_record}"
        assert axis >= 1, f"axis {axis} should >= 1."
        if clip_param is not None or max_fc_size not in (None, -1):
            raise UnavailableError(
                "FC(clip_param=..., max_fc_size=...) is not there yet: parameters are left as they are"
            )
        self.axis = axis
        self.transposed = transposed
        self.clip_args = None
        inputs, outputs = math.prod(shape[axis - 1 :]), int(output_dims)
        assert inputs > 0, f"FC expects input dimensions > 0, got {shape}"
        scale = math.sqrt(uniform_weight_init_scale_numerator / inputs)
        drawn = ("UniformFill", {"min": -scale, "max": scale})
        self.output_dim_vec = [outputs]
        weights = [inputs, outputs] if transposed else [outputs, inputs]
        self.w = self.create_param("w", weights, weight_init or drawn, weight_optim, regularizer=weight_reg)
        self.b = self.create_param("b", [outputs], bias_init or drawn, bias_optim, regularizer=bias_reg)
        self.output_schema = schema.Scalar(
            (np.float32, (*shape[: axis - 1], outputs)), self.get_next_blob_reference("output")
        )

    def add_ops(self, net: Any) -> None:
        """Add the operator."""
        made = net.FCTransposed if self.transposed else net.FC
        made([*self.input_record.field_blobs(), self.w, self.b], self.output_schema.field_blobs(), axis=self.axis)

    def get_fp16_compatible_parameters(self) -> list[Any]:
        """Return the weights."""
        return [self.w]
