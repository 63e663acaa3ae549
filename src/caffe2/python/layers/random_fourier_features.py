"""Features of random waves, whose products are those of a Gaussian kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import schema
from caffe2.python.layers.layers import ModelLayer


class RandomFourierFeatures(ModelLayer):
    """`sqrt(2 / D) cos(X W^T + b)` with D features; W and b are random and stay.

    Source: Rahimi, Recht 2007, Random Features for Large-Scale Kernel Machines.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_dims: int,
        sigma: float,
        w_init: Any = None,
        b_init: Any = None,
        name: str = "random_fourier_features",
        **kwargs: Any,
    ) -> None:
        """Add a layer with `output_dims` features, for a kernel of the bandwidth `sigma`."""
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Scalar), "Incorrect input type"
        inputs = input_record.field_type().shape[0]
        assert inputs >= 1, f"Expected input dimensions >= 1, got {inputs}"
        self.output_dims = output_dims
        assert output_dims >= 1, f"Expected output dimensions >= 1, got {output_dims}"
        self.output_schema = schema.Scalar((np.float32, (output_dims,)), self.get_next_blob_reference("output"))
        assert sigma > 0.0, f"Expected bandwidth > 0, got {sigma}"
        w_init = w_init or ("GaussianFill", {"mean": 0.0, "std": 1.0 / sigma})
        b_init = b_init or ("UniformFill", {"min": 0.0, "max": 2 * np.pi})
        self.w = self.create_param("w", [output_dims, inputs], w_init, model.NoOptim)
        self.b = self.create_param("b", [output_dims], b_init, model.NoOptim)

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        angle = net.FC([*self.input_record.field_blobs(), self.w, self.b], net.NextScopedBlob("cosine_arg"))
        cosine = net.Cos([angle], net.NextScopedBlob("new_feature_vec"))
        net.Scale([cosine], self.output_schema.field_blobs(), scale=np.sqrt(2.0 / self.output_dims))
