"""Values that are left out at random while a model trains."""

from __future__ import annotations

from typing import Any

from caffe2.python import schema
from caffe2.python.layers.layers import ModelLayer


class Dropout(ModelLayer):
    """Leaves out a share of what comes in; with `dropout_for_eval` also when the model does not train."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "dropout",
        ratio: float = 0.5,
        dropout_for_eval: bool = False,
        **kwargs: Any,
    ) -> None:
        """Add a layer that leaves out a share in [0, 1)."""
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Scalar), f"Incorrect input type {input_record}"
        assert 0 <= ratio < 1.0, f"Expected 0 <= ratio < 1, but got ratio of {ratio}"
        self.dropout_for_eval = dropout_for_eval
        self.ratio = ratio
        output = self.get_next_blob_reference("output")
        self.output_schema = schema.Scalar(input_record.dtype, output, input_record.metadata)
        self.mask = self.get_next_blob_reference("d_mask")

    def _add_ops(self, net: Any, is_test: bool) -> None:
        written = [*self.output_schema.field_blobs(), self.mask]
        net.Dropout(self.input_record.field_blobs(), written, ratio=self.ratio, is_test=is_test)

    def add_train_ops(self, net: Any) -> None:
        """Add the operator as it trains."""
        self._add_ops(net, is_test=False)

    def add_ops(self, net: Any) -> None:
        """Add the operator as it is used."""
        self._add_ops(net, is_test=not self.dropout_for_eval)
