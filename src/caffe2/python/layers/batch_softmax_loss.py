"""Softmax and its cross entropy with labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import core, schema
from caffe2.python.layers._labelled import require_label
from caffe2.python.layers.label_smooth import smoothed
from caffe2.python.layers.layers import ModelLayer


class BatchSoftmaxLoss(ModelLayer):
    """Probabilities of a batch of logits `prediction`, and what these lose against `label`.

    Labels are numbers of classes, or with `label_prob` probabilities of each. A smoothing matrix has, for each class,
    the probabilities that its label stands for. A column `weight` has a factor for each row.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "batch_softmax_loss",
        label_smoothing_matrix: Any = None,
        label_prob: bool = False,
        scale: float = 1.0,
        average_by_batch_size: bool = False,
        **kwargs: Any,
    ) -> None:
        """Add a layer on the columns `label`, `prediction` and, where it is there, `weight`."""
        super().__init__(model, name, input_record, **kwargs)
        require_label(input_record)
        self.label_prob, self.scale, self.average_by_batch_size = label_prob, scale, average_by_batch_size
        self.label_smoothing_matrix = label_smoothing_matrix
        if label_smoothing_matrix is not None:
            self.initialize_label_smoothing_constants()
        kind = input_record.prediction.field_type()
        self.output_schema = schema.Struct(
            ("softmax", schema.Scalar(kind, self.get_next_blob_reference("softmax"))),
            ("loss", schema.Scalar(np.float32, self.get_next_blob_reference("loss"))),
        )

    def initialize_label_smoothing_constants(self) -> None:
        """Make constants of the smoothing matrix and of the number of classes; labels are probabilities from now on."""
        matrix = np.array(self.label_smoothing_matrix, dtype=np.float32)
        assert matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1], f"a smoothing matrix of shape {matrix.shape}"
        add = self.model.add_global_constant
        self.label_smoothing_matrix = add(f"{self.name}_label_smoothing_matrix", array=matrix, dtype=np.float32)
        self.label_dim = add(f"{self.name}_label_dim", array=len(matrix), dtype=np.int64)
        self.label_prob = True

    def compute_smoothed_label(self, net: Any) -> Any:
        """Return a blob with the row of the smoothing matrix for each label."""
        constants = self.label_dim, self.label_smoothing_matrix
        return smoothed(net, self.input_record.label, constants, net.NextScopedBlob("smoothed_label"))

    def _label(self, net: Any) -> Any:
        """Return the blob with the labels that the operator takes."""
        if self.label_smoothing_matrix is not None:
            return self.compute_smoothed_label(net)
        label = self.input_record.label
        if self.label_prob or label.field_type().base == np.int32:
            return label()
        return net.Cast(label(), net.NextScopedBlob("int32_label"), to=core.DataType.INT32)

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        inputs = [self.input_record.prediction(), self._label(net)]
        if "weight" in self.input_record.fields:
            weight = self.input_record.weight()
            if self.input_record.weight.field_type().base != np.float32:
                weight = net.Cast(weight, weight + "_float32", to=core.DataType.FLOAT)
            inputs.append(weight)
        net.SoftmaxWithLoss(
            inputs,
            self.output_schema.field_blobs(),
            label_prob=self.label_prob,
            scale=self.scale,
            average_by_batch_size=self.average_by_batch_size,
        )
