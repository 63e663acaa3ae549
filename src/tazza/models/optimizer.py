"""Parameter updates: what is appended to a net after its gradients.

    sgd(model, 0.1, momentum=0.9, policy="step", stepsize=100, gamma=0.5)

An optimizer is a function of the model under the decorator `optimizer`; `add_iteration`, `add_learning_rate` and `one`
are what all of them share. Names and operators are those of Caffe2, so that its checkpoints and scripts find them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from tazza.device import device_option, device_scope, scoped_device
from tazza.errors import ArgumentError, GradientError
from tazza.models.model import Model, ParameterKind
from tazza.models.net import BlobReference, scoped
from tazza.operator import RowSlices, find_schema
from tazza.proto import DeviceOption
from tazza.registry import Registry
from tazza.tensor import DataType
from tazza.tensor.place import CPU_KIND

OPTIMIZERS: Registry[str, Callable[..., Any]] = Registry("optimizer")
OPTIONS: Registry[str, frozenset[str]] = Registry("optimizer with options")
"""What each takes beside the learning rate and the arguments of its policy."""

Update: TypeAlias = "BlobReference | RowSlices[BlobReference]"
"""A gradient of a whole parameter, or of some of its rows."""

F = TypeVar("F", bound=Callable[..., Any])


def optimizer(*options: str) -> Callable[[F], F]:
    """Register a function that takes a model with gradients and a learning rate, and appends the updates.

    `options` are the keyword arguments of its own that somebody may set from outside.
    """

    def declare(function: F) -> F:
        doc = function.__doc__ if function.__doc__ is not None else ""
        OPTIMIZERS.register(function.__name__, function, help=doc.partition("\n")[0])
        OPTIONS.register(function.__name__, frozenset(options))
        return function

    return declare


@optimizer("momentum", "nesterov", "weight_decay")
def sgd(
    model: Model,
    base_learning_rate: float,
    *,
    momentum: float = 0.0,
    nesterov: bool = True,
    policy: str = "fixed",
    weight_decay: float = 0.0,
    **policy_arguments: Any,
) -> BlobReference:
    """Append parameter -= rate * gradient, with momentum if wanted; return the blob of the learning rate.

    Of a parameter whose gradient is one of rows, these rows are updated.

    Args:
        model: has its gradients; parameters without one are left alone.
        base_learning_rate: above 0; what the policy starts from.
        momentum: share of the last step that goes into the next one, in [0, 1); 0 keeps no momentum blobs.
        nesterov: look ahead by the momentum; without effect when that is 0.
        policy: how the rate changes over iterations, see the operator LearningRate.
        weight_decay: times the weight is added to the gradient of each weight, not of biases.
        **policy_arguments: of LearningRate: `gamma`, `stepsize`, `power` ...; their Python types matter.

    Raises:
        GradientError: the model has no gradients yet, or weight decay meets one of rows.
        ArgumentError: the policy does not know an argument.
    """
    updates = gradients_of(model)
    option = scoped_device()
    with device_scope(DeviceOption() if option is None else option):
        if weight_decay:
            add_weight_decay(model, weight_decay)
        rate = base_learning_rate if momentum else -base_learning_rate  # WeightedSum adds, MomentumSGDUpdate subtracts
        learning_rate = add_learning_rate(model, "SgdOptimizer", rate, policy, **policy_arguments)
        for parameter, gradient in updates.items():
            if momentum:
                blobs = {"W": parameter, "M": kept_for(model, parameter, "momentum"), "lr": learning_rate}
                options = {"momentum": float(momentum), "nesterov": int(nesterov)}
                add_update(model, "MomentumSGDUpdate", gradient, blobs, **options)
            elif isinstance(gradient, RowSlices):
                rows = [parameter, one(model), gradient.indices, gradient.values, learning_rate]
                model.net.add("ScatterWeightedSum", rows, parameter)
            else:
                model.net.add("WeightedSum", [parameter, one(model), gradient, learning_rate], parameter)
    return learning_rate


def add_update(model: Model, type: str, gradient: Update, blobs: Mapping[str, BlobReference], **arguments: Any) -> None:
    """Append an operator that updates a parameter in place, or the one for rows where the gradient is one of rows.

    Args:
        model: whose net is trained.
        type: the operator for whole parameters.
        gradient: what is its `dW`.
        blobs: its other inputs, by letter.
        **arguments: of the operator.

    Raises:
        GradientError: the gradient is one of rows, and nobody declares an operator for these.
    """
    schema, given = find_schema(type), dict(blobs)
    if isinstance(gradient, RowSlices):
        if schema.row_type is None:
            raise GradientError(f"{type} takes no gradient of rows", hint="read the parameter densely")
        schema = find_schema(schema.row_type)
        given |= {"indices": gradient.indices, "dW": gradient.values}
    else:
        given["dW"] = gradient
    over = {**schema.in_place, **schema.must_in_place}
    outputs = [given[str(over[spec.name][0])] for spec in schema.outputs if not spec.optional]
    model.net.add(schema.type, [given[letter] for letter in schema.inputs_by_letter], outputs, **arguments)


def kept_for(model: Model, parameter: BlobReference, name: str) -> BlobReference:
    """Return a blob of zeros, of the shape of a parameter, that an optimizer keeps for it."""
    return model.init_net.add("ConstantFill", parameter, f"{parameter}_{name}", value=0.0)


@optimizer("epsilon", "decay", "weight_decay", "row_wise")
def adagrad(
    model: Model,
    base_learning_rate: float,
    *,
    epsilon: float = 1e-4,
    decay: float = 1.0,
    weight_decay: float = 0.0,
    row_wise: bool = False,
    policy: str = "fixed",
    **policy_arguments: Any,
) -> BlobReference:
    """Append updates by Adagrad, of whole parameters or of rows; return the blob of the learning rate.

    Args:
        model: has its gradients; parameters without one are left alone.
        base_learning_rate: above 0; what the policy starts from.
        epsilon: added to the root of the sum of squares.
        decay: of the sum of squares, from step to step; of whole parameters only.
        weight_decay: times the parameter is added to its gradient, by the operators themselves.
        row_wise: of parameters whose gradient is one of rows, keep one number for each row, not for each element.
        policy: how the rate changes over iterations, see the operator LearningRate.
        **policy_arguments: of LearningRate.

    Raises:
        GradientError: the model has no gradients yet.
        ArgumentError: the policy does not know an argument; or there is a decay, and a gradient of rows.
    """
    updates = gradients_of(model)
    option = scoped_device()
    with device_scope(DeviceOption() if option is None else option):
        rate = add_learning_rate(model, "AdagradOptimizer", -base_learning_rate, policy, **policy_arguments)
        for parameter, gradient in updates.items():
            arguments: dict[str, Any] = {"epsilon": float(epsilon), "weight_decay": float(weight_decay)}
            if row_wise and isinstance(gradient, RowSlices) and decay == 1.0:
                _row_wise_adagrad(model, parameter, gradient, rate, arguments)
                continue
            if not isinstance(gradient, RowSlices):
                arguments["decay"] = float(decay)
            elif decay != 1.0:
                raise ArgumentError(
                    f"decay is {decay}, and the gradient of {str(parameter)!r} is one of rows",
                    hint="rows that are not met do not decay; leave decay at 1",
                )
            blobs = {"W": parameter, "M": kept_for(model, parameter, "squared_sum"), "lr": rate}
            add_update(model, "Adagrad", gradient, blobs, **arguments)
    return rate


def _row_wise_adagrad(
    model: Model, parameter: BlobReference, gradient: RowSlices[BlobReference], rate: str, arguments: dict[str, Any]
) -> None:
    rows = model.parameters[str(parameter)].shape[0]
    sums = model.init_net.add("ConstantFill", (), f"{parameter}_avg_squared_sum", shape=[rows], value=0.0)
    inputs = [parameter, sums, gradient.indices, gradient.values, rate]
    model.net.add("RowWiseSparseAdagrad", inputs, [parameter, sums], **arguments)


def gradients_of(model: Model) -> dict[BlobReference, Update]:
    """Return learned parameter -> gradient, or the indices and values of one of rows, in the order of the parameters.

    Raises:
        GradientError: there are none.
    """
    found: dict[BlobReference, Update] = {}
    for parameter in model.parameter_blobs(ParameterKind.WEIGHT, ParameterKind.BIAS):
        gradient = model.gradients.get(parameter)
        if isinstance(gradient, RowSlices):
            indices, values = (BlobReference(name, model.net) for name in (gradient.indices, gradient.values))
            found[parameter] = RowSlices(indices, values)
        elif gradient is not None:
            found[parameter] = BlobReference(gradient, model.net)
    if not found:
        raise GradientError(
            f"model {model.name!r} has no gradients of parameters", hint="call add_gradients([loss]) first"
        )
    return found


@optimizer("beta1", "beta2", "epsilon", "weight_decay")
def adam(
    model: Model,
    base_learning_rate: float,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    policy: str = "fixed",
    weight_decay: float = 0.0,
    **policy_arguments: Any,
) -> BlobReference:
    """Append updates by estimates of the first two moments of each gradient; return the blob of the learning rate.

    Args:
        model: has its gradients; parameters without one are left alone.
        base_learning_rate: above 0; what the policy starts from.
        beta1: decay of the estimate of the mean.
        beta2: decay of the estimate of the mean square.
        epsilon: added to the root of the latter.
        policy: how the rate changes over iterations, see the operator LearningRate.
        weight_decay: times the weight is added to the gradient of each weight, not of biases.
        **policy_arguments: of LearningRate: `gamma`, `stepsize`, `power` ...; their Python types matter.

    Raises:
        GradientError: the model has no gradients yet, or weight decay meets one of rows.
        ArgumentError: the policy does not know an argument.
    """
    updates = gradients_of(model)
    option = scoped_device()
    with device_scope(DeviceOption() if option is None else option):
        if weight_decay:
            add_weight_decay(model, weight_decay)
        rate = add_learning_rate(model, "AdamOptimizer", -base_learning_rate, policy, **policy_arguments)
        step = add_iteration(model)
        for parameter, gradient in updates.items():
            M, V = (kept_for(model, parameter, name) for name in ("first_moment", "second_moment"))
            blobs = {"W": parameter, "M": M, "V": V, "lr": rate, "iter": step}
            options = {"beta1": float(beta1), "beta2": float(beta2), "epsilon": float(epsilon)}
            add_update(model, "Adam", gradient, blobs, **options)
    return rate


def dense_gradients(model: Model) -> dict[BlobReference, BlobReference]:
    """Return learned parameter -> gradient, in the order of the parameters.

    Raises:
        GradientError: there are none, or one is sparse.
    """
    found: dict[BlobReference, BlobReference] = {}
    for parameter, gradient in gradients_of(model).items():
        if isinstance(gradient, RowSlices):
            raise GradientError(
                f"the gradient of parameter {str(parameter)!r} is sparse, whole parameters are worked on here",
                hint="read the parameter densely, or leave out what does not take gradients of rows: weight decay",
            )
        found[parameter] = gradient
    return found


def add_weight_decay(model: Model, weight_decay: float) -> None:
    """Append gradient += weight_decay * weight for each weight; biases keep their gradient."""
    factor = _constant(model, "wd", weight_decay)
    weights = set(model.parameter_blobs(ParameterKind.WEIGHT))
    for parameter, gradient in dense_gradients(model).items():
        if parameter in weights:
            model.net.add("WeightedSum", [gradient, one(model), parameter, factor], gradient)


def add_iteration(model: Model) -> BlobReference:
    """Append the counter of training steps and return its blob: int64, on the CPU, 1 in the first step.

    It stands in the net once, however many optimizers ask, and counts under a mutex, since nets may share it.
    """
    iteration, mutex = BlobReference(scoped("optimizer_iteration")), BlobReference(scoped("iteration_mutex"))
    if not model.net.defines(iteration):
        cpu = device_option()
        cpu.device_id = 0
        cpu.extra_info.append("device_type_override:cpu")
        dtype = DataType.INT64.proto
        model.init_net.add("ConstantFill", (), iteration, device=cpu, shape=[1], value=0, dtype=dtype)
        model.init_net.add("CreateMutex", (), mutex, device=cpu)
        model.net.add("AtomicIter", [mutex, iteration], iteration, device=cpu)
    return iteration


def add_learning_rate(model: Model, prefix: str, base: float, policy: str, **arguments: Any) -> BlobReference:
    """Append the learning rate of this step and return its blob, of rank 0.

    `base` is negative where the update adds. The name is `<prefix>_<n>_lr_<device>`, n counts within the model.
    """
    iteration = add_iteration(model)
    option = scoped_device()
    on_gpu = option is not None and option.device_type != 0
    device = f"gpu{option.device_id}" if option is not None and on_gpu else CPU_KIND
    tries = (f"{prefix}_{count}_lr_{device}" for count in itertools.count())
    name = next(each for each in tries if not model.net.defines(scoped(each)))
    return model.net.add("LearningRate", iteration, name, base_lr=float(base), policy=policy, **arguments)


def one(model: Model) -> BlobReference:
    """Return a blob that holds 1.0, on the current device."""
    return _constant(model, "ONE", 1.0)


def _constant(model: Model, prefix: str, value: float) -> BlobReference:
    option = scoped_device()
    place = (0, 0) if option is None else (option.device_type, option.device_id)
    name = BlobReference(scoped(f"{prefix}_{place[0]}_{place[1]}"), model.init_net)
    if not model.init_net.defines(name):
        model.init_net.add("ConstantFill", (), name, shape=[1], value=float(value))
    return name
