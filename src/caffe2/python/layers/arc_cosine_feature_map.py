"""Features of random directions, whose products are those of the arc-cosine kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import schema
from caffe2.python.layers.layers import ModelLayer


class ArcCosineFeatureMap(ModelLayer):
    """`H(z) z^s` for `z = X W^T + b`, where H is 1 above 0 and 0 below, and W and b are random and stay.

    Source: Cho, Saul 2009, Kernel Methods for Deep Learning.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_dims: int,
        s: int = 1,
        scale: float = 1.0,
        weight_init: Any = None,
        bias_init: Any = None,
        weight_optim: Any = None,
        bias_optim: Any = None,
        set_weight_as_global_constant: bool = False,
        initialize_output_schema: bool = True,
        name: str = "arc_cosine_feature_map",
        **kwargs: Any,
    ) -> None:
        """Add a layer with `output_dims` features.

        Args:
            model: a `LayerModelHelper`.
            input_record: a column of rows (D).
            output_dims: how many features.
            s: the power.
            scale: of the standard deviation sqrt(1 / D) of W, and of the width of b.
            weight_init: operator type and arguments that fill W.
            bias_init: those that fill b.
            weight_optim: what updates W, nothing by default.
            bias_optim: what updates b, nothing by default.
            set_weight_as_global_constant: whether W and b are drawn here, once, as constants of the model.
            initialize_output_schema: False where a class derived from this says what goes out.
            name: of the layer.
            kwargs: kept.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Scalar), "Incorrect input type"
        self.set_weight_as_global_constant = set_weight_as_global_constant
        self.input_dims = input_record.field_type().shape[0]
        assert self.input_dims >= 1, f"Expected input dimensions >= 1, got {self.input_dims}"
        if initialize_output_schema:
            self.output_schema = schema.Scalar((np.float32, (output_dims,)), model.net.NextScopedBlob(f"{name}_output"))
        self.output_dims = output_dims
        assert output_dims >= 1, f"Expected output dimensions >= 1, got {output_dims}"
        self.s = s
        assert s >= 0, f"Expected s >= 0, got {s}"
        assert isinstance(s, int), f"Expected s to be type int, got type {type(s)}"
        assert scale > 0.0, f"Expected scale > 0, got {scale}"
        self.stddev = scale * np.sqrt(1.0 / self.input_dims)
        if set_weight_as_global_constant:
            half = 0.5 * self.stddev
            w = np.random.normal(scale=self.stddev, size=(output_dims, self.input_dims))
            b = np.random.uniform(low=-half, high=half, size=output_dims)
            self.random_w = model.add_global_constant(name=f"{self.name}_fixed_rand_W", array=w)
            self.random_b = model.add_global_constant(name=f"{self.name}_fixed_rand_b", array=b)
        else:
            self.random_w, self.random_b = self._initialize_params(
                "random_w", "random_b", weight_init, bias_init, weight_optim, bias_optim
            )

    def _initialize_params(
        self,
        w_name: str,
        b_name: str,
        w_init: Any = None,
        b_init: Any = None,
        w_optim: Any = None,
        b_optim: Any = None,
    ) -> list[Any]:
        """Return W, normally distributed, and b, uniformly; nothing updates them by default."""
        half = 0.5 * self.stddev
        w_init = w_init or ("GaussianFill", {"mean": 0.0, "std": self.stddev})
        b_init = b_init or ("UniformFill", {"min": -half, "max": half})
        w = self.create_param(w_name, (self.output_dims, self.input_dims), w_init, w_optim or self.model.NoOptim)
        return [w, self.create_param(b_name, [self.output_dims], b_init, b_optim or self.model.NoOptim)]

    def _heaviside_with_power(self, net: Any, input_features: Any, output_blob: Any, s: int) -> Any:
        """Add H(z) z^s; with s = 0 it is the positive part of z / (1 + |z|)."""
        if s == 0:
            return net.Relu(net.Softsign([input_features], net.NextScopedBlob("softsign")), output_blob)
        if s == 1:
            return net.Relu([input_features], output_blob)
        positive = net.Relu([input_features], net.NextScopedBlob("relu_rand"))
        power = net.Pow([input_features], net.NextScopedBlob("pow_rand"), exponent=float(s - 1))
        return net.Mul([positive, power], output_blob)

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        inputs = [*self.input_record.field_blobs(), self.random_w, self.random_b]
        z = net.FC(inputs, net.NextScopedBlob("random_features"))
        self._heaviside_with_power(net, z, self.output_schema.field_blobs(), self.s)
