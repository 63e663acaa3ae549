"""What layers have in common: a record comes in, a record goes out, parameters are between.

Users register layers of their own:

    class Doubled(ModelLayer):
        def __init__(self, model, input_record, name="doubled", **kwargs):
            super().__init__(model, name, input_record, **kwargs)
            self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("output"))

        def add_ops(self, net):
            net.Scale(self.input_record(), self.output_schema(), scale=2.0)

    register_layer("Doubled", Doubled)   # then model.Doubled(record)
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import numpy as np

from caffe2.python import core, schema, scope
from caffe2.python.layers.tags import TagContext

__all__ = [
    "AccessedFeatures",
    "IdList",
    "IdListWithEvicted",
    "IdScoreList",
    "IdScoreListWithEvicted",
    "InstantiationContext",
    "LayerParameter",
    "LayerPsParam",
    "ModelLayer",
    "almost_equal_schemas",
    "create_layer",
    "get_avg_length",
    "get_categorical_limit",
    "get_key",
    "get_layer_class",
    "is_request_only_scalar",
    "layer_exists",
    "logger",
    "register_layer",
    "set_request_only",
]

logger = logging.getLogger(__name__)

IdList = schema.List(np.int64)
IdScoreList = schema.Map(np.int64, np.float32)
IdListWithEvicted = schema.ListWithEvicted(np.int64)
IdScoreListWithEvicted = schema.MapWithEvicted(np.int64, np.float32)


class AccessedFeatures(NamedTuple):
    """The features that a layer reads, of a type."""

    type: Any
    ids: Any


class LayerPsParam(NamedTuple):
    """How a parameter is spread over servers of parameters."""

    sparse_key: Any
    average_length: Any


class InstantiationContext:
    """What the nets are for."""

    TRAINING = "training"
    EVAL = "eval"
    PREDICTION = "prediction"
    ACCUMULATE_PRED = "accumulate_pred"


def almost_equal_schemas(
    record: Any,
    original_schema: Any,
    check_field_names: bool = True,
    check_field_types: bool = True,
    check_field_metas: bool = False,
) -> bool:
    """Whether a record is as another one; lists of numbers may have evicted values beside them."""
    for form, wide in ((IdList, IdListWithEvicted), (IdScoreList, IdScoreListWithEvicted)):
        if original_schema == form:
            checks = (check_field_names, check_field_types, check_field_metas)
            return any(schema.equal_schemas(record, one, *checks) for one in (form, wide))
    return schema.equal_schemas(record, original_schema)


def get_key(record: Any) -> Any:
    """Return the column of the numbers in a list of them, or of the keys in a map."""
    if almost_equal_schemas(record, IdList):
        found = record.items
    elif almost_equal_schemas(record, IdScoreList, check_field_types=False):
        found = record.keys
    else:
        raise NotImplementedError(f"Not implemented for {record}")
    assert found.metadata is not None, f"Blob {found()} doesn't have metadata"
    return found


def get_categorical_limit(record: Any) -> int:
    """Return below which limit the numbers in a list of them are, or the keys in a map."""
    return get_key(record).metadata.categorical_limit


def get_avg_length(record: Any) -> Any:
    """Return how long a list is to be expected."""
    return record["lengths"].metadata.expected_value


def set_request_only(field: Any) -> None:
    """Say of all columns that they are the same for all of a request."""
    for one in field.all_scalars():
        known = one.metadata or schema.Metadata()
        features = known.feature_specs or schema.FeatureSpec()
        one.set_metadata(known._replace(feature_specs=features._replace(feature_is_request_only=True)))


def is_request_only_scalar(scalar: Any) -> bool:
    """Whether all columns are known to be the same for all of a request."""
    known = scalar.field_metadata()
    return bool(known) and all(
        bool(one and one.feature_specs and one.feature_specs.feature_is_request_only) for one in known
    )


_LAYER_REGISTRY: dict[str, Any] = {}


def register_layer(name: str, layer: Any) -> None:
    """Let models add a layer under a name."""
    assert name not in _LAYER_REGISTRY, f"{name} already exists"
    _LAYER_REGISTRY[name] = layer


def layer_exists(name: str) -> bool:
    """Whether a layer is registered."""
    return name in _LAYER_REGISTRY


def get_layer_class(name: str) -> Any:
    """Return the class of a layer."""
    return _LAYER_REGISTRY[name]


def create_layer(layer_name: str, *args: Any, **kwargs: Any) -> Any:
    """Return a layer of a registered class."""
    return _LAYER_REGISTRY[layer_name](*args, **kwargs)


class LayerParameter:
    """A parameter of a layer: its blob, what fills it, what updates it."""

    def __init__(
        self,
        parameter: Any = None,
        optimizer: Any = None,
        initializer: Any = None,
        ps_param: Any = None,
        regularizer: Any = None,
    ) -> None:
        """Describe a parameter; the initializer is an operator, and says the shape."""
        assert isinstance(parameter, core.BlobReference), f"expect {parameter} to be a blob reference"
        self._shape: Any = None
        self.parameter = parameter
        self.optimizer = optimizer
        self.initializer = initializer
        self.ps_param = ps_param
        self.regularizer = regularizer

    @property
    def initializer(self) -> Any:
        """The operator that fills it."""
        return self._initializer

    @initializer.setter
    def initializer(self, op: Any) -> None:
        self._initializer = op
        if op is not None:
            assert core.IsOperator(op.type) and len(op.output) > 0, f"{op.type} does not fill {self.parameter}"
            shapes = [list(arg.ints) for arg in op.arg if arg.name == "shape"]
            self.shape = shapes[0] if shapes else []

    @property
    def shape(self) -> Any:
        """The shape, None as long as nobody said it."""
        return self._shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        assert self._shape is None or self._shape == shape, (
            f"inconsistent shape for layer parameter: {self}, expect: {self._shape}, but got {shape}"
        )
        self._shape = shape

    def __str__(self) -> str:
        return str(self.parameter)


class ModelLayer:
    """Base of all layers; one's own makes its parameters and its output, and defines `add_ops`."""

    def __init__(
        self,
        model: Any,
        prefix: str,
        input_record: Any,
        predict_input_record_fields: Any = None,
        tags: Any = None,
        **kwargs: Any,
    ) -> None:
        """Begin a layer of a model.

        Args:
            model: a `LayerModelHelper`.
            prefix: the name, which is made unique.
            input_record: what comes in.
            predict_input_record_fields: of that, what there is when the model predicts; all by default.
            tags: beside those that are current.
            kwargs: kept as they are.
        """
        assert isinstance(input_record, schema.Field), f"what comes in is a record, not {type(input_record)}"
        self.name: str = model.next_layer_name(prefix)
        self.model = model
        self.kwargs = kwargs
        self._input_record: Any = input_record
        fields = predict_input_record_fields
        if fields:
            self._predict_input_record = self._input_record[fields if isinstance(fields, list) else [fields]]
        else:
            self._predict_input_record = None
        self.request_only = bool(input_record.all_scalars()) and is_request_only_scalar(input_record)
        self.precomputation_request_only = False
        self.precomputation_object_only = False
        self._output_schema: Any = None
        self._predict_output_schema: Any = None
        self.eval_output_schema: Any = None
        self.tags: set[str] = {*(tags or ()), *TagContext.current().tags}
        self.params: list[LayerParameter] = []
        self._export_output_for_metrics = False
        self._export_params_for_metrics = False

    def get_type(self) -> str:
        """Return the name of the class."""
        return type(self).__name__

    def _made(self, output_schema: Any) -> Any:
        assert output_schema is not None, "Schema is not initialized"
        return output_schema

    @property
    def predict_input_record(self) -> Any:
        """What comes in when the model predicts."""
        return self.input_record if self._predict_input_record is None else self._predict_input_record

    @property
    def input_record(self) -> Any:
        """What comes in."""
        return self._input_record

    @property
    def predict_output_schema(self) -> Any:
        """What goes out when the model predicts."""
        return self.output_schema if self._predict_output_schema is None else self._predict_output_schema

    @predict_output_schema.setter
    def predict_output_schema(self, output_schema: Any) -> None:
        assert self._predict_output_schema is None, "what goes out is said already"
        self._predict_output_schema = output_schema

    @property
    def output_schema(self) -> Any:
        """What goes out."""
        return self._made(self._output_schema)

    @output_schema.setter
    def output_schema(self, output_schema: Any) -> None:
        assert self._output_schema is None, "what goes out is said already"
        self._output_schema = output_schema

    def get_parameters(self) -> list[LayerParameter]:
        """Return the parameters."""
        return self.params

    def get_fp16_compatible_parameters(self) -> list[Any]:
        """Return the blobs of those that may be float16."""
        return []

    def get_memory_usage(self) -> int:
        """Return how many bytes the layer needs, as far as it says so."""
        return 0

    def get_accessed_features(self) -> dict[str, list[AccessedFeatures]]:
        """Return which features are read, by column."""
        return {}

    def add_init_params(self, init_net: Any) -> None:
        """Add to a net what fills the parameters, each once."""
        for param in self.params:
            filled = any(str(param) in op.output for op in init_net.Proto().op)
            if param.initializer is not None and not filled:
                init_net.Proto().op.extend([param.initializer])

    def create_param(
        self,
        param_name: str,
        shape: Any,
        initializer: Any,
        optimizer: Any,
        ps_param: Any = None,
        regularizer: Any = None,
    ) -> Any:
        """Return the blob of a new parameter; the initializer is an operator type and its arguments."""
        with scope.NameScope(self.name, reset=True):
            made = self.model.create_param(
                param_name=param_name,
                shape=shape,
                initializer=initializer,
                optimizer=optimizer,
                ps_param=ps_param,
                regularizer=regularizer,
            )
        self.params.append(made)
        return made.parameter

    def get_next_blob_reference(self, name: str) -> Any:
        """Return a new blob, called after the layer."""
        with scope.NameScope(self.name, reset=True):
            return self.model.net.NextScopedBlob(name)

    def add_operators(self, net: Any, init_net: Any = None, context: str = InstantiationContext.TRAINING) -> None:
        """Add to a net what the layer does in a context, and to another what fills its parameters."""
        adds = {
            InstantiationContext.PREDICTION: self.add_ops,
            InstantiationContext.EVAL: self.add_eval_ops,
            InstantiationContext.ACCUMULATE_PRED: self.add_ops_to_accumulate_pred,
        }
        with scope.NameScope(self.name):
            if context not in adds:
                assert init_net is not None, "Only prediction and eval context don't need init_net"
                self.add_init_params(init_net)
            adds.get(context, self.add_train_ops)(net)
            if self._export_params_for_metrics and context in {
                InstantiationContext.TRAINING,
                InstantiationContext.EVAL,
            }:
                self.add_param_copy_operators(net)

    def add_ops(self, net: Any) -> None:
        """Add what the layer does when the model predicts, and elsewhere unless another method says so."""
        del net
        raise NotImplementedError

    def add_eval_ops(self, net: Any) -> None:
        """Add what the layer does when the model is tested."""
        self.add_ops(net)

    def add_train_ops(self, net: Any) -> None:
        """Add what the layer does when the model trains."""
        self.add_eval_ops(net)

    def add_ops_to_accumulate_pred(self, net: Any) -> None:
        """Add what the layer does when predictions are collected."""
        self.add_ops(net)

    def add_param_copy_operators(self, net: Any) -> None:
        """Add copies of the parameters, for metrics."""
        for param in self.params:
            net.Copy(param.parameter, self.model.metrics_schema[str(param)].field_blobs())

    def export_output_for_metrics(self) -> None:
        """Show what goes out among the metrics."""
        self._export_output_for_metrics = True
        self.model.add_metric_field(f"{self.name}/output", self.output_schema)

    def export_params_for_metrics(self) -> None:
        """Show copies of the parameters among the metrics."""
        self._export_params_for_metrics = True
        for param in self.params:
            own = str(param).rsplit("/", 1)[-1]
            copied = self.get_next_blob_reference(f"{own}_copy")
            self.model.add_metric_field(str(param), schema.Scalar(blob=copied))
