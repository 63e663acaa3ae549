"""Training of a layer on a sample of its outputs."""

from __future__ import annotations

from typing import Any

from caffe2.python import schema
from caffe2.python.layers.layers import ModelLayer, get_layer_class
from caffe2.python.layers.sampling_trainable_mixin import SamplingTrainableMixin


class SamplingTrain(ModelLayer):
    """A layer that trains on the rows `indices` of its parameters and predicts with all of them.

    The logarithm of `sampling_prob`, how likely each row was to be drawn, is taken from what the layer gives.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        prediction_layer: str,
        output_dims: int,
        subtract_log_odd: bool = True,
        name: str = "sampling_train",
        **kwargs: Any,
    ) -> None:
        """Add a layer on the columns `input`, `indices`, `sampling_prob`, over one of a class that is registered."""
        super().__init__(model, name, input_record, **kwargs)
        layer_class = get_layer_class(prediction_layer)
        assert issubclass(layer_class, SamplingTrainableMixin), f"{prediction_layer} cannot train on a sample"
        needed = ["indices", "input", *(["sampling_prob"] if subtract_log_odd else [])]
        missing = [column for column in needed if column not in input_record]
        assert not missing, f"{input_record} lacks {missing}"
        assert isinstance(input_record.indices, schema.Scalar), "input_record.indices is expected to be a schema.Scalar"
        self.subtract_log_odd = subtract_log_odd
        self._prediction_layer: Any = layer_class(model, input_record.input, output_dims=output_dims, **kwargs)
        self._prediction_layer.train_param_blobs = [
            model.net.NextBlob(f"{blob}_sampled") for blob in self._prediction_layer.param_blobs
        ]
        self.params = self._prediction_layer.params
        self.output_schema = self._prediction_layer.output_schema

    def add_ops(self, net: Any) -> None:
        """Add the layer on all rows of its parameters."""
        self._prediction_layer.add_ops(net)

    def add_train_ops(self, net: Any) -> None:
        """Add the layer on the sample."""
        layer = self._prediction_layer
        for whole, sampled in zip(layer.param_blobs, layer.train_param_blobs, strict=True):
            net.Gather([whole, self.input_record.indices()], sampled)
        layer.add_train_ops(net)
        if self.subtract_log_odd:
            log_q = net.Log(self.input_record.sampling_prob(), net.NextScopedBlob("log_q"))
            net.Sub([self.output_schema(), log_q], self.output_schema(), broadcast=1, use_grad_hack=1)
