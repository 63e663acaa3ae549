"""Rules by which operators become operators on bytes: each emits one, or says why its operator stays float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.interop.int8.rewrite import Rewriting, for_bytes, rectifies
from tazza.operator import OpView, find_schema
from tazza.operator.argument import find_argument
from tazza.ops.nn.pool import pool_window
from tazza.ops.quantized.int8_softmax import STEP
from tazza.ops.shape.concat import adds_axis, join_axis
from tazza.proto import OperatorDef
from tazza.tensor import PerTensor

SHARES = PerTensor(STEP)
"""What bytes of Softmax and Sigmoid mean."""
LEAST_SHARE = 16 * STEP
"""What the largest share has to reach: else hardly any byte but 0 is left of a thousand classes."""

FLOATING = "it reads numbers of float32, and would be worth no bytes alone"
UNKNOWN = "its filters or its bias are no parameters"
IMAGES = "it is no layer of images (N, C, H, W)"


def arguments(op: OperatorDef, type: str) -> dict[str, Any]:
    """Return the arguments of an operator that the one on bytes knows, but for the order."""
    known, view = find_schema(type).args, find_schema(op.type).view(op)
    names = [one.name for one in op.arg if one.name in known and one.name != "order"]
    given = {name: getattr(view, name) for name in names if getattr(view, name) is not None}
    return given | ({"order": "NHWC"} if "order" in known else {})


def channels_first(view: OpView) -> bool:
    """Whether the channels of an operator's images stand before rows and columns."""
    return view.order.upper() == "NCHW"


def with_relu(state: Rewriting, blob: str) -> str:
    """Return what a rectifier behind a blob makes, which is then part of the operator that makes the blob."""
    found = state.sole_reader(blob)
    if found is None or not rectifies(found[1]) or state.keep & set(found[1].output):
        return blob
    state.take(found[0])
    return found[1].output[0]


# -- layers with parameters --------------------------------------------------------------------------------------------


@for_bytes("Conv", "Conv2D")
def conv_bytes(state: Rewriting, op: OperatorDef) -> str | None:
    """A convolution with parameters that are there, with the rectifier behind it; not of three dimensions."""
    view = find_schema(op.type).view(op)
    W = state.parameters.get(op.input[1])
    if W is None or not all(name in state.parameters for name in op.input[1:]):
        return UNKNOWN
    if W.ndim != 4:
        return IMAGES
    moved = channels_first(view)
    X = state.byte_form(op.input[0], moved=moved)
    blob = with_relu(state, op.output[0])
    filters, scales = state.filters(op.output[0], np.moveaxis(W, 1, -1) if moved else W)
    b = state.parameters[op.input[2]] if len(op.input) > 2 else np.zeros(len(W), np.float32)
    bias = state.bias(op.output[0], b, X.meaning, scales)
    type = "Int8Conv" if blob == op.output[0] else "Int8ConvRelu"
    state.emit(type, [X.name, filters, bias], blob, moved, **arguments(op, type))
    return None


@for_bytes("ConvTranspose")
def conv_transpose_bytes(state: Rewriting, op: OperatorDef) -> str | None:
    """A transposed convolution without groups; its filters have one scale, as the operator on bytes takes them."""
    view = find_schema(op.type).view(op)
    W = state.parameters.get(op.input[1])
    if W is None or not all(name in state.parameters for name in op.input[1:]):
        return UNKNOWN
    if W.ndim != 4 or view.group != 1:
        return IMAGES if W.ndim != 4 else "bytes have no transposed convolution of groups"
    moved = channels_first(view)
    X = state.byte_form(op.input[0], moved=moved)
    turned = np.moveaxis(W, 1, -1) if moved else W
    filters, scale = state.filters(op.output[0], turned, one_scale=True)
    b = state.parameters[op.input[2]] if len(op.input) > 2 else np.zeros(turned.shape[-1], np.float32)
    bias = state.bias(op.output[0], b, X.meaning, scale)
    type = "Int8ConvTranspose"
    state.emit(type, [X.name, filters, bias], op.output[0], moved, **arguments(op, type))
    return None


@for_bytes("FC")
def fc_bytes(state: Rewriting, op: OperatorDef) -> str | None:
    """A fully connected layer; its filters follow the channels, which stand last in the bytes of an image."""
    view, given = find_schema(op.type).view(op), state.parameters.get(op.input[1])
    if given is None or op.input[2] not in state.parameters:
        return UNKNOWN
    if view.axis != 1:
        return f"axis = {view.axis}, bytes have 1"
    X = state.byte_form(op.input[0], moved=False)
    M = int(np.prod(given.shape[: view.axis_w]))
    W = given.reshape(M, -1)
    filters, scales = state.filters(op.output[0], _rows(state, op.input[0], W, moved=X.moved))
    bias = state.bias(op.output[0], state.parameters[op.input[2]], X.meaning, scales)
    state.emit("Int8FC", [X.name, filters, bias], op.output[0], moved=False)
    return None


def _rows(state: Rewriting, blob: str, W: NDArray[Any], *, moved: bool) -> NDArray[Any]:
    """Return filters (M, K) whose K lie as the bytes of an image do."""
    image = state.ranges[blob].shape[1:]
    M = len(W)
    return np.moveaxis(W.reshape(M, *image), 1, -1).reshape(M, -1) if moved else W


# -- what several blobs become -----------------------------------------------------------------------------------------


@for_bytes("Sum", "Add")
def sum_bytes(state: Rewriting, op: OperatorDef) -> str | None:
    """A sum of two blobs of one shape that have bytes, with the rectifier behind it."""
    forms = [state.bytes[name] for name in op.input if name in state.bytes]
    argument = find_argument(op, "broadcast")
    if len(op.input) != 2 or (argument is not None and argument.i):
        return "bytes have sums of two blobs of one shape"
    if len(forms) != 2:
        return FLOATING
    if state.shape(op.input[0]) != state.shape(op.input[1]) or forms[0].moved != forms[1].moved:
        return "bytes have sums of two blobs of one shape"
    blob = with_relu(state, op.output[0])
    type = "Int8Add" if blob == op.output[0] else "Int8AddRelu"
    state.emit(type, [form.name for form in forms], blob, forms[0].moved)
    return None


@for_bytes("Concat", "DepthConcat")
def concat_bytes(state: Rewriting, op: OperatorDef) -> str | None:
    """Blobs that have bytes, one behind the other; those of another scale are rounded anew."""
    forms = [state.bytes.get(name) for name in op.input]
    view, shape = find_schema(op.type).view(op), state.shape(op.input[0])
    if any(form is None for form in forms) or shape is None:
        return FLOATING
    there = [form for form in forms if form is not None]
    if len({form.moved for form in there}) > 1 or adds_axis(view):
        return "its parts lie in unlike orders, or get an axis of their own"
    if any(state.readers[name] for name in op.output[1:]):
        return "somebody reads the extents of its parts"
    axis = join_axis(view, "Y", len(shape))
    if there[0].moved:
        axis = {0: 0, 1: len(shape) - 1}.get(axis, axis - 1)
    names, meaning = [form.name for form in there], state.ranges[op.output[0]].quantization
    if state.weights == "tensor":  # for Caffe2, which joins bytes as they lie
        names = [form.name if form.meaning == meaning else state.anew(form, op.output[0], meaning) for form in there]
    state.emit("Int8Concat", names, op.output[0], there[0].moved, axis=axis)
    return None


# -- what one blob becomes ---------------------------------------------------------------------------------------------


@for_bytes("Relu")
def relu_bytes(state: Rewriting, op: OperatorDef) -> str | None:
    """A rectifier that no layer took."""
    if op.input[0] not in state.bytes:
        return FLOATING
    state.emit_like("Int8Relu", op.input[0], op.output[0])
    return None


@for_bytes("Clip")
def clip_bytes(state: Rewriting, op: OperatorDef) -> str | None:
    """A cut at 0 that no layer took; above, bytes end where the range does."""
    form = state.bytes.get(op.input[0])
    if form is None:
        return FLOATING
    if not rectifies(op):
        return "bytes have cuts at 0 alone"
    if state.weights == "tensor":
        return "a rectifier of bytes has one scale in Caffe2"
    state.emit("Int8Relu", [form.name], op.output[0], form.moved)
    return None


@for_bytes("LeakyRelu")
def leaky_relu_bytes(state: Rewriting, op: OperatorDef) -> str | None:
    """A rectifier with a slope, where the slope is one that bytes have."""
    form, view = state.bytes.get(op.input[0]), find_schema(op.type).view(op)
    if form is None:
        return FLOATING
    if not 0 < view.alpha < 1:
        return f"alpha = {view.alpha}, bytes have slopes between 0 and 1"
    state.emit("Int8LeakyRelu", [form.name], op.output[0], form.moved, **arguments(op, "Int8LeakyRelu"))
    return None


@for_bytes("Sigmoid")
def sigmoid_bytes(state: Rewriting, op: OperatorDef) -> str | None:
    """A sigmoid with the scale that Caffe2 takes too."""
    form = state.bytes.get(op.input[0])
    if form is None:
        return FLOATING
    state.emit_as("Int8Sigmoid", [form.name], op.output[0], SHARES, form.moved)
    return None


@for_bytes("Softmax")
def softmax_bytes(state: Rewriting, op: OperatorDef) -> str | None:
    """Shares of a whole as bytes that Caffe2 takes too; where channels were moved, of all of them together."""
    form, shape = state.bytes.get(op.input[0]), state.shape(op.input[0])
    view = find_schema(op.type).view(op)
    if form is None or shape is None:
        return FLOATING
    if view.axis % len(shape) != 1:
        return f"axis = {view.axis}, Caffe2's softmax of bytes has 1"
    high = state.ranges[op.output[0]].high
    if high < LEAST_SHARE:
        return f"its largest share is {high:.2g}, and bytes tell shares apart by {STEP:.2g}"
    state.emit_as("Int8Softmax", [form.name], op.output[0], SHARES, form.moved)
    return None


@for_bytes("Dropout")
def dropout_bytes(state: Rewriting, op: OperatorDef) -> str | None:
    """Nothing, in test mode."""
    if op.input[0] not in state.bytes:
        return FLOATING
    if not find_schema(op.type).view(op).is_test or any(state.readers[name] for name in op.output[1:]):
        return "it is not in test mode, or somebody reads its mask"
    state.alias(op.input[0], op.output[0])
    return None


@for_bytes("MaxPool", "MaxPool2D")
def max_pool_bytes(state: Rewriting, op: OperatorDef) -> str | None:
    """A maximum, which keeps scale and zero point."""
    refused = _of_images(state, op)
    if refused is not None:
        return refused
    state.emit_like("Int8MaxPool", op.input[0], op.output[0], **arguments(op, "Int8MaxPool"))
    return None


@for_bytes("AveragePool", "AveragePool2D")
def average_pool_bytes(state: Rewriting, op: OperatorDef) -> str | None:
    """Bytes count padding, float32 does not unless it is told to."""
    refused = _of_images(state, op)
    if refused is not None:
        return refused
    view, form = find_schema(op.type).view(op), state.bytes[op.input[0]]
    window, _ = pool_window(view, state.ranges[op.input[0]].shape)
    if any((*window.head, *window.tail)) and not view.count_include_pad:
        return "means of bytes count padding, and these do not"
    state.emit("Int8AveragePool", [form.name], op.output[0], form.moved, **arguments(op, "Int8AveragePool"))
    return None


@for_bytes("ResizeNearest", "ChannelShuffle")
def places_bytes(state: Rewriting, op: OperatorDef) -> str | None:
    """The same bytes in other places."""
    refused = _of_images(state, op)
    if refused is not None:
        return refused
    if len(op.input) > 1:
        return "its scales come as an input"
    type = f"Int8{op.type}"
    state.emit_like(type, op.input[0], op.output[0], **arguments(op, type))
    return None


@for_bytes("Flatten")
def flatten_bytes(state: Rewriting, op: OperatorDef) -> str | None:
    """Rows of what is in the order of the blob: where channels were moved, images of one place."""
    form, shape = state.bytes.get(op.input[0]), state.shape(op.input[0])
    if form is None or shape is None:
        return FLOATING
    if form.moved and (int(np.prod(shape[2:])) > 1 or find_schema(op.type).view(op).axis != 1):
        return "rows of an image would have another order in bytes"
    state.emit_flat("Int8Flatten", op.input[0], op.output[0], **arguments(op, "Int8Flatten"))
    return None


@for_bytes("Reshape")
def reshape_bytes(state: Rewriting, op: OperatorDef) -> str | None:
    """Rows of images of one place, as `Flatten` makes them."""
    form, shape, rows = state.bytes.get(op.input[0]), state.shape(op.input[0]), state.shape(op.output[0])
    if form is None or shape is None or rows is None:
        return FLOATING
    if any(state.readers[name] for name in op.output[1:]):
        return "somebody reads the shape that it had"
    if len(rows) != 2 or rows[0] != shape[0] or (form.moved and int(np.prod(shape[2:])) > 1):
        return "bytes have rows of images of one place alone"
    state.emit_flat("Int8Flatten", op.input[0], op.output[0])
    return None


def _of_images(state: Rewriting, op: OperatorDef) -> str | None:
    """Return why an operator on images gets no bytes."""
    form, shape = state.bytes.get(op.input[0]), state.shape(op.input[0])
    if form is None or shape is None:
        return FLOATING
    if len(shape) != 4 or form.moved != channels_first(find_schema(op.type).view(op)):
        return IMAGES
    return None
