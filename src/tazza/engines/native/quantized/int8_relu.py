"""Int8Relu, Int8LeakyRelu: what each of the 256 bytes becomes, looked up; the larger one where scales are equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows
from tazza.codegen.emit import Lines
from tazza.codegen.kernel import threads_for
from tazza.codegen.loop import count_loop, share
from tazza.codegen.rows import element
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.engines.native.quantized.byte_table import UNIT, table_launch
from tazza.operator import Launch, OpView, Spec, launcher
from tazza.ops.quantized.int8_relu import INT8_LEAKY_RELU, INT8_RELU, int8_leaky_relu, int8_relu
from tazza.runtime.native_code import processor
from tazza.runtime.threads import thread_count
from tazza.tensor import PerTensor, TensorSpec


@launcher(INT8_RELU, engine="native", accepts=accepts_rows)
def prepare_int8_relu(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
    """Take the larger of each byte and that which stands for 0, or look it up where scales differ."""
    del op, context
    X, Y = cast("TensorSpec", inputs[0]), cast("TensorSpec", outputs[0])
    if X.quantization != Y.quantization:
        meanings = meanings_of(X, Y)
        return table_launch(lambda x, y: int8_relu(x, y, meanings), X.size)
    zero = min(max(cast("PerTensor", Y.quantization).zero_point, 0), 255)
    words = (threads_for(thread_count(), X.size, 1, 2), X.size, Slot("X"), Slot("Y"), zero)
    return BlockLaunch(SOURCES.compiled("larger bytes", _larger), words)


@launcher(INT8_LEAKY_RELU, engine="native", accepts=accepts_rows)
def prepare_int8_leaky_relu(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
    """Look every byte up."""
    del context
    meanings = meanings_of(inputs[0], outputs[0])
    return table_launch(lambda x, y: int8_leaky_relu(op, x, y, meanings), cast("TensorSpec", inputs[0]).size)


def meanings_of(X: Spec, Y: Spec) -> dict[str, PerTensor]:
    """Return what the bytes of X and Y mean."""
    return {letter: cast("PerTensor", cast("TensorSpec", one).quantization) for letter, one in (("X", X), ("Y", Y))}


def _larger(lines: Lines) -> None:
    """Whole vectors, then bytes."""
    begin, end = share(lines, lines.load_word("%block", 1), UNIT)
    X, Y = (lines.load_pointer("%block", i) for i in (2, 3))
    zero = lines.let(f"trunc i64 {lines.load_word('%block', 4)} to i8")
    count = processor().vector_bytes
    kind = f"<{count} x i8>"
    first = lines.let(f"insertelement {kind} poison, i8 {zero}, i32 0")
    zeros = lines.let(f"shufflevector {kind} {first}, {kind} poison, <{count} x i32> zeroinitializer")

    def move(i: str, kind: str, short: str, least: str) -> None:
        lines.declare(f"{kind} @llvm.umax.{short}({kind}, {kind})")
        q = lines.let(f"load {kind}, ptr {element(lines, X, i, 'i8')}, align 1")
        found = lines.let(f"call {kind} @llvm.umax.{short}({kind} {q}, {kind} {least})")
        lines.do(f"store {kind} {found}, ptr {element(lines, Y, i, 'i8')}, align 1")

    vectors = lines.let(f"udiv i64 {lines.let(f'sub i64 {end}, {begin}')}, {count}")

    def whole(n: str) -> None:
        at = lines.let(f"add i64 {begin}, {lines.let(f'mul i64 {n}, {count}')}")
        move(at, kind, f"v{count}i8", zeros)

    count_loop(lines, "0", vectors, whole)
    rest = lines.let(f"add i64 {begin}, {lines.let(f'mul i64 {vectors}, {count}')}")
    count_loop(lines, rest, end, lambda i: move(i, "i8", "i8", zero))
