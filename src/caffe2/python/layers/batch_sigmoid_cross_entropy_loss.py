"""The mean cross entropy of logits with labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import schema
from caffe2.python.layers._labelled import require_label
from caffe2.python.layers.layers import ModelLayer
from caffe2.python.layers.tags import Tags


class BatchSigmoidCrossEntropyLoss(ModelLayer):
    """The mean over a batch of what logits `prediction` lose against `label`, element by element."""

    def __init__(
        self, model: Any, input_record: Any, name: str = "batch_sigmoid_cross_entropy_loss", **kwargs: Any
    ) -> None:
        """Add a layer on the columns `label` and `prediction`, both of one shape (D)."""
        super().__init__(model, name, input_record, **kwargs)
        require_label(input_record)
        shapes = [input_record[column].field_type().shape for column in ("prediction", "label")]
        assert shapes[0] == shapes[1], f"prediction and label have the shapes {shapes}"
        self.tags.update([Tags.EXCLUDE_FROM_PREDICTION])
        self.output_schema = schema.Scalar((np.float32, ()), self.get_next_blob_reference("loss"))

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        record = self.input_record
        losses = net.SigmoidCrossEntropyWithLogits(
            [record.prediction(), record.label()], net.NextScopedBlob("sigmoid_cross_entropy")
        )
        net.AveragedLoss(losses, self.output_schema.field_blobs())
