"""Numbers that are drawn without repetition."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import core, schema
from caffe2.python.layers.layers import ModelLayer


class UniformSampling(ModelLayer):
    """A column of different numbers below `num_elements`, filled up to `num_samples` with others that are drawn."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        num_samples: int,
        num_elements: int,
        name: str = "uniform_sampling",
        **kwargs: Any,
    ) -> None:
        """Add a layer on a column of numbers; `samples` go out, and `sampling_prob`, how likely each was."""
        super().__init__(model, name, input_record, **kwargs)
        assert num_elements > num_samples > 0, f"{num_samples} samples of {num_elements} elements"
        assert isinstance(input_record, schema.Scalar), f"a column of numbers, not {input_record}"
        self.num_elements = num_elements
        count = ("GivenTensorInt64Fill", {"values": [num_samples]})
        chance = ("ConstantFill", {"value": float(num_samples) / num_elements, "dtype": core.DataType.FLOAT})
        self.num_samples = self.create_param("num_examples", (1,), count, model.NoOptim)
        self.sampling_prob = self.create_param("prob", (num_samples,), chance, model.NoOptim)
        self.output_schema = schema.Struct(
            ("samples", schema.Scalar(np.int32, self.get_next_blob_reference("samples"))),
            ("sampling_prob", schema.Scalar(np.float32, self.sampling_prob)),
        )

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        net.StopGradient(self.sampling_prob, self.sampling_prob)
        given, samples = self.input_record(), self.output_schema.samples()
        shape = net.Shape([given], net.NextScopedBlob("shape"))
        shape = net.Sub([self.num_samples, shape], shape)
        drawn = net.UniqueUniformFill(
            [shape, given],
            net.NextScopedBlob("samples_before_concat"),
            min=0,
            max=self.num_elements - 1,
            input_as_shape=True,
        )
        net.Concat([given, drawn], [samples, net.NextScopedBlob("split_info")], axis=0)
        net.StopGradient(samples, samples)
