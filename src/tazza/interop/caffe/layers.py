"""How layers of Caffe 1 become operators, type by type.

Parameters are called after the output: `conv1_w`, `conv1_b`, as the translator of Caffe2 called them. What a layer asks
for and no operator does is refused; see `docs/differences.md` for what that translator passed over in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tazza.errors import FormatError
from tazza.interop.caffe.caffe_pb2 import EltwiseParameter, LRNParameter, ReductionParameter
from tazza.interop.caffe.messages import Array, Layer, Translated
from tazza.operator.definition import operator_def
from tazza.registry import Registry

Translator = Callable[[Layer], Translated]

LAYERS: Registry[str, Translator] = Registry("layer type of Caffe 1")
"""What translates a layer of each type."""


def layer(type: str, *, help: str) -> Callable[[Translator], Translator]:
    """Return a decorator that registers what translates a layer type."""

    def decorate(translator: Translator) -> Translator:
        LAYERS.register(type, translator, help=help)
        return translator

    return decorate


def one(layer: Layer, type: str, more: Sequence[str] = (), beside: Sequence[str] = (), **arguments: Any) -> Any:
    """Return an operator on the inputs of a layer, and on `more`, which makes its output, and what is `beside`."""
    return operator_def(type, [*layer.bottom, *more], [layer.top, *beside], **arguments)


def vector(values: Array) -> Array:
    """Return a parameter of one axis; the old form has four, of which three are 1."""
    return values.reshape(-1)


def weighted(layer: Layer, type: str, weight: Array, bias: Array | None, **arguments: Any) -> Translated:
    """Return an operator with a weight, and perhaps a bias."""
    parameters = {f"{layer.top}_w": weight}
    if bias is not None:
        parameters[f"{layer.top}_b"] = vector(bias)
    return Translated([one(layer, type, list(parameters), **arguments)], parameters)


# -- data --------------------------------------------------------------------------------------------------------------


@layer("Input", help="a blob that is fed")
@layer("Data", help="a database; its blobs are fed")
@layer("VideoData", help="clips of a database; they are fed")
def nothing(layer: Layer) -> Translated:
    """No operator: the blobs are fed."""
    del layer
    return Translated([])


# -- pointwise ---------------------------------------------------------------------------------------------------------


@layer("ReLU", help="a rectifier")
def relu(layer: Layer) -> Translated:
    """Relu, or LeakyRelu with a slope."""
    slope = layer.message.relu_param.negative_slope
    return Translated([one(layer, "LeakyRelu", alpha=slope) if slope else one(layer, "Relu")])


@layer("PReLU", help="a rectifier whose slope is learned")
def prelu(layer: Layer) -> Translated:
    """PRelu."""
    name = f"{layer.top}_Slope"
    return Translated([one(layer, "PRelu", [name])], {name: layer.blob(0)})


@layer("TanH", help="a hyperbolic tangent")
def tanh(layer: Layer) -> Translated:
    """Tanh."""
    return Translated([one(layer, "Tanh")])


@layer("Sigmoid", help="a sigmoid")
def sigmoid(layer: Layer) -> Translated:
    """Sigmoid."""
    return Translated([one(layer, "Sigmoid")])


@layer("Dropout", help="numbers left out at random")
def dropout(layer: Layer) -> Translated:
    """Dropout, which does nothing in a net that tests."""
    ratio = float(layer.message.dropout_param.dropout_ratio)
    test = 1 if layer.is_test else None
    return Translated([one(layer, "Dropout", beside=[f"_{layer.top}_mask"], ratio=ratio, is_test=test)])


@layer("Eltwise", help="a sum of blobs")
def eltwise(layer: Layer) -> Translated:
    """Sum."""
    given = layer.message.eltwise_param
    if given.coeff:
        raise layer.unsupported("a sum with coefficients")
    if given.operation != EltwiseParameter.SUM:
        raise layer.unsupported(f"the operation {EltwiseParameter.EltwiseOp.Name(given.operation)}")
    return Translated([one(layer, "Sum")])


@layer("Scale", help="a product with a vector, and a sum with another")
def scale(layer: Layer) -> Translated:
    """Mul, and Add if there is a bias, along an axis."""
    given = layer.message.scale_param
    if given.num_axes != 1 or len(layer.bottom) != 1:
        raise layer.unsupported("a scale of several axes, or one that is computed,")
    along: dict[str, Any] = {"axis": int(given.axis), "broadcast": 1}
    weight, bias, between = f"{layer.top}scale_w", f"{layer.top}scale_b", f"{layer.top}_internal"
    parameters = {weight: vector(layer.blob(0))}
    if len(layer.blobs) == 1:
        return Translated([one(layer, "Mul", [weight], **along)], parameters)
    parameters[bias] = vector(layer.blob(1))
    product = operator_def("Mul", [*layer.bottom, weight], [between], **along)
    return Translated([product, operator_def("Add", [between, bias], [layer.top], **along)], parameters)


# -- layers with weights, and normalization ----------------------------------------------------------------------------


@layer("InnerProduct", help="a fully connected layer")
def inner_product(layer: Layer) -> Translated:
    """FC; a layer without a bias gets one of zeros."""
    given = layer.message.inner_product_param
    if given.axis != 1 or given.transpose:
        raise layer.unsupported("a product over other axes than the first, or with a transposed weight,")
    weight = layer.blob(0)
    if weight.ndim == 4:
        if weight.shape[:2] != (1, 1):
            raise FormatError(f"{layer}: a weight of the old form has shape (1, 1, N, K), not {weight.shape}")
        weight = weight[0, 0]
    bias = layer.blobs[1] if len(layer.blobs) > 1 else np.zeros(weight.shape[0], np.float32)
    return weighted(layer, "FC", weight, bias)


@layer("LRN", help="normalization over neighbouring channels")
def lrn(layer: Layer) -> Translated:
    """LRN."""
    given = layer.message.lrn_param
    if given.norm_region != LRNParameter.ACROSS_CHANNELS:
        raise layer.unsupported("a normalization within channels")
    size, alpha, beta, bias = int(given.local_size), float(given.alpha), float(given.beta), float(given.k)
    beside = [f"_{layer.top}_scale"]
    return Translated([one(layer, "LRN", (), beside, size=size, alpha=alpha, beta=beta, bias=bias, order="NCHW")])


@layer("InstanceNorm", help="normalization of each channel of each image")
def instance_norm(layer: Layer) -> Translated:
    """InstanceNorm."""
    return weighted(layer, "InstanceNorm", vector(layer.blob(0)), layer.blob(1), order="NCHW")


@layer("BatchNorm", help="normalization of channels by batches")
def batch_norm(layer: Layer) -> Translated:
    """SpatialBN; mean and variance are stored as sums, with the number by which they are divided."""
    divisor = float(vector(layer.blob(2))[0]) if layer.blob(2).size else 0.0
    if divisor == 0:
        raise FormatError(f"{layer}: mean and variance are to be divided by nothing", hint="train the net first")
    mean, variance = (vector(layer.blob(at)) * np.float32(1 / divisor) for at in (0, 1))
    top = layer.top
    values = (np.ones_like(mean), np.zeros_like(mean), mean, variance)
    names = [f"{top}_{part}" for part in ("scale", "bias", "mean", "var")]
    beside = [] if layer.is_test else [*names[2:], f"{top}_saved_mean", f"{top}_saved_var"]
    epsilon = float(layer.message.batch_norm_param.eps)
    op = one(layer, "SpatialBN", names, beside, is_test=int(layer.is_test), epsilon=epsilon, order="NCHW")
    return Translated([op], dict(zip(names, values, strict=True)))


# -- shapes ------------------------------------------------------------------------------------------------------------


@layer("Concat", help="blobs side by side")
def concat(layer: Layer) -> Translated:
    """Concat."""
    given = layer.message.concat_param
    axis = int(given.concat_dim) if given.HasField("concat_dim") else int(given.axis)
    along: dict[str, Any] = {"order": "NCHW"} if axis == 1 else {"axis": axis}
    return Translated([one(layer, "Concat", beside=[f"_{layer.top}_dims"], **along)])


@layer("Reshape", help="another shape")
def reshape(layer: Layer) -> Translated:
    """Reshape, of all axes."""
    given = layer.message.reshape_param
    if given.axis != 0 or given.num_axes != -1:
        raise layer.unsupported("another shape for some of the axes")
    shape = [int(extent) for extent in given.shape.dim]
    return Translated([one(layer, "Reshape", beside=[f"_{layer.bottom[0]}_dims"], shape=shape)])


@layer("Flatten", help="all axes but the first made one")
def flatten(layer: Layer) -> Translated:
    """Flatten, or FlattenToVec from axis 0."""
    given = layer.message.flatten_param
    if given.end_axis != -1 or given.axis not in (0, 1):
        raise layer.unsupported("flattening of other axes than all, or all but the first,")
    return Translated([one(layer, "Flatten" if given.axis == 1 else "FlattenToVec")])


@layer("Crop", help="a part as large as another blob")
def crop(layer: Layer) -> Translated:
    """Slice, whose bounds follow from the shapes: that of the net's input has to be known."""
    if len(layer.bottom) != 2:
        raise FormatError(f"{layer} has {len(layer.bottom)} inputs, not 2")
    source, wanted = layer.bottom
    extents, given = layer.shape_of(wanted), layer.message.crop_param
    axis = given.axis if given.axis >= 0 else len(extents) + given.axis
    cropped = len(extents) - axis
    offsets = [int(offset) for offset in given.offset] if given.offset else [0]
    if len(offsets) == 1:
        offsets *= cropped
    if len(offsets) != cropped or not 0 <= axis < len(extents):
        raise FormatError(f"{layer}: {len(offsets)} offsets for {cropped} axes")
    ends = [offset + extent for offset, extent in zip(offsets, extents[axis:], strict=True)]
    bounds: dict[str, Any] = {"starts": [0] * axis + offsets, "ends": [-1] * axis + ends}
    return Translated([operator_def("Slice", [source], [layer.top], **bounds)])


@layer("Reduction", help="a sum or mean over the last axes")
def reduction(layer: Layer) -> Translated:
    """ReduceBackSum or ReduceBackMean; SumElements over all axes."""
    given = layer.message.reduction_param
    names = {ReductionParameter.SUM: "Sum", ReductionParameter.MEAN: "Mean"}
    if given.operation not in names or given.axis > 0 or given.coeff != 1:
        raise layer.unsupported("a reduction other than a sum or mean, from an axis counted from the front, or scaled,")
    if given.axis == 0:
        return Translated([one(layer, "SumElements", average=int(given.operation == ReductionParameter.MEAN))])
    return Translated([one(layer, f"ReduceBack{names[given.operation]}", num_reduce_dim=-int(given.axis))])


# -- losses ------------------------------------------------------------------------------------------------------------


@layer("Softmax", help="a softmax")
def softmax(layer: Layer) -> Translated:
    """Softmax."""
    axis = int(layer.message.softmax_param.axis)
    return Translated([one(layer, "Softmax", axis=None if axis == 1 else axis)])


@layer("SoftmaxWithLoss", help="cross entropy of a softmax, averaged")
def softmax_with_loss(layer: Layer) -> Translated:
    """Softmax, LabelCrossEntropy and AveragedLoss."""
    if len(layer.bottom) != 2:
        raise FormatError(f"{layer} has {len(layer.bottom)} inputs, not 2")
    scores, label = layer.bottom
    likely, each = (f"{scores}_translator_autogen_{part}" for part in ("softmax", "xent"))
    return Translated(
        [
            operator_def("Softmax", [scores], [likely]),
            operator_def("LabelCrossEntropy", [likely, label], [each]),
            operator_def("AveragedLoss", [each], [layer.top]),
        ]
    )


@layer("Accuracy", help="share of labels among the best scores")
def accuracy(layer: Layer) -> Translated:
    """Accuracy."""
    top_k = int(layer.message.accuracy_param.top_k)
    return Translated([one(layer, "Accuracy", top_k=None if top_k == 1 else top_k)])
