"""A plain net as an ONNX model, for ONNX Runtime and OpenVINO. The batch is the free dimension `N`.

python -m benchmarks.onnx_net FOLDER    writes `model.onnx` beside `net.json`
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.job import ONNX_FILE, PARAMETERS_FILE, PlainNet, PlainOperator, check_known, window

OPSET = 17
BATCH = "N"

onnx: Any = import_module("onnx")
helper: Any = import_module("onnx.helper")

Translate = Callable[["_Builder", PlainOperator, list[str], str], None]
_TRANSLATIONS: dict[str, Translate] = {}


def _translates(*types: str) -> Callable[[Translate], Translate]:
    def decorate(function: Translate) -> Translate:
        _TRANSLATIONS.update(dict.fromkeys(types, function))
        return function

    return decorate


class _Builder:
    """Nodes in the making. ONNX names each value once: what is written in place gets a new name, see `values`."""

    def __init__(self, net: PlainNet) -> None:
        self.values = {name: name for name in (*net.inputs, *net.parameters)}
        self.shapes: dict[str, tuple[int, ...]] = {name: (1, *shape) for name, shape in net.inputs.items()}
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._made = 0

    def fresh(self, name: str) -> str:
        self._made += 1
        return f"{name}#{self._made}"

    def node(self, type: str, inputs: list[str], output: str, **attributes: Any) -> None:
        self.nodes.append(helper.make_node(type, inputs, [output], **attributes))

    def constant(self, value: NDArray[Any]) -> str:
        name = self.fresh("constant")
        self.constants.append(onnx.numpy_helper.from_array(value, name))
        return name

    def add(self, op: PlainOperator) -> None:
        translate = _TRANSLATIONS.get(op.type)
        if translate is None:
            raise ValueError(f"{op.type} is not translated to ONNX")
        output = self.fresh(op.outputs[0])
        translate(self, op, [self.values[name] for name in op.inputs], output)
        self.values[op.outputs[0]] = output
        self.shapes.update(zip(op.outputs, op.shapes, strict=False))


def onnx_model(net: PlainNet, parameters: Mapping[str, NDArray[Any]]) -> Any:
    """Return the ModelProto; its inputs and its output have the names of the net's.

    Raises:
        ValueError: an operator or argument that has no translation.
    """
    builder = _Builder(net)
    for op in net.operators:
        builder.add(op)
    builder.node("Identity", [builder.values[net.output]], net.output)
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        builder.nodes,
        net.name,
        [helper.make_tensor_value_info(name, kind, [BATCH, *shape]) for name, shape in net.inputs.items()],
        [helper.make_tensor_value_info(net.output, kind, [BATCH, *builder.shapes[net.operators[-1].inputs[0]][1:]])],
        [onnx.numpy_helper.from_array(parameters[name], name) for name in net.parameters] + builder.constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


WINDOW = ("kernel", "kernels", "stride", "strides", "pad", "pads", "order")


def _window_attributes(op: PlainOperator) -> dict[str, Any]:
    sizes = window(op)
    return {"kernel_shape": sizes.kernel, "strides": sizes.stride, "pads": [*sizes.begin, *sizes.end]}


@_translates("Conv")
def _conv(b: _Builder, op: PlainOperator, inputs: list[str], output: str) -> None:
    check_known(op, [*WINDOW, "dilation", "dilations", "group"])
    group = int(op.arguments.get("group", 1))
    b.node("Conv", inputs, output, dilations=window(op).dilation, group=group, **_window_attributes(op))


@_translates("MaxPool", "AveragePool")
def _pool(b: _Builder, op: PlainOperator, inputs: list[str], output: str) -> None:
    check_known(op, [*WINDOW, "global_pooling"])
    if op.arguments.get("global_pooling"):
        b.node(f"Global{op.type}", inputs, output)
    else:
        b.node(op.type, inputs, output, **_window_attributes(op))


@_translates("SpatialBN")
def _spatial_bn(b: _Builder, op: PlainOperator, inputs: list[str], output: str) -> None:
    check_known(op, ["is_test", "epsilon", "momentum", "order"])
    if not op.arguments.get("is_test"):
        raise ValueError("SpatialBN that trains is not translated to ONNX")
    b.node("BatchNormalization", inputs, output, epsilon=float(op.arguments.get("epsilon", 1e-5)))


@_translates("LRN")
def _lrn(b: _Builder, op: PlainOperator, inputs: list[str], output: str) -> None:
    check_known(op, ["size", "alpha", "beta", "bias", "order"])
    chosen = {name: op.arguments[name] for name in ("size", "alpha", "beta", "bias") if name in op.arguments}
    b.node("LRN", inputs, output, **chosen)


@_translates("Relu")
def _same_name(b: _Builder, op: PlainOperator, inputs: list[str], output: str) -> None:
    b.node(op.type, inputs, output)


@_translates("Clip")
def _clip(b: _Builder, op: PlainOperator, inputs: list[str], output: str) -> None:
    check_known(op, ["min", "max"])
    limits = [b.constant(np.array(op.arguments[name], np.float32)) for name in ("min", "max")]
    b.node("Clip", [*inputs, *limits], output)


@_translates("Dropout")
def _dropout(b: _Builder, op: PlainOperator, inputs: list[str], output: str) -> None:
    if not op.arguments.get("is_test"):
        raise ValueError("Dropout that trains is not translated to ONNX")
    b.node("Identity", inputs, output)


@_translates("Sum", "Add")
def _sum(b: _Builder, op: PlainOperator, inputs: list[str], output: str) -> None:
    check_known(op, [])
    b.node("Add" if len(inputs) == 2 else "Sum", inputs, output)


@_translates("Concat")
def _concat(b: _Builder, op: PlainOperator, inputs: list[str], output: str) -> None:
    check_known(op, ["axis", "order"])
    b.node("Concat", inputs, output, axis=int(op.arguments.get("axis", 1)))


@_translates("Reshape")
def _reshape(b: _Builder, op: PlainOperator, inputs: list[str], output: str) -> None:
    b.node("Reshape", [*inputs, b.constant(np.array(op.arguments["shape"], np.int64))], output)


@_translates("FC")
def _fc(b: _Builder, op: PlainOperator, inputs: list[str], output: str) -> None:
    check_known(op, [])
    x, *parameters = inputs
    if len(b.shapes[op.inputs[0]]) > 2:
        flat = b.fresh(op.inputs[0])
        b.node("Flatten", [x], flat, axis=1)
        x = flat
    b.node("Gemm", [x, *parameters], output, transB=1)


@_translates("Softmax")
def _softmax(b: _Builder, op: PlainOperator, inputs: list[str], output: str) -> None:
    check_known(op, [])
    b.node("Softmax", inputs, output, axis=1)


def main() -> None:
    """Translate the net of a folder."""
    folder = Path(sys.argv[1])
    model = onnx_model(PlainNet.read(folder), np.load(folder / PARAMETERS_FILE))
    onnx.save(model, str(folder / ONNX_FILE))


if __name__ == "__main__":
    main()
