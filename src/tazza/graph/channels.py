"""Layers and the vectors behind them: what a layer gives, known or not, and which vectors lie along its channels.

Layers are the convolutions, FC and MatMul; the channels of the last two are their features. Before a net has run the
shapes of its data are unknown, those of its weights are not: from these follow the rank of the result and M, the
number of its channels.
"""

from __future__ import annotations

from tazza.errors import ShapeError
from tazza.graph.composition import formula_names, lying_dims
from tazza.graph.graph import Graph, Node, Order, Value
from tazza.ops.math.arithmetic import binaries
from tazza.ops.nn.conv import CONVS
from tazza.ops.nn.conv_transpose import CONV_TRANSPOSE
from tazza.ops.shape.reshape import FLATTEN_TO_VEC
from tazza.tensor import TensorSpec

ADD, MUL = binaries["Add"], binaries["Mul"]
CONVOLUTIONS = frozenset(one.type for one in (*CONVS, CONV_TRANSPOSE))


def vector_behind(layer: Node, node: Node, source: Value) -> Value | None:
    """Return the other operand of an Add or Mul of `source`, which has the shape of what `layer` gives.

    None where it has not one element for each channel, or lies along another axis. One that is no vector but lies as
    one, such as (M, 1, 1), must be constant, so that it can be made one beforehand.
    """
    if node.view.schema not in (ADD, MUL) or node.inputs.count(source) != 1:
        return None
    position = 1 - node.inputs.index(source)
    if node.view.broadcast and position == 0:  # A then gives the shape
        return None
    value, result = node.inputs[position], _result(layer)
    spec = value.tensor
    if spec is None or result is None or result.dims is None or spec.dtype is not result.dtype:
        return None
    axis = 1 if layer.type in CONVOLUTIONS and str(layer.view.order).upper() == "NCHW" else len(result.dims) - 1
    M = result.dims[axis]
    if M is None or not (len(spec.shape) == 1 or value.constant):
        return None
    extents = tuple(M if i == axis else 1 for i in range(len(result.dims)))
    names = formula_names(node)
    try:
        lies = lying_dims(node, {names[1 - position]: result, names[position]: spec})[names[position]]
    except ShapeError:  # who runs it is told
        return None
    return value if (1,) * (len(extents) - len(lies)) + lies == extents else None


def as_vector(graph: Graph, value: Value, like: Node, order: Order) -> Value:
    """Return a value with M elements as a vector (M): itself, or what makes it one."""
    spec = value.tensor
    assert spec is not None, "vector_behind says so"
    if len(spec.shape) == 1:
        return value
    made = graph.fresh(value, f"{value.name}_vector", TensorSpec((spec.size,), spec.dtype))
    graph.add(FLATTEN_TO_VEC.type, [value], [made], like=like, order=order, origins=like.origins, copy_arguments=False)
    return made


def _result(layer: Node) -> TensorSpec | None:
    """Return what is known of what a layer gives."""
    known, weights = layer.outputs[0].tensor, layer.inputs[1].tensor
    if known is not None or weights is None:
        return known
    specs = [TensorSpec(None, weights.dtype) if value.spec is None else value.spec for value in layer.inputs]
    try:
        found = layer.view.schema.infer_specs(layer.view, specs).specs[0]
    except ShapeError:
        return None
    return found if isinstance(found, TensorSpec) else None
