"""What all optimizers share: names of their blobs, learning rates and what scales them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from caffe2.proto import caffe2_pb2
from caffe2.python import core, scope, utils, workspace
from caffe2.python.modeling import parameter_info

_optimizer_instance_count: defaultdict[str, int] = defaultdict(int)
FP16_ENGINES = ["SIMD_Q_FP16", "SIMD_Q_STOC_FP16", "SIMD_Q_STOC_MKL_FP16"]
LARGEST = 3.4028234663852886e38
"""The largest float32, which bounds no learning rate."""


class AuxOptimizerParams(NamedTuple):
    """What an optimizer keeps: for each parameter, and for all of them."""

    local: list[Any]
    shared: list[Any]


def filled(init_net: Any, param: Any, end: str, **arguments: Any) -> Any:
    """Return a blob of the shape of a parameter that an optimizer keeps for it."""
    return init_net.ConstantFill([param], str(param) + end, **arguments)


def constant(init_net: Any, name: str, value: Any, shape: Any = (1,), **arguments: Any) -> Any:
    """Return a blob of one value."""
    return init_net.ConstantFill([], name, shape=list(shape), value=value, **arguments)


def one_of_device(init_net: Any, with_node: bool = True) -> Any:
    """Return a blob that holds 1.0 on the current device; it is filled anew for each parameter."""
    return constant(init_net, "ONE_" + device_name(with_node), 1.0)


def device_name(with_node: bool = True) -> str:
    """Return what names of blobs say of the current device."""
    device = scope.CurrentDeviceScope() or caffe2_pb2.DeviceOption()
    return f"{device.device_type}_{device.device_id}{device.node_name if with_node else ''}"


def shape_of(init_net: Any, param: Any) -> list[int] | None:
    """Return the shape that a net gives a parameter, None if nobody can tell."""
    shapes: Mapping[str, list[int]] = workspace.InferShapesAndTypes([init_net])[0]
    return shapes.get(str(param))


def for_each_row(init_net: Any, param: Any, end: str, value: Any, **arguments: Any) -> Any:
    """Return a blob of one element for each row of a parameter."""
    shape = shape_of(init_net, param)
    if shape is not None:
        return constant(init_net, str(param) + end, value, shape=shape[:1], **arguments)
    rows = init_net.Slice([init_net.Shape([param])], starts=[0], ends=[1])
    return init_net.ConstantFill([rows], str(param) + end, input_as_shape=1, value=value, **arguments)


def on_gpu() -> bool:
    """Whether operators made now are for a GPU."""
    device = scope.CurrentDeviceScope()
    return device is not None and core.IsGPUDeviceType(device.device_type)


class Optimizer:
    """Something that adds the update of a parameter to a net."""

    def __init__(self) -> None:
        """Count among those of this class."""
        self._aux_params = AuxOptimizerParams(local=[], shared=[])
        kind = type(self).__name__
        self._instance_num = _optimizer_instance_count[kind]
        _optimizer_instance_count[kind] += 1
        self._lr_multiplier: Any = None
        self._local_lr_multiplier: Any = None
        self._local_lr_multiplier_on_gpu = False

    def __call__(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> None:
        """Add the update of a parameter.

        Args:
            net: that trains.
            param_init_net: that makes parameters, and what is kept for them.
            param: a `ParameterInfo` that knows its gradient; or a blob, whose gradient is `grad`.
            grad: a blob, or a `GradientSlice`.
        """
        if grad is None:
            assert isinstance(param, parameter_info.ParameterInfo), (
                f"Expected parameter to be of type ParameterInfo, got {param}"
            )
            assert param.grad is not None, f"{param} has no gradient"
            info = param
        else:
            given = core.BlobReference(param) if isinstance(param, str) else param
            assert isinstance(given, core.BlobReference), f"Expected param to be a blob, got {given!r}"
            info = parameter_info.ParameterInfo(param_id=None, param=given, grad=grad)
        self._run(net, param_init_net, info)

    def _run(self, net: Any, param_init_net: Any, param_info: Any) -> None:
        raise Exception("Not Implemented")

    # -- names -------------------------------------------------------------------------------------------------------

    def get_cpu_blob_name(self, base_str: str, node_name: str = "") -> str:
        """Return the name of a blob of this optimizer on the CPU."""
        return f"{type(self).__name__}_{self._instance_num}_{base_str}{node_name}_cpu"

    def get_gpu_blob_name(self, base_str: str, gpu_id: int, node_name: str) -> str:
        """Return the name of a blob of this optimizer on a GPU."""
        return f"{type(self).__name__}_{self._instance_num}_{base_str}{node_name}_gpu{gpu_id}"

    def make_unique_blob_name(self, base_str: str) -> str:
        """Return the name of a blob of this optimizer on the current device."""
        device = scope.CurrentDeviceScope() or caffe2_pb2.DeviceOption()
        if core.IsGPUDeviceType(device.device_type):
            return self.get_gpu_blob_name(base_str, device.device_id, device.node_name)
        return self.get_cpu_blob_name(base_str, device.node_name)

    @property
    def attributes(self) -> dict[str, Any]:
        """All that it was made with, and its state; not its number."""
        return {key: value for key, value in vars(self).items() if key != "_instance_num"}

    # -- learning rates ------------------------------------------------------------------------------------------------

    def build_lr(
        self,
        net: Any,
        param_init_net: Any,
        base_learning_rate: float,
        learning_rate_blob: Any = None,
        policy: str = "fixed",
        iter_val: int = 0,
        **kwargs: Any,
    ) -> tuple[Any, Any]:
        """Return the learning rate, negative and scaled by what has been added, and the counter of iterations."""
        if learning_rate_blob is None:
            learning_rate_blob = self.make_unique_blob_name("lr")
        iteration = utils.BuildUniqueMutexIter(param_init_net, net, iter_val=iter_val)
        if net.BlobIsDefined(learning_rate_blob):
            rate = net.GetBlobRef(learning_rate_blob)
        else:
            rate = net.LearningRate(
                [iteration], learning_rate_blob, base_lr=-base_learning_rate, policy=policy, **kwargs
            )
        if self._lr_multiplier is not None:
            multiplier = net.CopyFromCPUInput(self._lr_multiplier, self.make_unique_blob_name("lr_multiplier"))
            rate = net.Mul([rate, multiplier], self.make_unique_blob_name("scaled_lr"), broadcast=1)
        if self._local_lr_multiplier is not None:
            local = self._local_lr_multiplier
            if on_gpu() and not self._local_lr_multiplier_on_gpu:
                local = net.CopyFromCPUInput(local, self.make_unique_blob_name("local_lr_multiplier"))
            rate = net.Mul([rate, local], self.make_unique_blob_name("local_scaled_lr"), broadcast=1)
        return rate, iteration

    def add_lr_multiplier(self, lr_multiplier: Any) -> None:
        """Scale all learning rates by a blob on the CPU, or by none."""
        self._lr_multiplier = lr_multiplier

    def _add_local_lr_multiplier(self, local_lr_multiplier: Any, is_gpu_blob: bool = False) -> None:
        """Scale the next learning rate by a blob."""
        self._local_lr_multiplier = local_lr_multiplier
        self._local_lr_multiplier_on_gpu = is_gpu_blob

    def _clear_local_lr_multiplier(self) -> None:
        self._local_lr_multiplier = None
        self._local_lr_multiplier_on_gpu = False

    def create_lars_inputs(
        self, param_init_net: Any, weight_decay: float, trust: float, lr_max: float
    ) -> tuple[Any, Any, Any]:
        """Return what the operator Lars takes beside a parameter and its gradient."""
        wd = constant(param_init_net, "weight_decay", weight_decay)
        return wd, constant(param_init_net, "trust", trust), constant(param_init_net, "lr_max", lr_max)

    def _scale_by_lars(self, net: Any, param_init_net: Any, param: Any, grad: Any, lars: float | None) -> None:
        """Scale the next learning rate by how large a parameter is beside its gradient; not for gradients of rows."""
        self._clear_local_lr_multiplier()
        if lars is None or isinstance(grad, core.GradientSlice):
            return
        inputs = [param, grad, *self.create_lars_inputs(param_init_net, 0.0, 1.0, LARGEST)]
        name = self.make_unique_blob_name(str(param) + "_lars")
        self._add_local_lr_multiplier(net.Lars(inputs, name, offset=lars, lr_min=0.0), is_gpu_blob=on_gpu())

    # -- the rest ------------------------------------------------------------------------------------------------------

    @staticmethod
    def dedup(net: Any, sparse_dedup_aggregator: str | None, grad: Any) -> Any:
        """Return a gradient of rows each of which occurs once, if an aggregator is named, or what was given."""
        assert isinstance(grad, core.GradientSlice), f"Dedup only works for sparse gradient, got {grad}"
        if sparse_dedup_aggregator:
            return net.DeduplicateGradientSlices(grad, aggregator=sparse_dedup_aggregator)
        return grad

    def get_auxiliary_parameters(self) -> AuxOptimizerParams:
        """Return what it keeps, for checkpoints."""
        return self._aux_params

    def scale_learning_rate(self, *args: Any, **kwargs: Any) -> None:
        """Scale the base of the learning rate, before updates are added."""
        raise NotImplementedError("Optimizer Need to Implement `scale_learning_rate` method.")

    def _keep(self, *blobs: Any) -> None:
        self._aux_params.local.extend(blobs)
