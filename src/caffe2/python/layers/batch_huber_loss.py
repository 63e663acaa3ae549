"""The mean Huber loss of a batch: squares of small errors, lines for large ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import core, schema
from caffe2.python.layers._labelled import require_label
from caffe2.python.layers._row_weight import weighted
from caffe2.python.layers.layers import ModelLayer
from caffe2.python.layers.tags import Tags


class BatchHuberLoss(ModelLayer):
    """The mean of m^2 / 2 + delta (|e| - m), with e = label - prediction and m the lesser of |e| and delta.

    A column `weight` has a factor for each row.
    """

    def __init__(
        self, model: Any, input_record: Any, name: str = "batch_huber_loss", delta: float = 1.0, **kwargs: Any
    ) -> None:
        """Add a layer on the columns `label` (N) and `prediction` (N, 1)."""
        super().__init__(model, name, input_record, **kwargs)
        assert delta > 0, f"delta = {delta} must be above 0"
        self._delta = delta
        require_label(input_record)
        self.tags.update([Tags.EXCLUDE_FROM_PREDICTION])
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        record = self.input_record
        kinds = [column.field_type() for column in (record.label, record.prediction)]
        prediction = net.Squeeze(record.prediction(), net.NextScopedBlob("squeezed_prediction"), dims=[1])
        label = record.label.field_blobs()
        if kinds[0].base != kinds[1].base:
            label = net.Cast(label, net.NextScopedBlob("cast_label"), to=schema.data_type_for_dtype(kinds[1]))
        delta = net.ConstantFill(label, net.NextScopedBlob("delta"), value=self._delta, dtype=core.DataType.FLOAT)
        label = net.StopGradient(label, net.NextScopedBlob("stopped_label"))
        delta = net.StopGradient(delta, net.NextScopedBlob("stopped_delta"))
        error = net.L1Distance([label, prediction], net.NextScopedBlob("abs_error"))
        lesser = net.Min([error, delta], net.NextScopedBlob("min_error_delta"))
        square = net.Scale(net.Sqr(lesser), scale=0.5)
        line = net.Mul([net.Sub([error, lesser]), delta], net.NextScopedBlob("huber_linear_term"))
        loss = net.Add([square, line], net.NextScopedBlob("huber_dist"))
        loss = weighted(net, record, loss, "weighted_huber_distance")
        net.AveragedLoss(loss, self.output_schema.field_blobs())
