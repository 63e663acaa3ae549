"""Channels of mean 0 and deviation 1 over a batch, scaled and shifted."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import schema
from caffe2.python.layers.layers import ModelLayer


class BatchNormalization(ModelLayer):
    """Normalizes each channel: by the batch while the model trains, else by what batches had so far.

    Source: Ioffe, Szegedy: Batch normalization, ICML 2015.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "batch_normalization",
        scale_optim: Any = None,
        bias_optim: Any = None,
        momentum: float = 0.9,
        order: str = "NCHW",
        scale_init_value: float = 1.0,
        **kwargs: Any,
    ) -> None:
        """Add a layer on rows of channels, or on images in an order."""
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Scalar), "Incorrect input type"
        self.input_shape = input_record.field_type().shape
        rank = len(self.input_shape)
        assert rank in (1, 3), "input should be rows of channels, or images"
        assert order in ("NCHW", "NHWC"), "order should be either 'NCHW' or 'NHWC'"
        channels = [self.input_shape[0 if rank == 1 or order == "NCHW" else 2]]
        self.expand_to_4d = rank == 1
        self.order = order
        self.momentum = momentum
        self.output_schema = schema.Scalar((np.float32, self.input_shape), self.get_next_blob_reference("output"))
        fills = (
            ("scale", scale_init_value, scale_optim),
            ("bias", 0.0, bias_optim),
            ("running_mean", 0.0, model.NoOptim),
            ("running_inv_var", 1.0, model.NoOptim),
        )
        self.scale, self.bias, self.rm, self.riv = (
            self.create_param(param, channels, ("ConstantFill", {"value": value}), optimizer)
            for param, value, optimizer in fills
        )

    def _add_ops(self, net: Any, is_test: bool, out_blob: Any = None) -> None:
        inputs: list[Any] = self.input_record.field_blobs()
        if self.expand_to_4d:
            inputs = [net.ExpandDims(inputs, dims=[2, 3])]
        output = self.output_schema.field_blobs() if out_blob is None else [out_blob]
        kept = [] if is_test else [self.rm, self.riv, *map(net.NextScopedBlob, ("bn_saved_mean", "bn_saved_iv"))]
        net.SpatialBN(
            [*inputs, self.scale, self.bias, self.rm, self.riv],
            [*output, *kept],
            momentum=self.momentum,
            is_test=is_test,
            order=self.order,
        )
        if self.expand_to_4d:
            net.Squeeze(output, output, dims=[2, 3])

    def add_train_ops(self, net: Any) -> None:
        """Normalize by the batch."""
        self._add_ops(net, is_test=False)

    def add_eval_ops(self, net: Any) -> None:
        """Normalize by what batches had so far."""
        self._add_ops(net, is_test=True)

    def add_ops(self, net: Any) -> None:
        """Normalize by what batches had so far."""
        self.add_eval_ops(net)
