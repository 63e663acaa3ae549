"""`ModelHelper`: a net, the net that makes its parameters, and what is known of these."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from caffe2.python import core, scope, workspace
from caffe2.python._predictor_net import ExtractPredictorNet
from caffe2.python.helpers.db_input import db_input
from caffe2.python.modeling import parameter_info
from caffe2.python.modeling.parameter_sharing import parameter_sharing_context
from caffe2.python.optimizer_context import DEFAULT_OPTIM, OptimizerContext
from caffe2.python.regularizer_context import RegularizerContext
from tazza.proto import NetDef

__all__ = ["DEFAULT_OPTIM", "ExtractPredictorNet", "ModelHelper"]

_known_working_ops = """
    Accuracy Adam Add Adagrad SparseAdagrad Adadelta SparseAdadelta AveragedLoss Cast Checkpoint ConstantFill Copy
    CopyGPUToCPU CopyCPUToGPU DequeueBlobs EnsureCPUOutput ExpandDims Flatten FlattenToVec LabelCrossEntropy
    LearningRate MakeTwoClass MatMul NCCLAllreduce NHWC2NCHW PackSegments Print PRelu ReduceFrontSum Scale
    ScatterWeightedSum Sigmoid SortedSegmentSum Snapshot Softmax SoftmaxWithLoss SquaredL2Distance Squeeze StopGradient
    Summarize Tanh Transpose UnpackSegments WeightedSum YellowFin
""".split()
"""Types that a model adds without a warning: what Caffe2 took for safe to call without a helper."""

COMPUTED = parameter_info.ParameterTags.COMPUTED_PARAM
ORIGIN = "/param_init_net"
"""What `debug_info` of operators ends with that make parameters, in a net of both."""


def _normalize_tags(tags: Any) -> set[str]:
    return set(tags) if isinstance(tags, list) else {tags} if tags else set()  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] -- of anything


class ModelHelper:
    """A net under construction, and its parameters."""

    def __init__(
        self,
        name: str | None = None,
        init_params: bool = True,
        allow_not_known_ops: bool = True,
        skip_sparse_optim: bool = False,
        param_model: ModelHelper | None = None,
        arg_scope: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin a model.

        Args:
            name: of the net; the one that makes parameters is `<name>_init`.
            init_params: add to the latter; else parameters come from outside.
            allow_not_known_ops: lend all operators as attributes, not only those that Caffe2 listed.
            skip_sparse_optim: give optimizers no parameters with gradients of rows.
            param_model: take the parameters and their net from another model.
            arg_scope: what helpers get by default.
        """
        self.name = name or "model"
        self.net = core.Net(self.name)
        if param_model is None:
            self.param_init_net = core.Net(self.name + "_init")
            self.param_to_grad: dict[Any, Any] = {}
            self.params: list[Any] = []
            self._parameters_info: dict[Any, Any] = {}
            self._computed_params: list[Any] = []
        else:
            self.param_init_net = param_model.param_init_net
            self.param_to_grad = param_model.param_to_grad
            self.params = param_model.params
            self._parameters_info = param_model._parameters_info
            self._computed_params = param_model._computed_params
        self._param_info_deprecated: list[Any] = []
        self._devices: list[Any] = []
        self.gradient_ops_added = False
        self.init_params = init_params
        self.allow_not_known_ops = allow_not_known_ops
        self.skip_sparse_optim = skip_sparse_optim
        self.weights: list[Any] = []
        self.biases: list[Any] = []
        self._arg_scope: dict[str, Any] = {"order": "NCHW", "use_cudnn": True, "cudnn_exhaustive_search": False}
        if arg_scope is not None:
            self._arg_scope.update(arg_scope)

    @property
    def arg_scope(self) -> dict[str, Any]:
        """What helpers get by default."""
        return self._arg_scope

    def get_name(self) -> str:
        """Return the name that it was given."""
        return self.name

    # -- parameters ----------------------------------------------------------------------------------------------------

    def _infer_param_shape(self, param: Any) -> list[int] | None:
        for op in self.param_init_net.Proto().op:
            if str(param) in op.output:
                return next((list(each.ints) for each in op.arg if each.name == "shape"), None)
        return None

    def _update_param_info_deprecated(self) -> None:
        assert len(self._param_info_deprecated) <= len(self.params)
        for param in self.params[len(self._param_info_deprecated) :]:
            if not isinstance(param, core.BlobReference):
                raise ValueError(f"Param {param} must be a BlobReference!")
            self._param_info_deprecated.append(
                parameter_info.ParameterInfo(
                    param_id=len(self._param_info_deprecated), param=param, shape=self._infer_param_shape(param)
                )
            )
        for info in self._param_info_deprecated:
            info.grad = self.param_to_grad.get(info.name)

    def create_param(self, param_name: Any, shape: Any, initializer: Any, tags: Any = None) -> Any:
        """Return a parameter, made by an initializer, or the one of that name, which needs the same shape.

        Args:
            param_name: a text gets the current scope in front, or the one whose parameters are shared with it.
            shape: its extents.
            initializer: an object of `modeling.initializers`.
            tags: one of `ParameterTags`, or a list of them.
        """
        if isinstance(param_name, core.BlobReference):
            name = str(param_name)
        elif isinstance(param_name, str):
            name = parameter_sharing_context.get_parameter_name(param_name)
        else:
            raise TypeError("Unsupported type for param_name")
        if name in self._parameters_info:
            known = self._parameters_info[name]
            assert known.shape == shape, f"parameter {name} has the shape {known.shape}, it is asked for with {shape}"
            return known.blob
        info = initializer.create_param(param_name=core.BlobReference(name), init_net=self.param_init_net, shape=shape)
        self._give_context(info, _normalize_tags(tags))
        self._parameters_info[name] = info
        self.AddParameter(info.blob, tags)
        return info.blob

    def _give_context(self, info: Any, tags: Iterable[str]) -> None:
        """Give a parameter the optimizer and the regularizer that are in force for what it is for."""
        optimizers: Any = OptimizerContext.current()
        for tag in tags:
            if optimizers.has_optimizer(tag):
                info.optimizer = optimizers.get_optimizer(tag)
        if not info.optimizer and optimizers.has_optimizer(DEFAULT_OPTIM):
            info.optimizer = optimizers.get_optimizer(DEFAULT_OPTIM)
        regularizers: Any = RegularizerContext.current()
        info.regularizer = None
        for tag in tags:
            if regularizers.has_regularizer(tag):
                info.regularizer = regularizers.get_regularizer(tag)

    def get_param_info(self, param: Any) -> Any:
        """Return what is known of a parameter, None if nothing is."""
        assert isinstance(param, core.BlobReference), f"Param {param} is not a BlobReference"
        return self._parameters_info.get(param)

    def add_param_DEPRECATED(self, param: Any, key: Any = None, shape: Any = None, length: int | None = None) -> None:
        """Add a parameter that something else makes."""
        self._update_param_info_deprecated()
        self.AddParameter(param)
        if key is not None and self.net.input_record() is not None:
            key = self.net.input_record().field_blobs()[key]
        self._param_info_deprecated.append(
            parameter_info.ParameterInfo(
                param_id=len(self._param_info_deprecated),
                param=param,
                shape=shape if shape is not None else self._infer_param_shape(param),
                key=key,
                length=length,
            )
        )

    def AddParameter(self, param: Any, tags: Any = None) -> None:
        """Add a parameter, for what `tags` say."""
        assert isinstance(param, core.BlobReference), f"{param!r} is not a BlobReference"
        given = _normalize_tags(tags)
        (self._computed_params if COMPUTED in given else self.params).append(param)
        if parameter_info.ParameterTags.WEIGHT in given:
            self.weights.append(param)
        if parameter_info.ParameterTags.BIAS in given:
            self.biases.append(param)

    @staticmethod
    def _NormalizeNamescope(namescope: str | None) -> str:
        if namescope is None:
            return scope.CurrentNameScope()
        separator = scope._NAMESCOPE_SEPARATOR  # pyright: ignore[reportPrivateUsage]
        return namescope if namescope == "" or namescope.endswith(separator) else namescope + separator

    def GetParams(self, namescope: str | None = None, top_scope: bool = False) -> list[Any]:
        """Return the parameters of a scope and of those in it, the current one by default."""
        del top_scope
        wanted = self._NormalizeNamescope(namescope)
        return [param for param in self.params if param.GetNameScope().startswith(wanted)]

    def GetComputedParams(self, namescope: str | None = None) -> list[Any]:
        """Return the parameters of a scope that are not learned from gradients."""
        wanted = self._NormalizeNamescope(namescope)
        return [param for param in self._computed_params if param.GetNameScope().startswith(wanted)]

    def GetAllParams(self, namescope: str | None = None) -> list[Any]:
        """Return all parameters of a scope."""
        return self.GetParams(namescope) + self.GetComputedParams(namescope)

    # -- nets ----------------------------------------------------------------------------------------------------------

    def Proto(self) -> NetDef:
        """Return the net."""
        return self.net.Proto()

    def InitProto(self) -> NetDef:
        """Return the net that makes the parameters."""
        return self.param_init_net.Proto()

    def RunAllOnGPU(self, *args: Any, **kwargs: Any) -> None:
        """Let both nets run on a GPU."""
        self.param_init_net.RunAllOnGPU(*args, **kwargs)
        self.net.RunAllOnGPU(*args, **kwargs)

    def CreateDB(self, blob_out: Any, db: str, db_type: str, **kwargs: Any) -> Any:
        """Open a database, in the net that makes the parameters."""
        return self.param_init_net.CreateDB([], blob_out, db=db, db_type=db_type, **kwargs)

    def TensorProtosDBInput(
        self, unused_blob_in: Any, blob_out: Any, batch_size: int, db: str, db_type: str, **kwargs: Any
    ) -> Any:
        """Read batches from a database."""
        assert len(unused_blob_in) == 0, "You cannot pass reader to model_helper.TensorProtosDBInput. Use model.net."
        return db_input(self, blob_out, batch_size, db, db_type, **kwargs)

    def AddGradientOperators(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        """Append the gradient operators, once, and note the gradient of each parameter."""
        if self.gradient_ops_added:
            raise RuntimeError("You cannot run AddGradientOperators twice.")
        self.Validate()
        self.gradient_ops_added = True
        self.grad_map = self.net.AddGradientOperators(*args, **kwargs)
        self.param_to_grad = self.get_param_to_grad(self.params)
        for param, grad in self.param_to_grad.items():
            info = self._parameters_info.get(param)
            if info is None:
                self._parameters_info[param] = parameter_info.ParameterInfo(param_id=None, param=param, grad=grad)
            else:
                info.grad = grad
        return self.grad_map

    def get_param_to_grad(self, params: Iterable[Any]) -> dict[Any, Any]:
        """Return the gradient of each of some parameters that has one."""
        if not self.gradient_ops_added:
            raise RuntimeError("You need to run AddGradientOperators first.")
        return {param: self.grad_map[str(param)] for param in params if str(param) in self.grad_map}

    def GetOptimizationParamInfo(self, params: Iterable[Any] | None = None) -> list[Any]:
        """Return what is known of the parameters that an optimizer updates: those with gradients."""
        if not self.gradient_ops_added:
            raise RuntimeError("Need to call AddGradientOperators first")
        grads = self.param_to_grad if params is None else self.get_param_to_grad(params)
        return [
            self.get_param_info(param)
            for param, grad in grads.items()
            if not self.skip_sparse_optim or not isinstance(grad, core.GradientSlice)
        ]

    def Validate(self) -> None:
        """Check that no parameter is there twice."""
        names = [str(param) for param in self.params]
        duplicates = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        assert duplicates == [], f"Duplicate params: {duplicates}"

    def GetDevices(self) -> list[Any]:
        """Return the devices of a model that runs on several."""
        assert len(self._devices) > 0, "Use data_parallel_model to run model on multiple GPUs."
        return self._devices

    def GetCompleteNet(self) -> Any:
        """Return one net: the operators that make the parameters, then those of the net."""
        made = core.Net(self.name + "_complete_net")
        proto = made.Proto()
        for op in self.param_init_net.Proto().op:
            proto.op.add().CopyFrom(op)
            proto.op[-1].debug_info += ORIGIN
        proto.op.extend(self.net.Proto().op)
        parameters = {name for op in self.param_init_net.Proto().op for name in op.output}
        both = [*self.param_init_net.Proto().external_input, *self.net.Proto().external_input]
        proto.external_input.extend(dict.fromkeys(name for name in both if name not in parameters))
        proto.external_output.extend(self.net.Proto().external_output)
        proto.type = self.net.Proto().type
        proto.num_workers = self.param_init_net.Proto().num_workers  # not those of the net: as it was
        return made

    def ConstructInitTrainNetfromNet(self, net: Any) -> None:
        """Take the operators of a complete net into new nets: those that make parameters, and the others."""
        self.param_init_net = core.Net(net.Name() + "/generated_param_init_net")
        self.net = core.Net(net.Name() + "/generated_net")
        for first, made in ((True, self.param_init_net), (False, self.net)):
            proto = made.Proto()
            proto.type, proto.num_workers = net.Proto().type, net.Proto().num_workers
            proto.op.extend(op for op in net.Proto().op if op.debug_info.endswith(ORIGIN) is first)
            _declare(proto)

    # -- operators -----------------------------------------------------------------------------------------------------

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        """Return what adds an operator of a type to the net."""
        if op_type.startswith("__"):
            raise AttributeError(op_type)
        if not core.IsOperator(op_type):
            raise AttributeError(f"Method {op_type} is not a registered operator. Did you mean: [{_near(op_type)}]")
        if op_type not in _known_working_ops:
            if not self.allow_not_known_ops:
                raise AttributeError(f"Operator {op_type} is not known to be safe")
            logging.warning("You are creating an op that the ModelHelper does not recognize: %s.", op_type)
        return getattr(self.net, op_type)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_known_working_ops})


def _near(op_type: str) -> str:
    return ",".join(workspace.C.nearby_opnames(op_type))


def _declare(proto: NetDef) -> None:
    """Add to the declared inputs and outputs of a net what it reads from outside, and what nobody reads of its own."""
    made: set[str] = set()
    read: Sequence[str] = []
    for op in proto.op:
        read = [*read, *(name for name in op.input if name not in made)]
        made.update(op.output)
    used = {name for op in proto.op for name in op.input}
    left = [name for op in proto.op for name in op.output if name not in used]
    proto.external_input[:] = dict.fromkeys([*proto.external_input, *read])
    proto.external_output[:] = dict.fromkeys([*proto.external_output, *left])
