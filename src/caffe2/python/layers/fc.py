"""Fully connected layers: `Y = X W^T + b`."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import schema
from caffe2.python.helpers.arg_scope import get_current_scope
from caffe2.python.layers._clipped import bounds_of, clipped
from caffe2.python.layers._row_product import drawn_weights, row_extents
from caffe2.python.layers.layers import ModelLayer
from caffe2.python.layers.sampling_trainable_mixin import SamplingTrainableMixin


def get_fc_predictor_version(fc_version: str) -> str:
    """Return the precision of fully connected layers in nets that predict, if it is one of the two."""
    assert fc_version in ("fp32", "fp16"), f"the precision of an FC that predicts is fp32 or fp16, not {fc_version}"
    return fc_version


class FC(SamplingTrainableMixin, ModelLayer):
    """A fully connected layer; everything behind `axis` counts as one row.

    Weights of more than `max_fc_size` elements are divided by outputs into several products, whose results are joined.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_dims: Any,
        weight_init: Any = None,
        bias_init: Any = None,
        weight_optim: Any = None,
        bias_optim: Any = None,
        name: str = "fc",
        weight_reg: Any = None,
        bias_reg: Any = None,
        clip_param: Any = None,
        max_fc_size: int | None = None,
        axis: int = 1,
        transposed: bool = False,
        uniform_weight_init_scale_numerator: float | None = 1.0,
        **kwargs: Any,
    ) -> None:
        """Add a layer with `output_dims` outputs; parameters are drawn from +-sqrt(numerator / inputs).

        Args:
            model: a `LayerModelHelper`.
            input_record: a column of rows.
            output_dims: how many outputs.
            weight_init: operator type and arguments that fill W.
            bias_init: those that fill b.
            weight_optim: what updates W.
            bias_optim: what updates b.
            name: of the layer.
            weight_reg: regularizer of W.
            bias_reg: regularizer of b.
            clip_param: bounds (least, largest) that W and b are clipped to wherever they are used.
            max_fc_size: the most elements of one W.
            axis: the first that counts as part of a row.
            transposed: whether W is (inputs, outputs).
            uniform_weight_init_scale_numerator: see above.
            kwargs: kept, and arguments of the operators.
        """
        super().__init__(model, name, input_record, **kwargs)
        before, inputs = row_extents(input_record, axis)
        self.axis = axis
        self.transposed = transposed
        self.clip_args = bounds_of(clip_param)
        outputs = int(output_dims)
        numerator = 1.0 if uniform_weight_init_scale_numerator is None else uniform_weight_init_scale_numerator
        drawn = drawn_weights(inputs, numerator)
        fill = weight_init or drawn
        self.output_dim_vec = FC.calculate_fc_output_dims(max_fc_size, inputs, outputs)
        weight_rest = {"initializer": fill, "optimizer": weight_optim, "regularizer": weight_reg}
        if self._is_whole:
            self.w = self.create_param("w", self._weight_shape(inputs, outputs), **weight_rest)
            self.b = self.create_param("b", [outputs], bias_init or drawn, bias_optim, regularizer=bias_reg)
        else:
            self.w_vec: list[Any] = []
            self.b_vec: list[Any] = []
            for part, size in enumerate(self.output_dim_vec or ()):
                self.w_vec.append(self.create_param(f"w_sub_{part}", self._weight_shape(inputs, size), **weight_rest))
                # As in Caffe2: the biases of parts are filled, updated and regularized as the weights are.
                self.b_vec.append(self.create_param(f"b_sub_{part}", [size], **weight_rest))
        self.output_schema = schema.Scalar((np.float32, (*before, outputs)), self.get_next_blob_reference("output"))

    @property
    def _is_whole(self) -> bool:
        return self.output_dim_vec is None or len(self.output_dim_vec) == 1

    def _weight_shape(self, inputs: int, outputs: int) -> list[int]:
        return [inputs, outputs] if self.transposed else [outputs, inputs]

    @staticmethod
    def calculate_fc_output_dims(max_fc_size: int | None, input_dim: int, output_dim: int) -> list[int] | None:
        """Return how many outputs each part has, None where nothing bounds the weights.

        >>> FC.calculate_fc_output_dims(20, 6, 7)
        [3, 3, 1]
        """
        if not max_fc_size or max_fc_size < 0:
            return None
        assert max_fc_size >= input_dim, f"max_fc_size = {max_fc_size} is less than one output's {input_dim} weights"
        most = max_fc_size // input_dim
        full = (output_dim - 1) // most
        return [most] * full + [output_dim - most * full]

    def _insert_fc_ops(self, net: Any, params: list[Any], outputs: Any, version: str) -> Any:
        """Add one product, in a precision."""
        makers = {"fp32": "FCTransposed" if self.transposed else "FC", "fp16": "FbFCPacked"}
        add = getattr(net, makers[version])
        return add([*self.input_record.field_blobs(), *params], outputs, axis=self.axis, **self.kwargs)

    def _add_ops(  # pyright: ignore[reportIncompatibleMethodOverride] -- precision beside the parameters, as it was
        self, net: Any, params: list[Any], version: str
    ) -> None:
        params = clipped(net, params, self.clip_args)
        outputs = self.output_schema.field_blobs()
        if self._is_whole:
            self._insert_fc_ops(net, params, outputs, version)
            return
        half = len(params) // 2
        parts = [
            self._insert_fc_ops(net, [w, b], [net.NextScopedBlob(f"output_sub_{part}")], version)
            for part, (w, b) in enumerate(zip(params[:half], params[half:], strict=True))
        ]
        net.Concat(parts, [*outputs, outputs[0] + "_concat_dims"])

    def add_ops(self, net: Any) -> None:
        """Add the operators, in the precision that `get_fc_predictor_version` has in the present `arg_scope`."""
        given = get_current_scope().get(get_fc_predictor_version.__name__, {"fc_version": "fp32"})
        self._add_ops(net, self.param_blobs, given["fc_version"])

    def add_train_ops(self, net: Any) -> None:
        """Add the operators in float32, on what `SamplingTrain` may have put in place of the parameters."""
        self._add_ops(net, self.train_param_blobs, "fp32")

    def get_fp16_compatible_parameters(self) -> list[Any]:
        """Return the weights."""
        return [self.w] if self._is_whole else self.w_vec

    @property
    def param_blobs(self) -> list[Any]:
        """The weights, and behind them the biases."""
        return [self.w, self.b] if self._is_whole else self.w_vec + self.b_vec
