"""A plain net as a `torch.nn.Module`: one `torch.fx` node or two for each operator.

The module's code is straight: as fast as hand-written, values are dropped after their last use, `torch.compile` takes
it whole, and it trains. Inputs come in the order of the net; the result is its output.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from numpy.typing import NDArray

from benchmarks.job import PlainNet, PlainOperator, check_known, window

torch: Any = import_module("torch")
fx: Any = import_module("torch.fx")
F: Any = torch.nn.functional

Translate = Callable[["_Builder", PlainOperator], Any]
_TRANSLATIONS: dict[str, Translate] = {}


def _translates(*types: str) -> Callable[[Translate], Translate]:
    def decorate(function: Translate) -> Translate:
        _TRANSLATIONS.update(dict.fromkeys(types, function))
        return function

    return decorate


class _Builder:
    """A graph in the making: `values` maps blobs to nodes, `logits` the outputs of softmax to what went into it."""

    def __init__(self, net: PlainNet, parameters: Mapping[str, NDArray[Any]]) -> None:
        self.net = net
        self.root = torch.nn.Module()
        self.graph = fx.Graph()
        self.values: dict[str, Any] = {name: self.graph.placeholder(name) for name in net.inputs}
        self.logits: dict[str, Any] = {}
        self.shapes: dict[str, tuple[int, ...]] = {name: (1, *shape) for name, shape in net.inputs.items()}
        for position, name in enumerate(net.parameters):
            value = torch.from_numpy(parameters[name].copy())
            attribute = f"p{position}"
            if name in net.learned:
                self.root.register_parameter(attribute, torch.nn.Parameter(value))
            else:
                self.root.register_buffer(attribute, value)
            self.values[name] = self.graph.get_attr(attribute)

    def call(self, function: Any, *arguments: Any, **named: Any) -> Any:
        return self.graph.call_function(function, arguments, named)

    def add(self, op: PlainOperator) -> None:
        translate = _TRANSLATIONS.get(op.type)
        if translate is None:
            raise ValueError(f"{op.type} is not translated to torch")
        self.values[op.outputs[0]] = translate(self, op)
        self.shapes.update(zip(op.outputs, op.shapes, strict=False))

    def inputs(self, op: PlainOperator) -> list[Any]:
        return [self.values[name] for name in op.inputs]


def torch_module(net: PlainNet, parameters: Mapping[str, NDArray[Any]]) -> Any:
    """Return the module; learned parameters are its parameters, the others its buffers.

    Raises:
        ValueError: an operator or argument that has no translation.
    """
    builder = _Builder(net, parameters)
    for op in net.operators:
        builder.add(op)
    builder.graph.output(builder.values[net.output])
    builder.graph.eliminate_dead_code()
    return fx.GraphModule(builder.root, builder.graph)


WINDOW = ("kernel", "kernels", "stride", "strides", "pad", "pads", "order")


@_translates("Conv")
def _conv(b: _Builder, op: PlainOperator) -> Any:
    check_known(op, [*WINDOW, "dilation", "dilations", "group"])
    x, w, *bias = b.inputs(op)
    sizes = window(op)
    pad: tuple[int, int] = sizes.begin
    if not sizes.symmetric:
        x, pad = b.call(F.pad, x, _sides(sizes.begin, sizes.end)), (0, 0)
    group = int(op.arguments.get("group", 1))
    return b.call(F.conv2d, x, w, bias[0] if bias else None, sizes.stride, pad, sizes.dilation, group)


def _sides(begin: tuple[int, int], end: tuple[int, int]) -> list[int]:
    return [begin[1], end[1], begin[0], end[0]]


@_translates("MaxPool", "AveragePool")
def _pool(b: _Builder, op: PlainOperator) -> Any:
    check_known(op, [*WINDOW, "global_pooling"])
    (x,) = b.inputs(op)
    largest = op.type == "MaxPool"
    if op.arguments.get("global_pooling"):
        return b.call(F.adaptive_max_pool2d if largest else F.adaptive_avg_pool2d, x, 1)
    sizes = window(op)
    if largest and not sizes.symmetric:
        _check_ceil(b, op)
        return b.call(F.max_pool2d, x, sizes.kernel, sizes.stride, 0, 1, True)
    if not sizes.symmetric:
        raise ValueError(f"{op.type}: padding {sizes.begin} before and {sizes.end} after is not translated")
    if largest:
        return b.call(F.max_pool2d, x, sizes.kernel, sizes.stride, sizes.begin)
    return b.call(F.avg_pool2d, x, sizes.kernel, sizes.stride, sizes.begin, False, False)


def _check_ceil(b: _Builder, op: PlainOperator) -> None:
    """Raise unless rounding the output size up does what the padding at the far sides is for."""
    sizes, spatial = window(op), b.shapes[op.inputs[0]][2:]
    rounded_up = tuple(
        -(-(extent - kernel) // stride) + 1
        for extent, kernel, stride in zip(spatial, sizes.kernel, sizes.stride, strict=True)
    )
    if sizes.begin != (0, 0) or rounded_up != op.shapes[0][2:]:
        raise ValueError(f"{op.type}: padding {sizes.begin} before and {sizes.end} after is not translated")


@_translates("SpatialBN")
def _spatial_bn(b: _Builder, op: PlainOperator) -> Any:
    check_known(op, ["is_test", "epsilon", "momentum", "order"])
    x, scale, bias, mean, variance = b.inputs(op)
    training = not op.arguments.get("is_test")
    step = 1 - float(op.arguments.get("momentum", 0.9))
    epsilon = float(op.arguments.get("epsilon", 1e-5))
    return b.call(F.batch_norm, x, mean, variance, scale, bias, training, step, epsilon)


@_translates("LRN")
def _lrn(b: _Builder, op: PlainOperator) -> Any:
    check_known(op, ["size", "alpha", "beta", "bias", "order"])
    (x,), given = b.inputs(op), op.arguments
    return b.call(F.local_response_norm, x, given["size"], given["alpha"], given["beta"], given.get("bias", 1.0))


@_translates("Relu")
def _relu(b: _Builder, op: PlainOperator) -> Any:
    return b.call(F.relu, *b.inputs(op), inplace=op.inputs[0] == op.outputs[0])


@_translates("Clip")
def _clip(b: _Builder, op: PlainOperator) -> Any:
    check_known(op, ["min", "max"])
    low, high = op.arguments["min"], op.arguments["max"]
    return b.call(F.hardtanh, *b.inputs(op), low, high, inplace=op.inputs[0] == op.outputs[0])


@_translates("Dropout")
def _dropout(b: _Builder, op: PlainOperator) -> Any:
    check_known(op, ["ratio", "is_test"])
    (x,) = b.inputs(op)
    return x if op.arguments.get("is_test") else b.call(F.dropout, x, op.arguments["ratio"], True)


@_translates("Sum", "Add")
def _sum(b: _Builder, op: PlainOperator) -> Any:
    check_known(op, [])
    first, *others = b.inputs(op)
    functions: Any = operator
    add = functions.iadd if op.inputs[0] == op.outputs[0] else functions.add
    for other in others:
        first = b.call(add, first, other)
    return first


@_translates("Concat")
def _concat(b: _Builder, op: PlainOperator) -> Any:
    check_known(op, ["axis", "order"])
    return b.call(torch.cat, b.inputs(op), int(op.arguments.get("axis", 1)))


@_translates("Reshape")
def _reshape(b: _Builder, op: PlainOperator) -> Any:
    if list(op.arguments["shape"]) != [0, -1]:
        raise ValueError(f"Reshape to {op.arguments['shape']} is not translated")
    return b.call(torch.flatten, *b.inputs(op), 1)


@_translates("FC")
def _fc(b: _Builder, op: PlainOperator) -> Any:
    check_known(op, [])
    x, w, bias = b.inputs(op)
    if len(b.shapes[op.inputs[0]]) > 2:
        x = b.call(torch.flatten, x, 1)
    return b.call(F.linear, x, w, bias)


@_translates("Softmax")
def _softmax(b: _Builder, op: PlainOperator) -> Any:
    check_known(op, [])
    (b.logits[op.outputs[0]],) = b.inputs(op)
    return b.call(torch.softmax, *b.inputs(op), 1)


@_translates("SoftmaxWithLoss")
def _softmax_with_loss(b: _Builder, op: PlainOperator) -> Any:
    check_known(op, [])
    scores, label = b.inputs(op)
    b.values[op.outputs[1]] = b.call(F.cross_entropy, scores, label)
    return b.call(torch.softmax, scores, 1)
