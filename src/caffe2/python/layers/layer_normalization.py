"""Rows of mean 0 and deviation 1, scaled and shifted."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import schema
from caffe2.python.layers.layers import ModelLayer


class LayerNormalization(ModelLayer):
    """scale * (X - mean) / deviation + bias for each row; scale and bias belong to the first axis of a row.

    Source: Ba, Kiros, Hinton: Layer normalization, 2016.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "layer_normalization",
        scale_optim: Any = None,
        bias_optim: Any = None,
        epsilon: float = 1e-4,
        axis: int = 1,
        use_layer_norm_op: bool = True,
        scale_init_value: float = 1.0,
        **kwargs: Any,
    ) -> None:
        """Add a layer; without `LayerNorm` itself, of simple operators, for rows of rank 1."""
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Scalar), f"Incorrect input type: {input_record}"
        self.input_shape = input_record.field_type().shape
        self.axis = axis
        assert len(self.input_shape) >= 1, "This layer supports only >= 2D tensors"
        assert use_layer_norm_op or len(self.input_shape) == 1, (
            "When using alternative implementation, input data can only be 2D"
        )
        self.output_schema = schema.Scalar((np.float32, self.input_shape), self.get_next_blob_reference("output"))
        width = [self.input_shape[axis - 1]]
        self.scale = self.create_param("scale", width, ("ConstantFill", {"value": scale_init_value}), scale_optim)
        self.bias = self.create_param("bias", width, ("ConstantFill", {"value": 0.0}), bias_optim)
        self.use_layer_norm_op = use_layer_norm_op
        if use_layer_norm_op:
            self.epsilon: Any = epsilon
        else:
            assert self.axis == 1, "Alternative implementation only works for axis 1"
            self.epsilon = model.maybe_add_global_constant(f"{self.name}_epsilon", float(epsilon))

    def add_ops_with_layer_norm_op(self, net: Any) -> None:
        """Add `LayerNorm`, and what scales and shifts."""
        outputs = [net.NextScopedBlob(name) for name in ("ln_output", "ln_mean", "ln_stdev")]
        normal, _, _ = net.LayerNorm(self.input_record.field_blobs(), outputs, axis=self.axis, epsilon=self.epsilon)
        where = {"broadcast": 1, "axis": self.axis}
        scaled = net.Mul([normal, self.scale], [net.NextScopedBlob("ln_scaled")], **where)
        net.Add([scaled, self.bias], self.output_schema.field_blobs(), **where)

    def add_ops_without_layer_norm_op(self, net: Any) -> None:
        """Add the same of simple operators."""

        def named(name: str) -> list[Any]:
            return [net.NextScopedBlob(name)]

        (x,) = self.input_record.field_blobs()
        mean = net.ExpandDims(net.ReduceBackMean([x], named("ln_mean_arr")), named("ln_mean"), dims=[1])
        centered = net.Sub([x, mean], named("ln_centered"))
        squares = net.ReduceBackMean([net.Sqr([centered], named("ln_sqr"))], named("ln_sqr_mean"))
        variance = net.Add([squares, self.epsilon], named("ln_var"))
        deviation = net.Pow([variance], named("ln_std_arr"), exponent=0.5)
        normal = net.Div([centered, net.ExpandDims([deviation], named("ln_stdev"), dims=[1])], named("ln_output"))
        scaled = net.Mul([normal, self.scale], named("ln_scaled"))
        net.Add([scaled, self.bias], self.output_schema.field_blobs())

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        if self.use_layer_norm_op:
            self.add_ops_with_layer_norm_op(net)
        else:
            self.add_ops_without_layer_norm_op(net)
