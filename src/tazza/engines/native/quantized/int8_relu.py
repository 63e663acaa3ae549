"""Int8Relu, Int8LeakyRelu: what each of the 256 bytes becomes, looked up; the larger one where scales are equal."""

from __future__ import annotations

from typing import cast

from tazza.codegen.block import BlockLaunch
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import each_vector, share
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.engines.native import SOURCES, native
from tazza.engines.native.quantized.byte_table import UNIT, table_launch
from tazza.operator import Launch, OpView, Spec
from tazza.ops.quantized.int8_relu import INT8_LEAKY_RELU, INT8_RELU, int8_leaky_relu, int8_relu
from tazza.runtime.native_code import processor
from tazza.tensor import DataType, PerTensor, TensorSpec

BLOCK = Fields("threads size zero", addresses="X Y")


@native(INT8_RELU)
def prepare_int8_relu(X: TensorSpec, Y: TensorSpec) -> Launch:
    """Take the larger of each byte and that which stands for 0, or look it up where scales differ."""
    if X.quantization != Y.quantization:
        meanings = meanings_of(X, Y)
        return table_launch(lambda x, y: int8_relu(x, y, meanings), X.size)
    zero = min(max(cast("PerTensor", Y.quantization).zero_point, 0), 255)
    words = BLOCK.words(threads=threads_of(X.size, 1, 2), size=X.size, zero=zero)
    return BlockLaunch(SOURCES.compiled("larger bytes", _larger), words)


@native(INT8_LEAKY_RELU)
def prepare_int8_leaky_relu(op: OpView, X: TensorSpec, Y: TensorSpec) -> Launch:
    """Look every byte up."""
    meanings = meanings_of(X, Y)
    return table_launch(lambda x, y: int8_leaky_relu(op, x, y, meanings), X.size)


def meanings_of(X: Spec, Y: Spec) -> dict[str, PerTensor]:
    """Return what the bytes of X and Y mean."""
    return {letter: cast("PerTensor", cast("TensorSpec", one).quantization) for letter, one in (("X", X), ("Y", Y))}


def _larger(lines: Lines) -> None:
    """Take the larger of each byte and zero."""
    v = Vector(lines, processor().vector_bytes, DataType.UINT8)
    at = BLOCK.lazily(lines)
    X, Y, zero = at.X, at.Y, v.full(at.zero)

    def some(i: Term, mask: Term | None) -> None:
        v.store(v.load(X, i, mask).intrinsic("umax", zero), Y, i, mask)

    each_vector(v, *share(lines, at.size, UNIT), some)
