"""Several fully connected layers side by side, each trained on rows that are drawn with replacement."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import core, schema
from caffe2.python.helpers.arg_scope import get_current_scope
from caffe2.python.layers._clipped import bounds_of, clipped
from caffe2.python.layers._row_product import drawn_weights, row_extents
from caffe2.python.layers.layers import ModelLayer
from caffe2.python.layers.sampling_trainable_mixin import SamplingTrainableMixin


def get_fc_predictor_version(fc_version: str) -> str:
    """Return the precision of these layers in nets that predict, which can only be fp32."""
    assert fc_version == "fp32", f"the precision of an FC with bootstrap is fp32, not {fc_version}"
    return fc_version


class FCWithBootstrap(SamplingTrainableMixin, ModelLayer):
    """`num_bootstrap` layers on the same rows; out go, for each, the rows that it drew and what it predicts."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_dims: int,
        num_bootstrap: int,
        weight_init: Any = None,
        bias_init: Any = None,
        weight_optim: Any = None,
        bias_optim: Any = None,
        name: str = "fc_with_bootstrap",
        weight_reg: Any = None,
        bias_reg: Any = None,
        clip_param: Any = None,
        axis: int = 1,
        **kwargs: Any,
    ) -> None:
        """Add the layers; arguments are those of `FC`."""
        super().__init__(model, name, input_record, **kwargs)
        _, inputs = row_extents(input_record, axis)
        self.axis = axis
        self.num_bootstrap = num_bootstrap
        self.input_dims = inputs
        self.clip_args = bounds_of(clip_param)
        self.output_dim_vec = None
        self.bootstrapped_FCs: list[Any] = []
        self.batch_size: Any = None
        self.lower_bound: Any = None
        self.upper_bound: Any = None
        drawn = drawn_weights(inputs)
        outputs: Any = schema.Struct()
        for number in range(num_bootstrap):
            part = f"bootstrap_iteration_{number}"
            columns = [
                (f"{part}/{kind}", self.get_next_blob_reference(f"{part}/{kind}")) for kind in ("indices", "preds")
            ]
            outputs += schema.Struct(*columns)
            w = self.create_param(
                f"{part}/w", [output_dims, inputs], weight_init or drawn, weight_optim, regularizer=weight_reg
            )
            b = self.create_param(f"{part}/b", [output_dims], bias_init or drawn, bias_optim, regularizer=bias_reg)
            self.bootstrapped_FCs += [w, b]
        self.output_schema = outputs

    def _generate_bootstrapped_indices(self, net: Any, copied_cur_layer: Any, iteration: int) -> Any:
        """Return a blob with as many drawn numbers of rows as there are rows; the first layer counts these."""
        with core.NameScope(f"bootstrap_iteration_{iteration}"):
            if iteration == 0:
                shape = net.Shape(copied_cur_layer, "input_shape")
                self.batch_size = net.Gather([shape, net.Const(np.array([0]), "batch_size_index")], "batch_size")
                self.lower_bound = net.Const(np.array([0]), "lower_bound", dtype=np.int32)
                offset = net.Const(np.array([1]), "offset", dtype=np.int32)
                count = net.Cast([self.batch_size], "int_batch_size", to=core.DataType.INT32)
                self.upper_bound = net.Sub([count, offset], "upper_bound")
            return net.UniformIntFill(
                [self.batch_size, self.lower_bound, self.upper_bound],
                self.output_schema[iteration * 2].field_blobs()[0],
                input_as_shape=1,
            )

    def _bootstrap_ops(self, net: Any, copied_cur_layer: Any, indices: Any, iteration: int) -> Any:
        """Return the drawn rows as a column."""
        drawn = net.Gather([copied_cur_layer, indices], net.NextScopedBlob(f"bootstrapped_features_{iteration}"))
        return schema.Scalar((np.float32, self.input_dims), drawn)

    def _insert_fc_ops(self, net: Any, features: Any, params: list[Any], outputs: Any, version: str) -> Any:
        """Add one product."""
        get_fc_predictor_version(version)
        return net.FC([*features.field_blobs(), *params], outputs, axis=self.axis, **self.kwargs)

    def _add_ops(  # pyright: ignore[reportIncompatibleMethodOverride] -- one of several layers, as it was
        self, net: Any, features: Any, iteration: int, params: list[Any], version: str
    ) -> None:
        outputs = [self.output_schema.field_blobs()[iteration * 2 + 1]]
        self._insert_fc_ops(net, features, clipped(net, params, self.clip_args), outputs, version)

    def add_ops(self, net: Any) -> None:
        """Add all layers on all rows; the numbers of rows that go out beside are not used."""
        given = get_current_scope().get(get_fc_predictor_version.__name__, {"fc_version": "fp32"})
        for number in range(self.num_bootstrap):
            self._generate_bootstrapped_indices(net, self.input_record.field_blobs()[0], number)
            params = self.bootstrapped_FCs[number * 2 : number * 2 + 2]
            self._add_ops(net, self.input_record, number, params, given["fc_version"])

    def add_train_ops(self, net: Any) -> None:
        """Add each layer on rows of its own."""
        rows = self.input_record.field_blobs()[0]
        for number in range(self.num_bootstrap):
            indices = self._generate_bootstrapped_indices(net, rows, number)
            features = self._bootstrap_ops(net, rows, indices, number)
            self._add_ops(net, features, number, self.train_param_blobs[number * 2 : number * 2 + 2], "fp32")

    def get_fp16_compatible_parameters(self) -> list[Any]:
        """Return the weights."""
        return self.bootstrapped_FCs[::2]

    @property
    def param_blobs(self) -> list[Any]:
        """Weights and biases by turns."""
        return self.bootstrapped_FCs
