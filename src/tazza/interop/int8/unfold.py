"""Nets in which each name is written once, and batch normalization is part of the convolution before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.operator import find_schema
from tazza.ops.nn.batch_norm import SPATIAL_BN
from tazza.ops.nn.conv import CONVS
from tazza.proto import NetDef, OperatorDef

Parameters = Mapping[str, NDArray[Any]]


def with_own_names(net: NetDef) -> NetDef:
    """Return a net in which no operator writes a name that is there: the last value of each keeps it.

    >>> from tazza.operator import operator_def
    >>> net = NetDef(op=[operator_def("Relu", ["x"], ["y"]), operator_def("Relu", ["y"], ["y"])])
    >>> [(*op.input, *op.output) for op in with_own_names(net).op]
    [('x', 'y.0'), ('y.0', 'y')]
    """
    made = NetDef()
    made.CopyFrom(net)
    left = Counter(name for op in made.op for name in op.output)
    present: dict[str, str] = {}
    count: Counter[str] = Counter()
    for op in made.op:
        op.input[:] = [present.get(name, name) for name in op.input]
        for i, name in enumerate(op.output):
            left[name] -= 1
            present[name] = f"{name}.{count[name]}" if left[name] else name
            count[name] += 1
            op.output[i] = present[name]
    return made


def folded(net: NetDef, parameters: Parameters) -> tuple[NetDef, dict[str, NDArray[Any]]]:
    """Return the net without the normalizations that stand alone behind a convolution, and its parameters.

    W becomes W * g and b becomes (b - mean) * g + bias, with g = scale / sqrt(var + epsilon) for each output channel.
    """
    made, values = NetDef(), dict(parameters)
    made.CopyFrom(net)
    readers = Counter(name for op in net.op for name in op.input)
    kept_names = {*net.external_output}
    layers = {op.output[0]: op for op in made.op if op.type in CONV_TYPES and op.input[1] in values}
    gone: list[OperatorDef] = []
    for op in made.op:
        layer = layers.get(op.input[0]) if op.type == SPATIAL_BN.type else None
        if layer is None or readers[op.input[0]] > 1 or op.input[0] in kept_names or not _tests(op):
            continue
        if not all(name in values for name in (*layer.input[1:], *op.input[1:])):
            continue
        _fold(layer, op, values)
        gone.append(op)
    for op in gone:
        made.op.remove(op)
    written = {name for op in made.op for name in op.output}
    read = [
        name
        for name in dict.fromkeys((*net.external_input, *(name for op in made.op for name in op.input)))
        if name not in written
    ]
    del made.external_input[:]
    made.external_input.extend(read)
    return made, values


CONV_TYPES = frozenset(one.type for one in CONVS)


def _tests(op: OperatorDef) -> bool:
    return bool(find_schema(op.type).view(op).is_test)


def _fold(layer: OperatorDef, op: OperatorDef, values: dict[str, NDArray[Any]]) -> None:
    scale, bias, mean, var = (values[name].astype(np.float64) for name in op.input[1:5])
    gain = scale / np.sqrt(var + find_schema(op.type).view(op).epsilon)
    W = values[layer.input[1]]
    b = values[layer.input[2]].astype(np.float64) if len(layer.input) > 2 else np.zeros(len(W))
    out = op.output[0]
    values[f"{out}_w"] = (W * gain.reshape(-1, *[1] * (W.ndim - 1))).astype(np.float32)
    values[f"{out}_b"] = ((b - mean) * gain + bias).astype(np.float32)
    layer.input[1:] = [f"{out}_w", f"{out}_b"]
    layer.output[0] = out
