"""Integers that are given: Int8GivenTensorFill makes bytes, as filters are, Int8GivenIntTensorFill biases of int32.

Caffe2 knew one scale for all. `Y_scales` and `Y_zero_points` along `axis` are of tazza: one for each channel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import (
    PER_CHANNEL,
    PER_TENSOR,
    ArgSpec,
    Array,
    Effects,
    OpSchema,
    OpView,
    arg,
    blob,
    family,
    kernel,
    schema,
)
from tazza.ops.quantized.scale import NO_GRADIENT, SCALE_ARGS, given_quantization
from tazza.tensor import DataType, PerChannel, PerTensor, TensorSpec

FILL_ARGS = (
    arg("shape", list[int], [], minimum=0, doc="extents of Y"),
    *SCALE_ARGS,
    arg("Y_scales", list[float], [], doc="a scale for each slice along `axis`, in place of Y_scale"),
    arg("Y_zero_points", list[int], [], doc="a zero point for each scale; 0 where there are none"),
    arg("axis", int, 0, minimum=0, doc="along which the scales vary"),
)


def filled_quantization(op: OpView) -> PerTensor | PerChannel:
    """Return what the integers shall stand for."""
    if not op.Y_scales:
        return given_quantization(op)
    points = op.Y_zero_points if op.Y_zero_points else [0] * len(op.Y_scales)
    return PerChannel(op.axis, tuple(op.Y_scales), tuple(points))


def int8_given_tensor_fill(op: OpView, Y: Array) -> None:
    Y[...] = np.frombuffer(op.values, np.uint8).reshape(Y.shape)


def int8_given_int_tensor_fill(op: OpView, Y: Array) -> None:
    Y[...] = np.array(op.values, np.int64).astype(np.int32).reshape(Y.shape)


@dataclass(frozen=True, slots=True)
class GivenIntegers:
    """What tells one fill from another: its element type, its `values` as an argument, and its kernel."""

    dtype: DataType
    values: ArgSpec
    compute: Callable[[OpView, Array], None]
    example: str


@family(
    {
        "Int8GivenTensorFill": GivenIntegers(
            DataType.UINT8,
            arg("values", bytes, b"", doc="one for each element"),
            int8_given_tensor_fill,
            r"""
            >>> run("Int8GivenTensorFill", shape=[2], values=b"\x03\xff", Y_scale=0.5, Y_zero_point=3)
            Int8Tensor(data=array([  3, 255], dtype=uint8), scale=0.5, zero_point=3)
            """,
        ),
        "Int8GivenIntTensorFill": GivenIntegers(
            DataType.INT32,
            arg("values", Sequence[int], [], doc="one for each element"),
            int8_given_int_tensor_fill,
            """
            >>> run("Int8GivenIntTensorFill", shape=[2], values=[-1, 70000], Y_scale=0.5)
            Int8Tensor(data=array([   -1, 70000], dtype=int32), scale=0.5, zero_point=0)
            """,
        ),
    }
)
def int8_fills(type: str, row: GivenIntegers) -> OpSchema:
    """A fill with given integers of one type."""
    made = schema(
        type,
        f"Y = values, in row-major order, as {row.dtype} with a scale and a zero point.",
        outputs=[blob("Y", frozenset({row.dtype}), quantization=PER_TENSOR | PER_CHANNEL)],
        args=[row.values, *FILL_ARGS],
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=row.example,
    )
    kernel(made)(row.compute)

    @made.infer
    def int8_fill_infer(op: OpView) -> TensorSpec:
        spec = TensorSpec(tuple(op.shape), row.dtype, quantization=filled_quantization(op))
        relation = f"{len(op.values)} values are given for the {spec.size} elements of shape {tuple(op.shape)}"
        op.require(len(op.values) == spec.size, relation, "give one value for each element")
        return spec

    return made
