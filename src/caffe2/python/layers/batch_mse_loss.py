"""The mean squared error of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import core, schema
from caffe2.python.layers._labelled import require_label
from caffe2.python.layers.layers import ModelLayer
from caffe2.python.layers.tags import Tags


class BatchMSELoss(ModelLayer):
    """The mean over a batch of (label - prediction)^2 / 2, weighted where there is a column `weight`."""

    def __init__(self, model: Any, input_record: Any, name: str = "batch_mse_loss", **kwargs: Any) -> None:
        """Add a layer on the columns `label` and `prediction`."""
        super().__init__(model, name, input_record, **kwargs)
        require_label(input_record)
        self.tags.update([Tags.EXCLUDE_FROM_PREDICTION])
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        record = self.input_record
        label, prediction = record.label(), record.prediction()
        if record.label.field_type().base != record.prediction.field_type().base:
            label = net.Cast(label, net.NextScopedBlob("cast_label"), to=core.DataType.FLOAT)
        label = net.StopGradient(net.ExpandDims(label, 1, dims=[1]), net.NextScopedBlob("stopped_label"))
        distance = net.SquaredL2Distance([label, prediction], net.NextScopedBlob("l2"))
        if "weight" in record.fields:
            weight = net.StopGradient(record.weight(), net.NextScopedBlob("weight_stop_gradient"))
            distance = net.Mul([distance, weight], net.NextScopedBlob("weighted_l2_distance"))
        net.AveragedLoss(distance, self.output_schema.field_blobs())
