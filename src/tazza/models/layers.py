"""Layers: one call adds an operator and its parameters.

    layers.conv(model, "data", "conv1", 1, 20, 5)    or    model.conv("data", "conv1", 1, 20, 5)

Parameters of the layer `conv1` are `conv1_w` and `conv1_b`; weights start by `xavier()`, biases at 0. Where a layer
takes an initializer, a parameter of the model may stand instead, which is then shared. Further keyword arguments go to
the operator. Who wants another layer writes a function under the decorator `layer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tazza.device import device_option
from tazza.models.initializer import Initializer, constant, uniform, xavier
from tazza.models.model import Model, ParameterKind, layer
from tazza.models.net import BlobReference, scoped
from tazza.tensor import DataType

Start = Initializer | BlobReference | None
"""What a parameter starts from: an initializer, a parameter to share, or None for the layer's default."""


def _sized(name: str, size: int | Sequence[int] | None) -> dict[str, Any]:
    """Return the argument for one extent in all dimensions, or for one in each."""
    if size is None or isinstance(size, int):
        return {name: size}
    return {f"{name}s": list(size)}


def _weight(model: Model, name: str, shape: Sequence[int], start: Start) -> BlobReference:
    return model.add_parameter(f"{name}_w", shape, xavier() if start is None else start)


def _bias(model: Model, name: str, count: int, start: Start) -> BlobReference:
    return model.add_parameter(f"{name}_b", [count], constant() if start is None else start, ParameterKind.BIAS)


@layer
def conv(
    model: Model,
    x: str,
    name: str,
    dim_in: int,
    dim_out: int,
    kernel: int | Sequence[int],
    *,
    stride: int | Sequence[int] | None = None,
    pad: int | Sequence[int] | None = None,
    dilation: int | Sequence[int] | None = None,
    group: int | None = None,
    order: str | None = None,
    weight: Start = None,
    bias: Start = None,
    use_bias: bool = True,
    **arguments: Any,
) -> BlobReference:
    """Add a convolution over `dim_in` channels to `dim_out`; W is (dim_out, dim_in / group, kernel...).

    A kernel that is one number means two spatial dimensions; a list gives the size in each.
    """
    extents = [kernel, kernel] if isinstance(kernel, int) else list(kernel)
    channels = dim_in // (1 if group is None else group)
    shape = [dim_out, *extents, channels] if order == "NHWC" else [dim_out, channels, *extents]
    inputs = [x, _weight(model, name, shape, weight)]
    if use_bias:
        inputs.append(_bias(model, name, dim_out, bias))
    window = _sized("kernel", kernel) | _sized("stride", stride) | _sized("pad", pad) | _sized("dilation", dilation)
    return model.net.add("Conv", inputs, name, **window, group=group, order=order, **arguments)


@layer
def fc(
    model: Model,
    x: str,
    name: str,
    dim_in: int,
    dim_out: int,
    *,
    weight: Start = None,
    bias: Start = None,
    **arguments: Any,
) -> BlobReference:
    """Add a fully connected layer; W is (dim_out, dim_in), and X is flattened to rows of `dim_in`."""
    inputs = [x, _weight(model, name, [dim_out, dim_in], weight), _bias(model, name, dim_out, bias)]
    return model.net.add("FC", inputs, name, **arguments)


@layer
def embedding_bag(
    model: Model,
    indices: str,
    lengths: str,
    name: str,
    rows: int,
    width: int,
    *,
    reducer: str = "Sum",
    weight: Start = None,
    **arguments: Any,
) -> BlobReference:
    """Add a table W (rows, width), and what rows of it that indices pick give together: (bags, width).

    Args:
        model: gets the layer.
        indices: rows of the table, those of one bag behind those of the other.
        lengths: int32, how many of them each bag has.
        name: of the output; the table is `<name>_w`.
        rows: of the table.
        width: numbers of a row.
        reducer: Sum or Mean, of a bag's rows; an empty bag gives zeros.
        weight: what rows start from: uniform in +-1 / sqrt(rows) by default, as in Naumov et al. 2019.
        **arguments: of the operator.
    """
    bound = rows**-0.5
    table = _weight(model, name, [rows, width], uniform(-bound, bound) if weight is None else weight)
    return model.net.add(f"SparseLengths{reducer}", [table, indices, lengths], name, **arguments)


@layer
def spatial_bn(
    model: Model,
    x: str,
    name: str,
    dim: int,
    *,
    is_test: bool,
    epsilon: float | None = None,
    momentum: float | None = None,
    **arguments: Any,
) -> BlobReference:
    """Add a batch normalization over `dim` channels: scale `_s`, bias `_b`, running mean `_rm` and variance `_riv`."""
    scale = model.add_parameter(f"{name}_s", [dim], constant(1.0))
    bias = model.add_parameter(f"{name}_b", [dim], constant(0.0), ParameterKind.BIAS)
    mean = model.add_parameter(f"{name}_rm", [dim], constant(0.0), ParameterKind.COMPUTED)
    variance = model.add_parameter(f"{name}_riv", [dim], constant(1.0), ParameterKind.COMPUTED)
    inputs = [x, scale, bias, mean, variance]
    chosen: dict[str, Any] = {"is_test": int(is_test), "epsilon": epsilon, "momentum": momentum, **arguments}
    if is_test:
        return model.net.add("SpatialBN", inputs, name, **chosen)
    return model.net.add("SpatialBN", inputs, [name, mean, variance, f"{name}_sm", f"{name}_siv"], **chosen)[0]


def _pool(
    model: Model, type: str, x: str, name: str, kernel: int | Sequence[int] | None, **arguments: Any
) -> BlobReference:
    window = _sized("kernel", kernel)
    for argument in ("stride", "pad"):
        window |= _sized(argument, arguments.pop(argument))
    return model.net.add(type, x, name, **window, **arguments)


@layer
def max_pool(
    model: Model,
    x: str,
    name: str,
    kernel: int | Sequence[int] | None = None,
    *,
    stride: int | Sequence[int] | None = None,
    pad: int | Sequence[int] | None = None,
    **arguments: Any,
) -> BlobReference:
    """Add a pooling that takes the largest value of each window.

    `global_pooling=1` instead of a kernel takes that of all positions.
    """
    return _pool(model, "MaxPool", x, name, kernel, stride=stride, pad=pad, **arguments)


@layer
def average_pool(
    model: Model,
    x: str,
    name: str,
    kernel: int | Sequence[int] | None = None,
    *,
    stride: int | Sequence[int] | None = None,
    pad: int | Sequence[int] | None = None,
    **arguments: Any,
) -> BlobReference:
    """Add a pooling that takes the mean of each window.

    `global_pooling=1` instead of a kernel takes that of all positions.
    """
    return _pool(model, "AveragePool", x, name, kernel, stride=stride, pad=pad, **arguments)


@layer
def lrn(
    model: Model,
    x: str,
    name: str,
    *,
    size: int,
    alpha: float,
    beta: float,
    bias: float | None = None,
    **arguments: Any,
) -> BlobReference:
    """Add x / (bias + alpha / size * sum of x * x over `size` neighbouring channels) ^ beta."""
    chosen: dict[str, Any] = {"size": size, "alpha": float(alpha), "beta": float(beta), "bias": bias, **arguments}
    return model.net.add("LRN", x, [name, f"_{name}_scale"], **chosen)[0]


@layer
def relu(model: Model, x: str, name: str, **arguments: Any) -> BlobReference:
    """Add max(x, 0); may be in place."""
    return model.net.add("Relu", x, name, **arguments)


@layer
def clip(model: Model, x: str, name: str, min: float, max: float) -> BlobReference:
    """Add x, but `min` where it is below, and `max` where it is above; may be in place. From 0 to 6 this is Relu6."""
    return model.net.add("Clip", x, name, min=float(min), max=float(max))


@layer
def dropout(model: Model, x: str, name: str, *, ratio: float, is_test: bool, **arguments: Any) -> BlobReference:
    """Add what puts a share `ratio` of the elements to 0 and divides the others by 1 - ratio; in a test a copy."""
    chosen: dict[str, Any] = {"ratio": float(ratio), "is_test": int(is_test), **arguments}
    return model.net.add("Dropout", x, [name, f"_{name}_mask"], **chosen)[0]


@layer
def concat(model: Model, xs: Sequence[str], name: str, *, axis: int | None = None, **arguments: Any) -> BlobReference:
    """Add the blobs behind one another, along the channels or along `axis`."""
    return model.net.add("Concat", list(xs), [name, f"_{name}_dims"], axis=axis, **arguments)[0]


@layer
def softmax(model: Model, x: str, name: str, **arguments: Any) -> BlobReference:
    """Add a softmax over each row."""
    return model.net.add("Softmax", x, name, **arguments)


@layer
def softmax_with_loss(
    model: Model, x: str, label: str, names: Sequence[str], **arguments: Any
) -> tuple[BlobReference, ...]:
    """Add softmax and averaged cross entropy in one; `names` are those of the two outputs, probabilities and loss."""
    return model.net.add("SoftmaxWithLoss", [x, label], list(names), **arguments)


@layer
def label_cross_entropy(model: Model, x: str, label: str, name: str) -> BlobReference:
    """Add -log of the probability that each row of x gives to its label."""
    return model.net.add("LabelCrossEntropy", [x, label], name)


@layer
def averaged_loss(model: Model, x: str, name: str) -> BlobReference:
    """Add the mean of all elements, of rank 0."""
    return model.net.add("AveragedLoss", x, name)


@layer
def accuracy(model: Model, x: str, label: str, name: str, **arguments: Any) -> BlobReference:
    """Add the share of rows of which the label is among the `top_k` largest; it has no gradient."""
    return model.net.add("Accuracy", [x, label], name, **arguments)


@layer
def scale(model: Model, x: str, name: str, factor: float) -> BlobReference:
    """Add factor * x."""
    return model.net.add("Scale", x, name, scale=float(factor))


@layer
def cast(model: Model, x: str, name: str, to: DataType) -> BlobReference:
    """Add a conversion to another type of elements."""
    return model.net.add("Cast", x, name, to=to.proto)


@layer
def stop_gradient(model: Model, x: str, name: str | None = None) -> BlobReference:
    """Add a copy through which no gradient goes; in place without a name."""
    return model.net.add("StopGradient", x, x if name is None else name)


@layer
def copy(model: Model, x: str, name: str) -> BlobReference:
    """Add a copy."""
    return model.net.add("Copy", x, name)


@layer
def reshape(model: Model, x: str, name: str, shape: Sequence[int]) -> BlobReference:
    """Add the same elements in another shape: 0 keeps an extent, one -1 takes what is left."""
    return model.net.add("Reshape", x, [name, f"_{name}_old_shape"], shape=list(shape))[0]


@layer
def add(model: Model, a: str, b: str, name: str, **arguments: Any) -> BlobReference:
    """Add a + b, where b may be broadcast."""
    return model.net.add("Add", [a, b], name, **arguments)


@layer
def sum(model: Model, xs: Sequence[str], name: str) -> BlobReference:
    """Add the elementwise sum of blobs of one shape."""
    return model.net.add("Sum", list(xs), name)


@layer
def iter(model: Model, name: str = "iter") -> BlobReference:
    """Add a counter of runs: int64, 1 in the first run. It lives on the CPU."""
    full = BlobReference(scoped(name))
    cpu = device_option()
    if not model.init_net.defines(full):
        model.init_net.add("ConstantFill", (), full, device=cpu, shape=[1], value=0, dtype=DataType.INT64.proto)
    return model.net.add("Iter", full, full)
