"""Convolutions of images in a column."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import schema
from caffe2.python.layers.layers import ModelLayer


class Conv(ModelLayer):
    """A convolution with `output_dim` filters; images are (H, W, C), or (C, H, W) with `order` NCHW."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_dim: int,
        kernel_h: int,
        kernel_w: int,
        stride_h: int,
        stride_w: int,
        pad_b: int | None = None,
        pad_l: int | None = None,
        pad_r: int | None = None,
        pad_t: int | None = None,
        order: str = "NHWC",
        kernel_init: Any = None,
        bias_init: Any = None,
        kernel_optim: Any = None,
        bias_optim: Any = None,
        name: str = "conv",
        **kwargs: Any,
    ) -> None:
        """Add a layer; of its output the number of filters is known alone.

        Padding that is not given keeps the image as large as it is (for odd windows) where the stride is 1, and is 0
        elsewhere.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Scalar), f"Incorrect input type {input_record}"
        shape = input_record.field_types()[0].shape
        assert len(shape) > 0, f"Conv expects limited dimensions of the input tensor, not {input_record}"
        assert order in ("NHWC", "NCHW"), f"Only NHWC and NCHW orders are supported, not {order}"
        self.order = order
        self.window: dict[str, int] = {"kernel_h": kernel_h, "kernel_w": kernel_w}
        self.window |= {"stride_h": stride_h, "stride_w": stride_w}
        for key, value in self.window.items():
            assert isinstance(value, int) and value > 0, f"{key} should be positive integer"
        high = (kernel_h - 1) // 2 if stride_h == 1 else 0
        wide = (kernel_w - 1) // 2 if stride_w == 1 else 0
        pads = (("pad_t", pad_t, high), ("pad_l", pad_l, wide), ("pad_b", pad_b, high), ("pad_r", pad_r, wide))
        self.window |= {key: default if value is None else value for key, value, default in pads}
        channels = shape[-1] if order == "NHWC" else shape[0]
        inner = [kernel_h, kernel_w, channels] if order == "NHWC" else [channels, kernel_h, kernel_w]
        self.kernel = self.create_param(
            "conv_kernel", [output_dim, *inner], kernel_init or ("XavierFill", {}), kernel_optim
        )
        self.bias = self.create_param(
            "conv_bias", [output_dim], bias_init or ("ConstantFill", {"value": 0.0}), bias_optim
        )
        self.output_schema = schema.Scalar((np.float32, (output_dim,)), self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        """Add the operator."""
        inputs = [*self.input_record.field_blobs(), self.kernel, self.bias]
        net.Conv(inputs, self.output_schema.field_blobs(), **self.window, order=self.order)
