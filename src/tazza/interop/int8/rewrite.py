"""A float32 net becomes one of bytes, operator by operator.

Every blob has up to two forms, float32 as it was and bytes with the channels last; whoever reads one that is not there
has it made. An operator becomes one on bytes where there is one, and where what it reads has bytes or is worth them:
`BYTES` has a function for each operator type, which emits it or says no.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.interop.export import parameter_fill
from tazza.interop.int8.calibrate import Range
from tazza.operator import OpView, find_schema, operator_def
from tazza.operator.argument import find_argument
from tazza.ops.nn.pool import pool_window
from tazza.ops.nn.relu import RELU
from tazza.ops.quantized.int8_softmax import STEP
from tazza.proto import NetDef, OperatorDef
from tazza.registry import Registry
from tazza.tensor import PerChannel, PerTensor

LARGEST = 127
"""Of filters less their zero point, 128: as many numbers below it as above."""

SHARES = PerTensor(STEP)
"""What bytes of Softmax mean."""


@dataclass(frozen=True, slots=True)
class ByteForm:
    """The bytes of a blob: their name, what they mean, and whether the channels were moved to the end for them."""

    name: str
    meaning: PerTensor
    moved: bool


class Rewriting:
    """One net on its way to bytes: what was emitted, and which forms of each blob there are."""

    def __init__(
        self,
        net: NetDef,
        parameters: Mapping[str, NDArray[Any]],
        ranges: Mapping[str, Range],
        keep: Collection[str],
    ) -> None:
        """Take a net in which each name is written once, its parameters, and what its blobs range over."""
        self.net = net
        self.parameters = parameters
        self.ranges = ranges
        self.keep = frozenset(keep)
        self.fills: list[OperatorDef] = []
        self.ops: list[OperatorDef] = []
        self.bytes: dict[str, ByteForm] = {}
        self.readers: Counter[str] = Counter(name for op in net.op for name in op.input)
        self.readers.update(net.external_output)
        self._float = {*net.external_input, *parameters, *ranges} - {name for op in net.op for name in op.output}
        self._done: set[int] = set()

    def nets(self, init_net: NetDef) -> tuple[NetDef, NetDef]:
        """Return the init net and the predict net."""
        for position, op in enumerate(self.net.op):
            if position not in self._done:
                self._step(op)
        for name in self.net.external_output:
            self.number_form(name)
        return self._assembled(init_net)

    def _step(self, op: OperatorDef) -> None:
        rule = BYTES.get(op.type)
        if rule is not None and not self.keep & set(op.output) and rule(self, op):
            return
        op_copy = OperatorDef()
        op_copy.CopyFrom(op)
        for name in op.input:
            self.number_form(name)
        self.ops.append(op_copy)
        self._float.update(op.output)

    # -- what rules ask for --------------------------------------------------------------------------------------------

    def shape(self, blob: str) -> tuple[int, ...] | None:
        """Return the shape that a blob had when the net was watched."""
        found = self.ranges.get(blob)
        return None if found is None else found.shape

    def sole_reader(self, name: str) -> tuple[int, OperatorDef] | None:
        """Return the only operator that reads a blob, with its position."""
        if self.readers[name] != 1:
            return None
        return next(((i, op) for i, op in enumerate(self.net.op) if name in op.input), None)

    def take(self, position: int) -> None:
        """Count an operator as part of one that is emitted."""
        self._done.add(position)

    def emit(self, type: str, inputs: list[str], blob: str, moved: bool, **arguments: Any) -> None:
        """Emit an operator that makes the bytes of a blob; `moved`: they have the channels elsewhere than it has."""
        meaning = self.ranges[blob].quantization
        self._emit(
            type, inputs, blob, meaning, moved, Y_scale=meaning.scale, Y_zero_point=meaning.zero_point, **arguments
        )

    def emit_like(self, type: str, source: str, blob: str, **arguments: Any) -> None:
        """Emit an operator on bytes whose result has the scale and the zero point of what it reads."""
        form = self.bytes[source]
        self._emit(type, [form.name], blob, form.meaning, form.moved, **arguments)

    def emit_as(self, type: str, inputs: list[str], blob: str, meaning: PerTensor, moved: bool) -> None:
        """Emit an operator on bytes whose result means what it always does."""
        said = {"Y_scale": meaning.scale, "Y_zero_point": meaning.zero_point}
        self._emit(type, inputs, blob, meaning, moved, **said)

    def _emit(self, type: str, inputs: list[str], blob: str, meaning: PerTensor, moved: bool, **arguments: Any) -> None:
        name = f"{blob}_int8"
        self.ops.append(operator_def(type, inputs, [name], **arguments))
        self.bytes[blob] = ByteForm(name, meaning, moved)

    def byte_form(self, blob: str, *, moved: bool) -> ByteForm:
        """Return the bytes of a blob, made of its numbers where they are not there."""
        if blob not in self.bytes:
            source = blob
            if moved:
                source = f"{blob}_nhwc"
                self.ops.append(operator_def("NCHW2NHWC", [blob], [source]))
            self.emit("Int8Quantize", [source], blob, moved)
        return self.bytes[blob]

    def number_form(self, blob: str) -> None:
        """Make the numbers of a blob of its bytes, where they are not there."""
        if blob in self._float or blob not in self.bytes:
            return
        form = self.bytes[blob]
        target = f"{blob}_nhwc" if form.moved else blob
        self.ops.append(operator_def("Int8Dequantize", [form.name], [target]))
        if form.moved:
            self.ops.append(operator_def("NHWC2NCHW", [target], [blob]))
        self._float.add(blob)

    def filters(self, name: str, W: NDArray[Any]) -> tuple[str, PerChannel]:
        """Return the bytes of filters (M, ...), with a scale for each of the M."""
        largest = np.abs(W).reshape(len(W), -1).max(1, initial=0)
        scales = np.where(largest > 0, largest / LARGEST, 1.0).astype(np.float32)
        meaning = PerChannel(0, tuple(map(float, scales)), (LARGEST + 1,) * len(W))
        made = f"{name}_filters_int8"
        self._fill("Int8GivenTensorFill", made, meaning.integers(W), meaning)
        return made, meaning

    def bias(self, name: str, b: NDArray[Any], X: PerTensor, W: PerChannel) -> str:
        """Return the whole numbers of a bias in units of s_X s_W."""
        scales = np.float32(X.scale) * np.array(W.scales, np.float32)
        most = 2.0**30
        whole = np.clip(np.rint(b.astype(np.float64) / scales), -most, most).astype(np.int32)
        made = f"{name}_bias_int32"
        self._fill("Int8GivenIntTensorFill", made, whole, PerChannel(0, tuple(map(float, scales)), (0,) * len(b)))
        return made

    def _fill(self, type: str, name: str, q: NDArray[Any], meaning: PerChannel) -> None:
        if any(name in op.output for op in self.fills):
            return
        values: Any = q.tobytes() if q.dtype == np.uint8 else q.reshape(-1).tolist()
        points = {} if not any(meaning.zero_points) else {"Y_zero_points": list(meaning.zero_points)}
        arguments: dict[str, Any] = {
            "shape": list(q.shape),
            "values": values,
            "Y_scales": list(meaning.scales),
            **points,
        }
        self.fills.append(operator_def(type, [], [name], **arguments))

    # -- the result ----------------------------------------------------------------------------------------------------

    def _assembled(self, init_net: NetDef) -> tuple[NetDef, NetDef]:
        predict = NetDef(name=self.net.name, type=self.net.type, op=self.ops, arg=self.net.arg)
        predict.external_output.extend(self.net.external_output)
        made = {name for op in self.ops for name in op.output}
        read = dict.fromkeys(name for op in self.ops for name in op.input if name not in made)
        held = {name for op in self.fills for name in op.output}
        init = NetDef(name=init_net.name, op=self.fills)
        init.op.extend(parameter_fill(name, self.parameters[name]) for name in read if name in self.parameters)
        predict.external_input.extend(name for name in read if name not in held and name not in self.parameters)
        predict.external_input.extend(name for name in read if name in held or name in self.parameters)
        return init, predict


Rule = Callable[[Rewriting, OperatorDef], bool]
BYTES: Registry[str, Rule] = Registry("rule for an operator on bytes")
"""Operator type -> what emits it on bytes; False: it stays float32."""


def for_bytes(*types: str) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a rule for operator types."""

    def decorate(rule: Rule) -> Rule:
        for type in types:
            BYTES.register(type, rule, help=rule.__qualname__)
        return rule

    return decorate


def _arguments(op: OperatorDef, type: str) -> dict[str, Any]:
    """Return the arguments of an operator that the one on bytes knows, but for the order."""
    known, view = find_schema(type).args, find_schema(op.type).view(op)
    names = [one.name for one in op.arg if one.name in known and one.name != "order"]
    return {name: getattr(view, name) for name in names if getattr(view, name) is not None} | {"order": "NHWC"}


def _channels_first(view: OpView) -> bool:
    return view.order.upper() == "NCHW"


def _with_relu(state: Rewriting, blob: str) -> str:
    """Return what a rectifier behind a blob makes, which is then part of the operator that makes the blob."""
    found = state.sole_reader(blob)
    if found is None or found[1].type != RELU.type or state.keep & set(found[1].output):
        return blob
    state.take(found[0])
    return found[1].output[0]


@for_bytes("Conv", "Conv2D")
def conv_bytes(state: Rewriting, op: OperatorDef) -> bool:
    """A convolution with parameters that are there, with the rectifier behind it; not of three dimensions."""
    view = find_schema(op.type).view(op)
    W = state.parameters.get(op.input[1])
    if W is None or W.ndim != 4 or not all(name in state.parameters for name in op.input[1:]):
        return False
    moved = _channels_first(view)
    X = state.byte_form(op.input[0], moved=moved)
    blob = _with_relu(state, op.output[0])
    filters, scales = state.filters(op.output[0], np.moveaxis(W, 1, -1) if moved else W)
    b = state.parameters[op.input[2]] if len(op.input) > 2 else np.zeros(len(W), np.float32)
    bias = state.bias(op.output[0], b, X.meaning, scales)
    type = "Int8Conv" if blob == op.output[0] else "Int8ConvRelu"
    state.emit(type, [X.name, filters, bias], blob, moved, **_arguments(op, type))
    return True


@for_bytes("FC")
def fc_bytes(state: Rewriting, op: OperatorDef) -> bool:
    """A fully connected layer; its filters follow the channels, which stand last in the bytes of an image."""
    view, given = find_schema(op.type).view(op), state.parameters.get(op.input[1])
    if given is None or op.input[2] not in state.parameters or view.axis != 1:
        return False
    X = state.byte_form(op.input[0], moved=False)
    M = int(np.prod(given.shape[: view.axis_w]))
    W = given.reshape(M, -1)
    image = state.ranges[op.input[0]].shape[1:]
    rows = np.moveaxis(W.reshape(M, *image), 1, -1).reshape(M, -1) if X.moved else W
    filters, scales = state.filters(op.output[0], rows)
    bias = state.bias(op.output[0], state.parameters[op.input[2]], X.meaning, scales)
    state.emit("Int8FC", [X.name, filters, bias], op.output[0], moved=False)
    return True


@for_bytes("Sum", "Add")
def sum_bytes(state: Rewriting, op: OperatorDef) -> bool:
    """A sum of two blobs of one shape that have bytes, with the rectifier behind it."""
    forms = [state.bytes[name] for name in op.input if name in state.bytes]
    argument = find_argument(op, "broadcast")
    if len(op.input) != 2 or len(forms) != 2 or (argument is not None and argument.i):
        return False
    if state.shape(op.input[0]) != state.shape(op.input[1]) or forms[0].moved != forms[1].moved:
        return False
    blob = _with_relu(state, op.output[0])
    type = "Int8Add" if blob == op.output[0] else "Int8AddRelu"
    state.emit(type, [form.name for form in forms], blob, forms[0].moved)
    return True


@for_bytes("Relu")
def relu_bytes(state: Rewriting, op: OperatorDef) -> bool:
    """A rectifier that no layer took."""
    if op.input[0] not in state.bytes:
        return False
    state.emit_like("Int8Relu", op.input[0], op.output[0])
    return True


@for_bytes("LeakyRelu")
def leaky_relu_bytes(state: Rewriting, op: OperatorDef) -> bool:
    """A rectifier with a slope, where the slope is one that bytes have."""
    form, view = state.bytes.get(op.input[0]), find_schema(op.type).view(op)
    if form is None or not 0 < view.alpha < 1:
        return False
    state.emit("Int8LeakyRelu", [form.name], op.output[0], form.moved, **_arguments(op, "Int8LeakyRelu"))
    return True


@for_bytes("Softmax")
def softmax_bytes(state: Rewriting, op: OperatorDef) -> bool:
    """Shares of a whole as bytes that Caffe2 takes too; where channels were moved, of all of them together."""
    form, shape = state.bytes.get(op.input[0]), state.shape(op.input[0])
    view = find_schema(op.type).view(op)
    if form is None or shape is None or view.axis % len(shape) != 1:
        return False
    state.emit_as("Int8Softmax", [form.name], op.output[0], SHARES, form.moved)
    return True


@for_bytes("MaxPool", "MaxPool2D")
def max_pool_bytes(state: Rewriting, op: OperatorDef) -> bool:
    """A maximum, which keeps scale and zero point."""
    if not _pooled(state, op):
        return False
    state.emit_like("Int8MaxPool", op.input[0], op.output[0], **_arguments(op, "Int8MaxPool"))
    return True


@for_bytes("AveragePool", "AveragePool2D")
def average_pool_bytes(state: Rewriting, op: OperatorDef) -> bool:
    """Bytes count padding, float32 does not unless it is told to."""
    shape = state.shape(op.input[0])
    if shape is None or not _pooled(state, op):
        return False
    view, form = find_schema(op.type).view(op), state.bytes[op.input[0]]
    window, _ = pool_window(view, shape)
    if any((*window.head, *window.tail)) and not view.count_include_pad:
        return False
    state.emit("Int8AveragePool", [form.name], op.output[0], form.moved, **_arguments(op, "Int8AveragePool"))
    return True


def _pooled(state: Rewriting, op: OperatorDef) -> bool:
    form = state.bytes.get(op.input[0])
    shape = state.shape(op.input[0])
    return (
        form is not None
        and shape is not None
        and len(shape) == 4
        and form.moved == _channels_first(find_schema(op.type).view(op))
    )
