"""Weights of a layer of bytes: Int8FCPackWeight, which makes bytes of W (M, K) and, in units of s_X s_W, of b (M).

Caffe2 put them into a blob of its own kind, in the order of its kernels. Here they are bytes with a scale, for all rows
or for each, which Int8FC takes. What they mean follows from the numbers in W, so that it is known when these are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from tazza.errors import ArgumentError, DTypeError
from tazza.operator import (
    FLOAT,
    PER_CHANNEL,
    PER_TENSOR,
    PLAIN,
    Array,
    Effects,
    OpView,
    Role,
    arg,
    blob,
    kernel,
    schema,
)
from tazza.ops.quantized.scale import INT32, NO_GRADIENT, UINT8, reaching
from tazza.ops.shape.axis import cut, matrix, product
from tazza.tensor import DataType, PerChannel, PerTensor, Quantization, TensorSpec

MOST_APART = 1e-4
"""By how much the scale of a bias that is given may differ from s_X s_W."""

INT8_FC_PACK_WEIGHT = schema(
    "Int8FCPackWeight",
    """W_q = W as bytes that reach from its least number to its largest; B_q = round(b / (in_scale * scale of W_q)).

    Whole numbers that have a scale keep it and are handed on.""",
    inputs=[
        blob(
            "W",
            FLOAT | UINT8,
            quantization=PLAIN | PER_TENSOR | PER_CHANNEL,
            role=Role.PARAMETER,
            doc="both extents possibly spread over several dimensions",
        ),
        blob("b", FLOAT | INT32, quantization=PLAIN | PER_TENSOR, optional=True, role=Role.PARAMETER),
    ],
    outputs=[
        blob("W_q", UINT8, quantization=PER_TENSOR | PER_CHANNEL, doc="(M, K)"),
        blob("B_q", INT32, optional=True, quantization=PER_TENSOR | PER_CHANNEL, doc="(M)"),
    ],
    args=[
        arg("axis_w", int, 1, minimum=0, doc="W is cut here"),
        arg("quantize_channelwise", bool, False, doc="a scale for each of the M rows"),
        arg("save_unpacked_weights", bool, False, doc="has no effect: they can always be fetched"),
        arg("in_scale", float, None, doc="scale of X; needed with b"),
    ],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Jacob and others 2018, arXiv 1712.05877, sections 2.4 and 3; Caffe2",
    example="""
    >>> W_q, B_q = run("Int8FCPackWeight", [[1.0, -1.0], [0.0, 1.55]], [0.5, 1.0], in_scale=0.5, outputs=2)
    >>> W_q.data.tolist(), W_q.zero_point, B_q.data.tolist()
    ([[200, 0], [100, 255]], 100, [100, 200])
    """,
)


@INT8_FC_PACK_WEIGHT.validate
def int8_fc_pack_weight_validate(op: OpView) -> None:
    if op.has_input("b") and op.in_scale is None:
        raise op.error(ArgumentError, "b needs the argument in_scale", "it is the scale of what the layer is given")
    if "B_q" in op.output_letters and not op.has_input("b"):
        raise op.error(ArgumentError, "there is no b to make B_q of", "give b, or leave B_q out")


@INT8_FC_PACK_WEIGHT.infer
def int8_fc_pack_weight_infer(op: OpView, W: TensorSpec, b: TensorSpec | None) -> tuple[TensorSpec | None, ...]:
    for letter, spec in (("W", W), ("b", b)):
        if spec is not None and (spec.dtype is DataType.FLOAT) != (spec.quantization is None):
            raise op.error(DTypeError, f"{letter} is {spec}", "give plain float32, or whole numbers with a scale")
    meaning = W.quantization if W.quantization is not None else _of_numbers(op)
    if meaning is None or W.dims is None:
        return (None,) * len(op.output_letters)
    M, K = (product(part) for part in cut(op, "axis_w", "W", W.dims))
    packed = TensorSpec((M, K), DataType.UINT8, quantization=meaning)
    if b is None or "B_q" not in op.output_letters:
        return (packed,)
    return packed, TensorSpec(b.dims, DataType.INT32, quantization=_of_bias(op, meaning, b))


def _of_numbers(op: OpView) -> PerTensor | PerChannel | None:
    """Return what bytes mean that reach as far as W does; None where its numbers are not known yet."""
    W = op.value_of("W")
    if W is None:
        return None
    rows = matrix(op, "axis_w", W) if cut(op, "axis_w", "W", W.shape) else W
    if not (op.quantize_channelwise and len(rows)):
        return reaching(op, "W", W)
    each = [reaching(op, "W", row) for row in rows]
    return PerChannel(0, tuple(one.scale for one in each), tuple(one.zero_point for one in each))


def _of_bias(op: OpView, W: Quantization, b: TensorSpec) -> PerTensor | PerChannel:
    """Return what whole numbers of b mean: its own scale where it has one, else s_X s_W."""
    s = np.float32(op.in_scale)
    if isinstance(W, PerChannel):
        units: PerTensor | PerChannel = PerChannel(
            0, tuple(float(s * np.float32(one)) for one in W.scales), (0,) * len(W.scales)
        )
    else:
        units = PerTensor(float(s * np.float32(cast("PerTensor", W).scale)))
    if b.quantization is None:
        return units
    given = cast("PerTensor", b.quantization)
    wanted = units.scale if isinstance(units, PerTensor) else max(units.scales, key=lambda one: abs(one - given.scale))
    relation = f"the scale of b is {given.scale:.6g}, in_scale and that of W give {wanted:.6g}"
    op.require(abs(given.scale - wanted) <= MOST_APART, relation)
    return given


@kernel(INT8_FC_PACK_WEIGHT)
def int8_fc_pack_weight(
    op: OpView, W: Array, b: Array | None, W_q: Array, B_q: Array | None, quantization: Mapping[str, Quantization]
) -> None:
    rows = matrix(op, "axis_w", W)
    W_q[...] = rows if W.dtype == np.uint8 else quantization["W_q"].integers(rows)
    if b is not None and B_q is not None:
        B_q[...] = b if b.dtype == np.int32 else quantization["B_q"].integers(b, DataType.INT32)
