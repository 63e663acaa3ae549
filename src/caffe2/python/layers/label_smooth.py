"""Labels that are less certain than they say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from caffe2.python import core, schema
from caffe2.python.layers.layers import ModelLayer


def label_as(net: Any, label: Any, kind: Any, name: str, to: int) -> Any:
    """Return the blob of a column of labels in an element type."""
    return label() if label.field_type().base == kind else net.Cast(label(), net.NextScopedBlob(name), to=to)


def smoothed(net: Any, label: Any, constants: tuple[Any, Any], output: Any) -> Any:
    """Return `output`, the row of a matrix for each label; the constants are the number of classes and the matrix."""
    classes, matrix = constants
    number = label_as(net, label, np.int64, "int64_label", core.DataType.INT64)
    one_hot = net.OneHot([number, classes], net.NextScopedBlob("one_hot_label"))
    return net.MatMul([one_hot, matrix], output)


class LabelSmooth(ModelLayer):
    """For each label the row of a matrix (D, D): the probabilities of D classes that it stands for.

    With two numbers instead of a matrix, what labels below and above a half become.
    """

    def __init__(self, model: Any, label: Any, smooth_matrix: Any, name: str = "label_smooth", **kwargs: Any) -> None:
        """Add a layer on a column of labels."""
        super().__init__(model, name, label, **kwargs)
        self.label = label
        flat: Any = np.array(smooth_matrix).astype(np.float32).flatten()
        self.set_dim(flat)
        self.set_smooth_matrix(flat)
        self.output_schema = schema.Scalar((np.float32, (self.dim,)), self.get_next_blob_reference("smoothed_label"))

    def set_dim(self, smooth_matrix: Any) -> None:
        """Find how many numbers a smoothed label has."""
        count = smooth_matrix.size
        self.binary_prob_label = count == 2
        self.dim = 1 if self.binary_prob_label else math.isqrt(count)
        assert self.binary_prob_label or self.dim**2 == count, f"{count} numbers are no square matrix, and not two"

    def set_smooth_matrix(self, smooth_matrix: Any) -> None:
        """Keep the two numbers, or make constants of the matrix and of the number of classes."""
        if self.binary_prob_label:
            self.smooth_matrix = smooth_matrix
            return
        add = self.model.add_global_constant
        self.smooth_matrix = add(
            f"{self.name}_label_smooth_matrix",
            array=smooth_matrix.reshape((self.dim, self.dim)),
            dtype=np.dtype(np.float32),
        )
        self.len = add(f"{self.name}_label_dim", array=self.dim, dtype=np.dtype(np.int64))

    def add_ops_for_binary_prob_label(self, net: Any) -> None:
        """Add the operators for two numbers."""
        label = label_as(net, self.label, np.float32, "float32_label", core.DataType.FLOAT)
        low, high = self.smooth_matrix
        net.StumpFunc(label, self.output_schema(), threshold=0.5, low_value=low, high_value=high)

    def add_ops_for_categorical_label(self, net: Any) -> None:
        """Add the operators for a matrix."""
        smoothed(net, self.label, (self.len, self.smooth_matrix), self.output_schema())

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        if self.binary_prob_label:
            self.add_ops_for_binary_prob_label(net)
        else:
            self.add_ops_for_categorical_label(net)
