"""Models of layers over records: `model.FC(record, 10)` adds a layer, and gives the record that goes out.

What is registered as a layer is an attribute of the model; so is every operator, as a layer of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from caffe2.python import core, model_helper, schema, utils
from caffe2.python.layers import layers
from caffe2.python.modeling.net_modifier import NetModifier
from caffe2.python.modeling.parameter_sharing import parameter_sharing_context
from caffe2.python.optimizer import Optimizer, get_param_device
from caffe2.python.schema import Struct

logger = logging.getLogger(__name__)

FILLS = {
    "f": "GivenTensorFill",
    "i4": "GivenTensorIntFill",
    "i": "GivenTensorInt64Fill",
    "b": "GivenTensorBoolFill",
    "S": "GivenTensorStringFill",
    "U": "GivenTensorStringFill",
}


class LayerModelHelper(model_helper.ModelHelper):
    """A model that is made of layers; its nets come from `layer_model_instantiator`."""

    def __init__(
        self,
        name: str,
        input_feature_schema: Any,
        trainer_extra_schema: Any,
        keep_blobs: bool = False,
        use_attribution: bool = True,
    ) -> None:
        """Begin a model of records that come in, and of those beside them when it trains."""
        super().__init__(name=name)
        self._layer_names: set[str] = set()
        self._layers: list[Any] = []
        self._param_to_shape: dict[str, Any] = {}
        self._seed: int | None = None
        self._sequence_seed = True
        self.param_to_optim: dict[str, Any] = {}
        self.param_to_reg: dict[Any, Any] = {}
        self._default_optimizer: Any = None
        self._loss: Any = None
        self._prediction: list[tuple[Any, float]] = []
        self._output_schema: Any = None
        self._preproc_output_schema: Any = None
        self._post_grad_net_modifiers: list[NetModifier] = []
        self._final_net_modifiers: list[NetModifier] = []
        self._breakdown_map: Any = None
        self._transfer_learning_blob_name_mappings: Any = None
        self._metrics_schema: Any = Struct()
        self.ad_hoc_diagnose_blobs_and_operations: list[Any] = []
        self.ad_hoc_plot_blobs: list[Any] = []
        self.use_attribution = use_attribution
        self._initialize_params = True

        def own(record: Any) -> Any:
            return record.clone() if keep_blobs else schema.NewRecord(self.net, record)

        self._input_feature_schema = own(input_feature_schema)
        self._trainer_extra_schema = own(trainer_extra_schema)
        self.global_constants: dict[str, Any] = {}
        self.global_constant_initializers: dict[Any, Any] = {}
        constants = {"ONE": 1.0, "NAN": float("nan"), "ZERO": 0.0}
        for constant, value in constants.items():
            self.add_global_constant(constant, value)
        self.add_global_constant("ZERO_RANGE", [0, 0], dtype="int32")
        self.param_init_net = self.create_init_net("param_init_net")

    # -- records -------------------------------------------------------------------------------------------------------

    @property
    def input_feature_schema(self) -> Any:
        """What comes in."""
        return self._input_feature_schema

    @property
    def trainer_extra_schema(self) -> Any:
        """What comes in beside, when the model trains."""
        return self._trainer_extra_schema

    def add_trainer_extra_schema(self, trainer_extra_schema: Any) -> None:
        """Add columns to what comes in beside."""
        self._trainer_extra_schema = self._trainer_extra_schema + schema.NewRecord(self.net, trainer_extra_schema)

    @property
    def metrics_schema(self) -> Any:
        """What is measured."""
        return self._metrics_schema

    def add_metric_field(self, name: str, value: Any) -> None:
        """Add to what is measured."""
        assert name not in self._metrics_schema.fields, f"Try to add metric field twice: {name}"
        self._metrics_schema = self._metrics_schema + Struct((name, value))

    def filter_metrics_schema(self, white_set: Iterable[str]) -> None:
        """Measure only these."""
        kept = set(white_set)
        for name in self._metrics_schema.field_names():
            if name not in kept:
                self._metrics_schema = self._metrics_schema - Struct((name, self._metrics_schema[name]))

    def add_ad_hoc_plot_blob(self, blob: Any, dtype: Any = None) -> None:
        """Measure a blob, a float64 for each row unless the type is given."""
        self.add_metric_field(str(blob), schema.Scalar((np.float64, (1,)) if dtype is None else dtype, blob))
        self.ad_hoc_plot_blobs.append(blob)

    @property
    def output_schema(self) -> Any:
        """What goes out."""
        assert self._output_schema is not None, "the model has no output_schema yet"
        return self._output_schema

    @output_schema.setter
    def output_schema(self, schema: Any) -> None:
        assert self._output_schema is None, "the model has an output_schema already"
        self._output_schema = schema

    def clear_output_schema(self) -> None:
        """Forget what goes out."""
        self._output_schema = None

    def add_output_schema(self, name: str, value: Any) -> None:
        """Add to what goes out."""
        before = Struct() if self._output_schema is None else self._output_schema
        assert name not in before.fields, f"Output Schema Field {name} already exists"
        self._output_schema = before + Struct((name, value))

    @property
    def preproc_output_schema(self) -> Any:
        """What goes out of what is done before the model."""
        assert self._preproc_output_schema is not None, "the model has no preproc_output_schema yet"
        return self._preproc_output_schema

    @preproc_output_schema.setter
    def preproc_output_schema(self, schema: Any) -> None:
        assert self._preproc_output_schema is None, "the model has a preproc_output_schema already"
        self._preproc_output_schema = schema

    @property
    def prediction(self) -> list[tuple[Any, float]]:
        """What is predicted, with weights."""
        assert self._prediction, "model prediction is empty"
        return self._prediction

    def add_prediction(self, prediction: Any, weight: float = 1.0) -> None:
        """Add to what is predicted."""
        assert prediction is not None, "Added prediction should not be None"
        self._prediction.append((prediction, weight))

    @property
    def loss(self) -> Any:
        """What training makes small."""
        assert self._loss is not None, "the model has no loss yet"
        return self._loss

    @loss.setter
    def loss(self, loss: Any) -> None:
        assert self._loss is None, "the model has a loss already"
        self._loss = loss

    def has_loss(self) -> bool:
        """Whether there is a loss."""
        return self._loss is not None

    def add_loss(self, loss: Any, name: str = "unnamed") -> None:
        """Add to what training makes small."""
        assert isinstance(loss, (schema.Scalar, Struct)), "Added loss should be a scalar or a struct"
        if self._loss is None:
            self._loss = Struct((name, loss))
            return
        if isinstance(self._loss, schema.Scalar):
            self._loss = Struct(("unnamed", self._loss))
        free, number = name, 0
        while free in self._loss:
            free, number = f"{name}_auto_{number}", number + 1
        self._loss = self._loss + Struct((free, loss))

    @property
    def breakdown_map(self) -> Any:
        """Names of parts of what is measured, with their numbers."""
        return self._breakdown_map

    @breakdown_map.setter
    def breakdown_map(self, breakdown_map: Mapping[str, int]) -> None:
        assert sorted(breakdown_map.values()) == list(range(len(breakdown_map))), f"numbers from 0: {breakdown_map}"
        self._breakdown_map = breakdown_map

    @property
    def transfer_learning_blob_name_mappings(self) -> Any:
        """Which blobs of another model become those of this one."""
        return self._transfer_learning_blob_name_mappings

    @transfer_learning_blob_name_mappings.setter
    def transfer_learning_blob_name_mappings(self, blob_name_mappings: Any) -> None:
        assert blob_name_mappings is not None, "a map of names"
        self._transfer_learning_blob_name_mappings = blob_name_mappings

    # -- constants and parameters --------------------------------------------------------------------------------------

    def _constant(self, blob: Any, array: Any = None, dtype: Any = None, initializer: Any = None) -> Any:
        if initializer is not None:
            return initializer(blob)
        assert array is not None, "add_global_constant wants an array, or what makes its operator"
        given: Any = np.array(array, dtype=dtype)
        kind = FILLS.get(given.dtype.str[1:], FILLS.get(given.dtype.kind))
        assert kind is not None, f"no operator fills {given.dtype}"
        return core.CreateOperator(kind, [], blob, shape=given.shape, values=given.flatten().tolist())

    def add_global_constant(self, name: str, array: Any = None, dtype: Any = None, initializer: Any = None) -> Any:
        """Return the blob of a new constant, which all nets of parameters fill."""
        assert isinstance(name, str), f"name should be a string as we are using it as map key, not {name!r}"
        assert name not in self.global_constants, f"{name} already added in global_constants"
        blob = self.net.NextBlob(name)
        self.global_constants[name] = blob
        self.global_constant_initializers[blob] = self._constant(blob, array, dtype, initializer)
        return blob

    def maybe_add_global_constant(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Return the blob of a constant, which may be there already, with the same value."""
        if name not in self.global_constants:
            return self.add_global_constant(name, *args, **kwargs)
        blob = self.global_constants[name]
        now, before = self._constant(blob, *args, **kwargs), self.global_constant_initializers[blob]
        assert utils.OpAlmostEqual(now, before, "debug_info"), (
            f"conflict initializers for global constant {name}, previous {before}, now {now}"
        )
        return blob

    def create_init_net(self, name: str) -> Any:
        """Return a net that fills the constants."""
        net = core.Net(name)
        net.Proto().op.extend(self.global_constant_initializers.values())
        return net

    def set_initialize_params(self, initialize_params: bool) -> None:
        """Say whether layers that are added from now on fill their parameters."""
        self._initialize_params = initialize_params

    def create_param(  # pyright: ignore[reportIncompatibleMethodOverride] -- these names are the old ones
        self,
        param_name: Any,
        shape: Any,
        initializer: Any,
        optimizer: Any = None,
        ps_param: Any = None,
        regularizer: Any = None,
    ) -> layers.LayerParameter:
        """Return a parameter; one that is shared has the shape and the optimizer that it got first.

        What is no tensor has no shape (None). The initializer is a type of operator, and its arguments if it has some.
        """
        if isinstance(param_name, core.BlobReference):
            name = str(param_name)
        else:
            assert isinstance(param_name, str), f"Unsupported type for param_name: {type(param_name)}"
            name = parameter_sharing_context.get_parameter_name(param_name)
        blob = core.BlobReference(name)
        kind, *rest = initializer
        assert len(rest) < 2, f"a type of operator and its arguments, not {initializer}"
        wanted = None if shape is None else list(shape)
        arguments: dict[str, Any] = {**(rest[0] if rest else {}), **({} if wanted is None else {"shape": wanted})}
        op = core.CreateOperator(kind, [], blob, **arguments) if self._initialize_params else None
        known = self._param_to_shape.setdefault(name, wanted)
        if known != wanted:
            raise ValueError(
                f"Got inconsistent shapes of a shared parameter: {name} is {known}, and {wanted} is wanted"
            )
        self._check_optimizer(name, optimizer)
        return layers.LayerParameter(
            parameter=blob, optimizer=optimizer, initializer=op, ps_param=ps_param, regularizer=regularizer
        )

    def _check_optimizer(self, name: str, optimizer: Any) -> None:
        if name not in self.param_to_optim:
            return
        wanted, known = self._default_optimizer if optimizer is None else optimizer, self.param_to_optim[name]
        same = isinstance(wanted, Optimizer) and type(wanted) is type(known) and wanted.__dict__ == known.__dict__
        assert wanted == known or same, f"shared parameters have one optimizer: {name} has {known}, not {wanted}"

    def get_parameter_blobs(self) -> list[Any]:
        """Return the blobs of the parameters of all layers, each once."""
        found = {str(param): param.parameter for layer in self._layers for param in layer.get_parameters()}
        return list(found.values())

    # -- layers --------------------------------------------------------------------------------------------------------

    def next_layer_name(self, prefix: str) -> str:
        """Return a name that no layer has, in the present scope."""
        base = core.ScopedName(prefix)
        name, number = base, 0
        while name in self._layer_names:
            name, number = f"{base}_auto_{number}", number + 1
        self._layer_names.add(name)
        return name

    def add_layer(self, layer: Any) -> Any:
        """Add a layer; returns what goes out of it."""
        self._layers.append(layer)
        for param in layer.get_parameters():
            optimizer = self._default_optimizer if param.optimizer is None else param.optimizer
            self.param_to_optim[str(param)] = optimizer
            self.params.append(param.parameter)
            self.param_to_reg[param.parameter] = param.regularizer
        layer.add_operators(self.net, self.param_init_net)
        if layer.request_only and layer.output_schema is not None:
            layers.set_request_only(layer.output_schema)
        return layer.output_schema

    @property
    def layers(self) -> list[Any]:
        """The layers, in order."""
        return self._layers

    def __getattr__(self, layer: str) -> Any:
        """Return what adds a layer of a type, or an operator as a layer."""
        if layer.startswith("_"):
            raise AttributeError(layer)
        if layers.layer_exists(layer):
            return self._adder(layer)
        if core.IsOperator(layer):
            return self._adder("Functional", name=layer, function=applied(layer))
        raise AttributeError(f"Trying to create non-registered layer: {layer}")

    def _adder(self, layer: str, **more: Any) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return self._added(layer, args, {**more, **kwargs})

        return wrapper

    def _added(self, layer: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = layers.create_layer(layer, self, *args, **kwargs)
        if kwargs.get("output_to_metrics", False):
            made.export_output_for_metrics()
        if kwargs.get("params_to_metrics", False):
            made.export_params_for_metrics()
        return self.add_layer(made)

    # -- training ------------------------------------------------------------------------------------------------------

    @property
    def seed(self) -> int | None:
        """The seed of the nets, None for one that differs each time."""
        return self._seed

    @property
    def sequence_seed(self) -> bool:
        """Whether operators get numbers of their own behind the seed."""
        return self._sequence_seed

    def store_seed(self, seed: int, sequence_seed: bool = True) -> None:
        """Keep a seed for `apply_seed`."""
        self._seed = seed
        self._sequence_seed = sequence_seed

    def apply_seed(self, net: Any) -> None:
        """Seed the operators of a net."""
        if self._seed is not None:
            net.set_rand_seed(self._seed, self._sequence_seed)

    @property
    def default_optimizer(self) -> Any:
        """What updates parameters that have no optimizer of their own."""
        return self._default_optimizer

    @default_optimizer.setter
    def default_optimizer(self, optimizer: Any) -> None:
        self._default_optimizer = optimizer

    def NoOptim(self, *args: Any, **kwargs: Any) -> None:
        """Update nothing."""

    def add_post_grad_net_modifiers(self, modifier: NetModifier) -> None:
        """Let something change the net behind its gradients."""
        self._post_grad_net_modifiers.append(_modifier(modifier, self._post_grad_net_modifiers))

    def add_final_net_modifiers(self, modifier: NetModifier) -> None:
        """Let something change the net behind its updates."""
        self._final_net_modifiers.append(_modifier(modifier, self._final_net_modifiers))

    def apply_post_grad_net_modifiers(
        self,
        trainer_net: Any,
        trainer_init_net: Any,
        grad_map: Any,
        blob_to_device: Any = None,
        modify_output_record: bool = False,
    ) -> None:
        """Let what was added change the net behind its gradients."""
        own = {name: grad_map[name] for name in self.param_to_optim if name in grad_map}
        for modifier in self._post_grad_net_modifiers:
            modifier(
                trainer_net,
                trainer_init_net,
                own,
                blob_to_device=blob_to_device,
                modify_output_record=modify_output_record,
            )

    def apply_final_net_modifiers(
        self,
        trainer_net: Any,
        trainer_init_net: Any,
        grad_map: Any,
        blob_to_device: Any = None,
        modify_output_record: bool = False,
    ) -> None:
        """Let what was added change the net behind its updates."""
        for modifier in self._final_net_modifiers:
            modifier(
                trainer_net,
                trainer_init_net,
                grad_map,
                blob_to_device=blob_to_device,
                modify_output_record=modify_output_record,
            )

    def _regularizers(self) -> list[tuple[Any, Any]]:
        return [(param, one) for param, one in self.param_to_reg.items() if one is not None]

    def apply_regularizers_on_loss(self, train_net: Any, train_init_net: Any, blob_to_device: Any = None) -> None:
        """Add to the loss what regularizers say of parameters."""
        del blob_to_device
        for param, regularizer in self._regularizers():
            added = regularizer(train_net, train_init_net, param, grad=None, by="on_loss")
            if added is not None:
                self.add_loss(schema.Scalar(blob=added), str(added))

    def apply_regularizers_after_optimizer(
        self, train_net: Any, train_init_net: Any, grad_map: Any, blob_to_device: Any = None
    ) -> None:
        """Let regularizers change parameters behind the updates."""
        del blob_to_device
        for param, regularizer in self._regularizers():
            regularizer(train_net, train_init_net, param, grad_map.get(str(param)), by="after_optimizer")

    def apply_optimizers(self, train_net: Any, train_init_net: Any, grad_map: Any, blob_to_device: Any = None) -> None:
        """Add the updates of all parameters, where these lie."""
        default = core.DeviceOption(0)
        for name, optimizer in self.param_to_optim.items():
            assert optimizer is not None, f"{name} has no optimizer: set default_optimizer before layers are added"
            gradient = grad_map.get(name)
            device = get_param_device(name, gradient, param_to_device=blob_to_device, default_device=default)
            with core.DeviceScope(device):
                optimizer(train_net, train_init_net, core.BlobReference(name), gradient)


def applied(operator: str) -> Callable[..., None]:
    """Return what adds an operator from one record to another."""

    def apply_operator(net: Any, in_record: Any, out_record: Any, **kwargs: Any) -> None:
        getattr(net, operator)(in_record.field_blobs(), out_record.field_blobs(), **kwargs)

    return apply_operator


def _modifier(modifier: Any, known: list[NetModifier]) -> NetModifier:
    assert modifier not in known, f"{modifier} is already in the list"
    assert isinstance(modifier, NetModifier), f"{modifier} has to be a NetModifier instance"
    return modifier
